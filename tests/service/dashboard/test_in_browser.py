"""The dashboard in a real Chromium, against a real server."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route

from lhb import Client
from service.commands.keys import new_key, save_key
from service.session.records import ApiKey
from service.storage.database_url import open_store
from service.transfer.without_server import run
from tests.faults.server_process import served
from tests.service.dashboard.shown import show, wait_for_all

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("dashboard") / "test.db") as address:
        with Client(address) as client:
            play(client, "newsletter", 60)
            client.create_session("without a round", dim=2, horizon=5)
            play(client, "named / shop", 24, features=["price", "a feature with a long name"])
            log(client, "logged", 200)
            log(client, "early", 40)
            log(client, "seasonal", 200, options={"seasonality": [{"period": 7}]})
        yield address


def log(client: Client, name: str, n_rounds: int, **settings: Any) -> None:
    """A session whose first fit has enough rounds to say intervals: a round ago pays."""
    session = client.create_session(name, dim=2, horizon=4, refit="blocking", seed=1, **settings)
    numbers = random.Random(1)
    chosen = [[numbers.uniform(-1, 1), numbers.uniform(-1, 1)] for _ in range(n_rounds)]
    paid = [0.0] + [one for one, _ in chosen[:-1]]
    session.history(chosen, [1 + one + numbers.gauss(0, 0.3) for one in paid])
    session.decide(chosen[:3])


def play(client: Client, name: str, n_rounds: int, **settings: Any) -> None:
    """What was chosen a round ago pays, by its first feature."""
    session = client.create_session(name, dim=2, horizon=4, refit="blocking", seed=1, **settings)
    numbers, past = random.Random(1), 0.0
    for _ in range(n_rounds):
        contexts = [[numbers.uniform(-1, 1), numbers.uniform(-1, 1)] for _ in range(4)]
        decision = session.decide(contexts)
        session.reward(1 + past + numbers.gauss(0, 0.05), round=decision.round)
        past = contexts[decision.arm][0]


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['help']}" for one in found if one["impact"] in LEVELS]


LEVELS = ("serious", "critical")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_list_and_a_session_open(page: Page, url: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    show(page, url)
    page.get_by_role("link", name="newsletter").wait_for()
    assert "6 sessions" in page.inner_text("main")
    assert serious(page) == []
    page.get_by_label("Search").fill("newsl")
    assert "1 of 6 sessions" in page.inner_text("main")
    page.get_by_role("link", name="newsletter").click()
    page.get_by_text("decides by what it learned").wait_for()
    page.get_by_text("Live: this page follows the session.").wait_for()
    page.locator(".uplot").nth(1).wait_for()
    wait_for_all(page)
    assert "still to come" in page.inner_text("main")
    assert serious(page) == []


def test_it_fits_a_phone_and_is_reached_by_keyboard(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    show(page, url)
    page.get_by_role("link", name="newsletter").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_role("link", name="newsletter").focus()
    page.keyboard.press("Enter")
    page.locator(".uplot").nth(1).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_page_is_busy_until_its_last_part_has_come(page: Page, url: str) -> None:
    held: list[Route] = []
    page.route("**/series?*", lambda route: held.append(route))
    with page.expect_request("**/series?*"):
        page.goto(f"{url}/#/sessions/newsletter")
    page.get_by_role("heading", name="newsletter", level=1).wait_for()
    assert page.locator("main").get_attribute("aria-busy") == "true"
    for one in held:
        one.continue_()
    page.unroute("**/series?*")
    wait_for_all(page)
    assert page.locator(".uplot").count() > 1


def test_a_session_is_followed(page: Page, url: str) -> None:
    with Client(url) as client:
        session = client.create_session("followed", dim=2, horizon=4)
        show(page, f"{url}/#/sessions/{session.id}")
        page.get_by_text("no round yet", exact=True).wait_for()
        page.get_by_text("Live: this page follows the session.").wait_for()
        session.decide([[1.0, 0.0], [0.0, 1.0]])
        page.get_by_text("exploring", exact=True).wait_for()
        session.delete()


def test_the_fits_can_be_walked_through_and_saved(page: Page, url: str) -> None:
    show(page, url)
    page.get_by_role("link", name="newsletter").click()
    slider = page.get_by_label("Fit to show")
    page.locator(".uplot").nth(1).wait_for()
    wait_for_all(page)
    newest = page.locator("output").inner_text()
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator("output").inner_text() != newest
    with page.expect_download() as csv:
        page.get_by_role("button", name="Save Lag weights: which past choices pay as CSV").click()
    rows = Path(csv.value.path()).read_text().splitlines()
    assert rows[0].startswith("lag,weight")
    assert csv.value.suggested_filename == "newsletter lag weights.csv"
    with page.expect_download() as png:
        page.get_by_role("button", name="Save What came, and what it is made of as PNG").click()
    assert Path(png.value.path()).read_bytes().startswith(b"\x89PNG")


def test_intervals_are_whiskers_around_the_weights(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/logged")
    page.get_by_text("Whiskers: 95% intervals.").wait_for()
    with page.expect_download() as csv:
        page.get_by_role("button", name="Save Lag weights: which past choices pay as CSV").click()
    rows = [line.split(",") for line in Path(csv.value.path()).read_text().splitlines()]
    assert rows[0] == ["lag", "weight", "low", "high"]
    bounded = [[float(cell) for cell in row[1:]] for row in rows[1:] if row[2]]
    assert bounded
    assert all(low <= weight <= high for weight, low, high in bounded)


@pytest.mark.parametrize(
    ("name", "says"), [("logged", "Whiskers: 95% intervals."), ("early", "Dashed whiskers: 95% of")]
)
def test_whiskers_that_may_not_hold_are_dashed_and_said_to_be(
    page: Page, url: str, name: str, says: str
) -> None:
    page.add_init_script("""
        const set = CanvasRenderingContext2D.prototype.setLineDash
        window.dashes = []
        CanvasRenderingContext2D.prototype.setLineDash = function (dash) {
          dashes.push(String(dash))
          return set.call(this, dash)
        }""")
    show(page, f"{url}/#/sessions/{name}")
    card = page.locator("section.card", has_text="Lag weights: which past choices pay")
    card.locator(".uplot").wait_for()
    assert says in card.inner_text()
    with Client(url) as client:
        why = client.session(name).estimate()["no_intervals"]
    assert (why or "").split(".")[0] in card.inner_text()
    assert ("2,3" in page.evaluate("dashes")) == (name == "early")


def test_what_moves_the_reward_besides_is_listed(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/seasonal")
    page.get_by_role("heading", name="What moves the reward besides").wait_for()
    effects = page.get_by_role("table", name="Effects that do not depend on what is chosen")
    assert "a swing (period 7)\t<0.1%" in effects.inner_text()  # the log tells no times
    assert serious(page) == []
    show(page, f"{url}/#/sessions/logged")
    page.get_by_text("Whiskers: 95% intervals.").wait_for()
    assert not page.get_by_role("heading", name="What moves the reward besides").is_visible()


def test_features_have_their_names_and_a_page_the_name_of_its_session(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/{quote('named / shop', safe='')}")
    page.locator(".uplot").nth(1).wait_for()
    assert page.get_by_role("heading", level=1).inner_text() == "named / shop"
    rows = page.get_by_role("table", name="Credit by feature").locator("tbody tr")
    names = rows.locator(":scope > :first-child").all_inner_texts()
    assert names == ["price", "a feature with a long name"]
    assert "came after the next round had begun" not in page.inner_text("main")
    page.get_by_text("Data and fits").click()
    assert "came after the next round had begun" in page.inner_text("main")


def test_sessions_are_compared(page: Page, url: str) -> None:
    show(page, url)
    page.get_by_label("Compare newsletter").check()
    assert page.get_by_role("button", name="tick two or more to compare").is_disabled()
    page.get_by_label("Compare named / shop").check()
    page.get_by_role("button", name="Compare 2 sessions").click()
    page.locator(".uplot").nth(2).wait_for()
    wait_for_all(page)
    assert "strongest lag" in page.inner_text("main")
    assert serious(page) == []
    with page.expect_download() as csv:
        page.get_by_role("button", name="Save Theta: what makes a choice good as CSV").click()
    rows = [line.split(",") for line in Path(csv.value.path()).read_text().splitlines()]
    assert sorted(rows[0][1:]) == ["named / shop", "newsletter"]
    features = {row[0]: row[1:] for row in rows[1:]}
    assert set(features) == {"price", "a feature with a long name", "0", "1"}
    assert all(cells.count("") == 1 for cells in features.values())  # each is one session's own


def test_the_playground_is_closed_unless_it_is_opened(
    page: Page, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    show(page, f"{url}/#/playground")
    page.get_by_text("The playground is closed.").wait_for()
    assert page.get_by_role("link", name="Playground").count() == 0
    monkeypatch.setenv("LHB_PLAYGROUND", "true")
    page.emulate_media(reduced_motion="reduce")
    with served(tmp_path / "play.db") as opened:
        page.origin[0] = opened  # type: ignore[attr-defined]
        show(page, opened)
        page.get_by_text("There is no session yet.").wait_for()
        assert serious(page) == []
        page.get_by_role("link", name="Playground").click()
        page.get_by_label("When a choice pays").select_option("two rounds later")
        page.get_by_label("Rounds", exact=True).fill("200")
        page.get_by_role("button", name="Play", exact=True).click()
        said = page.locator("form").get_by_text("After 200 rounds the agent's regret is")
        said.wait_for(timeout=100_000)  # of which its process may begin for a minute
        assert serious(page) == []
        with page.expect_download() as csv:
            page.get_by_role("button", name="Save Lag weights as CSV").click()
        lags = [line.split(",") for line in Path(csv.value.path()).read_text().splitlines()][1:]
        assert [float(true) for _, _, true in lags] == [0.0, 0.0, 1.0]
        assert max(lags, key=lambda row: float(row[1]))[0] == "2"


def test_what_is_not_there_is_said(page: Page, url: str) -> None:
    page.expected = {  # type: ignore[attr-defined]
        "error: Failed to load resource: the server responded with a status of 404 (Not Found)"
    }
    show(page, f"{url}/#/sessions/nothing")
    page.get_by_role("alert").get_by_text("There is no such session").wait_for()
    page.get_by_role("link", name="All sessions").click()
    page.get_by_role("link", name="newsletter").wait_for()


def test_a_key_opens_it_and_stays_out_of_the_url(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "keys.db"
    monkeypatch.setenv("LHB_DATABASE_URL", f"sqlite:///{database}")
    key, row = new_key("", "dashboard", 0.0)
    store_key(str(database), row)
    refused = "error: Failed to load resource: the server responded with a status of 401"
    # one for each request that was under way without the key: how many is a matter of timing
    page.expected = {f"{refused} (Unauthorized)"}  # type: ignore[attr-defined]
    with served(database) as url:
        page.origin[0] = url  # type: ignore[attr-defined]
        show(page, url)
        page.get_by_label("API key").fill("lhb_wrong")
        page.get_by_role("button", name="Open").click()
        page.get_by_text("This key is not known").wait_for()
        assert serious(page) == []
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        page.get_by_text("There is no session yet.").wait_for()
        assert key not in page.url
        assert page.context.cookies() == []
        page.get_by_role("button", name="Forget the key").click()
        page.get_by_label("API key").wait_for()


def store_key(database: str, row: ApiKey) -> None:
    open_store(f"sqlite:///{database}").close()
    run(f"sqlite:///{database}", save_key(row), "")
