"""What the pages of sessions with levels, covariates, many trajectories and a clock show."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

from lhb import Client
from tests.faults.server_process import served
from tests.service.dashboard.shown import show, wait_for_all

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("dashboard") / "test.db") as address:
        with Client(address) as client:
            log_learners(client)
            play_hours(client)
            log_clickbait(client)
            log_tastes(client)
        yield address


def log_learners(client: Client) -> None:
    """24 learners whose levels lie two apart; a choice pays now, and half of it a round later."""
    options = {"levels": True, "covariates": ["noise"]}
    session = client.create_session(
        "learners", dim=2, horizon=4, refit="blocking", seed=1, options=options
    )
    numbers = random.Random(1)
    for learner in range(24):
        chosen = [[numbers.uniform(-1, 1), numbers.uniform(-1, 1)] for _ in range(30)]
        noise = [numbers.gauss(0, 1) for _ in chosen]
        pays = [one[0] for one in chosen]
        scores = [
            2 * learner + pays[i] + 0.5 * (pays[i - 1] if i else 0) + 3 * noise[i]
            for i in range(30)
        ]
        session.history(
            chosen,
            [score + numbers.gauss(0, 0.1) for score in scores],
            trajectory=f"learner-{learner:02}",
            covariates={"noise": noise},
        )
    session.decide(chosen[:3], trajectory="learner-00")


def log_clickbait(client: Client) -> None:
    """Clickbait pays at once and costs later; depth pays later. The first fit knows."""
    settings = {"features": ["depth", "clickbait"], "refit": "blocking", "seed": 1}
    session = client.create_session("clickbait", dim=2, horizon=8, **settings)
    numbers = random.Random(1)
    shown = [[numbers.uniform(-1, 1), numbers.uniform(-1, 1)] for _ in range(600)]
    rewards = [
        one[1]
        + sum(0.25 * depth - 0.3 * bait for depth, bait in shown[max(0, i - 5) : i])
        + numbers.gauss(0, 0.3)
        for i, one in enumerate(shown)
    ]
    session.history(shown, rewards)
    session.decide(shown[:3])


def log_tastes(client: Client) -> None:
    """12 people, who differ in what a reminder does, and not in what an offer does."""
    settings = {"features": ["reminder", "offer"], "refit": "blocking", "seed": 1}
    session = client.create_session("tastes", dim=2, horizon=2, options={"own": True}, **settings)
    numbers = random.Random(1)
    for i in range(12):
        shown = [[numbers.gauss(0, 1), numbers.gauss(0, 1)] for _ in range(30)]
        rewards = [(i - 5.5) / 4 * a + b + numbers.gauss(0, 0.1) for a, b in shown]
        session.history(shown, rewards, trajectory=f"p/{i:02}")
    session.decide(shown[:3], trajectory="p/00")
    session.decide(shown[:3], trajectory="new")


def play_hours(client: Client) -> None:
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=20)
    clock = {"slot_seconds": 3600, "start": start.isoformat()}
    session = client.create_session("by the hour", dim=2, horizon=4, clock=clock)
    for hour in range(20):
        begin = start + timedelta(hours=hour)
        session.decide([[1.0, 0.0], [0.0, 1.0]], at=begin + timedelta(minutes=5))
        session.reward(float(hour), interval=(begin, begin + timedelta(hours=1)))


def test_levels_and_covariates_are_said_in_units_of_reward(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/learners")
    page.get_by_role("heading", name="What moves the reward besides").wait_for()
    said = page.inner_text("main")
    with Client(url) as client:
        levels = client.session("learners").estimate()["levels"]
    low, high = levels["interval"]
    assert f"differ in level by {levels['spread']:.3g} (" in said
    assert f"interval {low:.3g} to {high:.3g})" in said
    effects = page.get_by_role("table", name="Effects that do not depend on what is chosen")
    effects.wait_for()
    name, adds, *_ = effects.locator("tbody tr").first.inner_text().split("\t")
    assert name == "noise"
    assert abs(float(adds) - 3) < 0.1
    assert "Half of what a choice earns comes in its own round, nine tenths within 1 round." in said
    assert "Others' choices of 720 rounds, as in a log of what you had, earned" in said


def test_users_are_shown_side_by_side_and_one_alone(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/learners")
    said = page.get_by_text("eight of ten users lie in the band")
    said.wait_for()
    came = page.locator("section.card", has_text="What came, and what it is made of")
    assert "round of each user 30" in came.inner_text()  # 24 users: not 720 rounds
    page.get_by_label("One user alone").fill("learner-07")
    page.get_by_role("button", name="Show").click()
    said.wait_for(state="hidden")
    with Client(url) as client:
        [whole] = client.session("learners").series(bins=1, trajectory="learner-07")["items"]
    level = whole["parts"]["levels"]
    assert f"users' levels {level:.3g}." in came.inner_text()  # the same in all rounds


def test_lag_profiles_of_their_own_are_drawn_and_added_up(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/clickbait")
    profiles = page.locator("section", has=page.get_by_role("heading", name="Lag profiles")).last
    profiles.locator(".uplot").wait_for()
    with page.expect_download() as download:
        profiles.get_by_role("button", name="CSV").click()
    head, *rows = download.value.path().read_text().splitlines()
    assert head.startswith("lag,depth,clickbait,")
    sums = [sum(float(row.split(",")[i]) for row in rows) for i in (1, 2)]
    assert abs(sums[0] - 1.25) < 0.3
    assert abs(sums[1] + 0.5) < 0.3
    assert "Bands: 95% intervals." in profiles.inner_text()
    with Client(url) as client:
        estimate = client.session("clickbait").estimate()
    form = estimate["form"]
    one = estimate["forms"][form]
    better = f"{-one['excess'] / one['variance'] ** 0.5:+.1f} standard errors better than shared"
    assert form != "shared"
    assert f"Lag profiles: {form}; " in profiles.inner_text()
    assert f"{form} ones predict {better} ones" in profiles.inner_text()
    by_feature = page.get_by_role("table", name="Credit by feature").locator("tbody tr")
    by_feature.last.wait_for()  # cells of a table that is not shown yet have no tabs between them
    rows = [row.split("\t") for row in by_feature.all_inner_texts()]
    assert [row[0] for row in rows] == ["depth", "clickbait"]
    assert abs(float(rows[1][1].split()[0]) + 0.5) < 0.3  # one more of it
    with Client(url) as client:
        [_, clickbait] = client.session("clickbait").credit_by_feature()["items"]
    assert clickbait["at_once"] * clickbait["later"] < 0
    findings = page.get_by_label("What to do").locator("li")
    assert "negative in all" in findings.first.inner_text()  # the worst one
    show(page, f"{url}/#/sessions/learners")
    weights = page.locator("section.card", has_text="Lag weights: which past choices pay")
    assert "Lag profiles: shared" in weights.inner_text()
    assert not page.get_by_role("heading", name="Lag profiles").is_visible()


@pytest.mark.parametrize("name", ["clickbait", "learners"])
def test_what_one_more_of_a_feature_pays_is_drawn_in_two_parts(
    page: Page, url: str, name: str
) -> None:
    """Split as all choices' credit is, with intervals where features have profiles of their own."""
    show(page, f"{url}/#/sessions/{name}")
    card = page.locator("section.card", has_text="One more of each feature: at once and later")
    card.locator(".uplot").wait_for()
    with Client(url) as client:
        session = client.session(name)
        estimate, credit = session.estimate(), session.credit_by_feature()["items"]
    weights, theta = estimate["lag_weights"], estimate["theta"]
    profiles = estimate["lag_profiles"] or [[w * one for one in theta] for w in weights]
    bands = (estimate["intervals"] or {}).get("lag_sums")
    assert (bands is not None) == (name == "clickbait")
    assert ("Whiskers: 95% intervals." in card.inner_text()) == (name == "clickbait")
    rows = csv_of(page, card)
    assert len(rows) == 2
    for i, (label, *values) in enumerate(rows):
        n = credit[i]["first_lags"]
        paid = [row[i] for row in profiles]
        ends = [*bands[i][0], *bands[i][1]] if bands else []
        assert label == (session.info["features"] or "01")[i]
        assert values == pytest.approx([sum(paid[:n]), sum(paid[n:]), *ends])


def test_a_session_with_a_clock_counts_hours(page: Page, url: str) -> None:
    show(page, url)
    spark = page.locator("tr", has=page.get_by_role("link", name="by the hour")).locator("canvas")
    spark.wait_for()
    with page.expect_response(lambda answer: "/series" in answer.url and answer.status == 200):
        page.reload()  # rewards are drawn beside its name
    page.get_by_role("link", name="by the hour").click()
    page.get_by_text("Data and fits").click()
    page.get_by_text("hours looked at").wait_for()
    wait_for_all(page)
    said = page.inner_text("main")
    assert "20 (95%)" in said  # measured, of 21 slots
    assert "A reward is the total of whole hours." in said
    assert "due after hour of the session" in said


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_how_users_differ_and_one_user_beside_everybody(page: Page, url: str, scheme: str) -> None:
    """By feature, in words and a plot; a user is found by key, and by a link; on a phone, too."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 390, "height": 800})
    show(page, f"{url}/#/sessions/tastes")
    spread = page.locator("section.card", has_text="How users differ in what works for them")
    spread.locator(".uplot").wait_for()
    with Client(url) as client:
        session = client.session("tastes")
        own, one, new = session.estimate()["own"], *map(session.trajectory, ("p/11", "new"))
    assert own["message"].startswith("Trajectories differ in what reminder does by ")
    assert own["message"].replace("Trajectories", "Users") in spread.inner_text()
    assert csv_of(page, spread)[0] == ["reminder", own["spread"][0], *own["intervals"][0]]
    page.get_by_label("One user beside everybody").fill("p/11")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("by its own theta").wait_for()
    plot = page.locator("section.card", has_text="What works for this user, and for everybody")
    row = csv_of(page, plot)[0]
    assert row[1:5] == [
        *(one[who]["values"][0] for who in ("own", "everybody")),
        *one["own"]["intervals"][0],
    ]
    assert page.url.endswith("#/sessions/tastes/p%2F11")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    violations = Axe().run(page).response["violations"]
    assert [one["id"] for one in violations if one["impact"] in ("serious", "critical")] == []
    show(page, f"{url}/#/sessions/tastes/new")
    page.get_by_text("1 round. Decisions for this user").wait_for()
    assert csv_of(page, plot)[0][1:3] == [new["everybody"]["values"][0]] * 2
    missing = "Failed to load resource: the server responded with a status of 404 (Not Found)"
    page.expected = {f"error: {missing}"}  # type: ignore[attr-defined]
    page.get_by_label("One user beside everybody").fill("nobody")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("the session has no trajectory 'nobody'").wait_for()
    plot.wait_for(state="hidden")


def csv_of(page: Page, card: Locator) -> list[list[Any]]:
    """The rows of a plot's CSV: a name, then numbers."""
    with page.expect_download() as download:
        card.get_by_role("button", name="CSV").click()
    rows = [line.split(",") for line in download.value.path().read_text().splitlines()[1:]]
    return [[name, *(float(one) for one in values if one)] for name, *values in rows]
