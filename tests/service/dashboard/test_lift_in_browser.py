"""The panel of lift in a real Chromium."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from lhb import Client
from tests.faults.server_process import served
from tests.service.dashboard.shown import show

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("dashboard") / "test.db") as address:
        with Client(address) as client:
            compare(client, "compared")
            client.create_session("plain", dim=2, horizon=4)
        yield address


def compare(client: Client, name: str) -> None:
    """A session whose agent earns less than control, until its guard trips."""
    holdout = {"share": 0.5, "policy": "uniform", "planned_rounds": 200}
    session = client.create_session(name, dim=2, horizon=1, seed=1, holdout=holdout)
    for day in (1, 2):
        users = [f"user-{i}" for i in range(100)]
        asked = [{"contexts": [[1.0, 0.0], [0.0, 1.0]], "trajectory": user} for user in users]
        answers = client.batch([{"session_id": name, "decision": one} for one in asked])
        by = [answer["decision"]["played_by"] for answer in answers]
        values = [0.01 * i + (by[i] != "agent") for i in range(100)]
        session.rewards(
            {"value": value, "round": day, "trajectory": user}
            for value, user in zip(values, users, strict=True)
        )
        session.lift()


def test_lift_is_drawn_with_its_band_and_a_tripped_guard_is_said(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/compared")
    groups = page.get_by_role("table", name="Reward of both groups")
    groups.wait_for()
    assert "control" in groups.inner_text()
    card = page.locator("section.card", has_text="Lift: what the agent adds")
    card.locator("canvas").wait_for()
    assert "at all looks together with probability 95.0%" in card.inner_text()
    todo = page.get_by_label("What to do").locator("li")
    assert "The guard has tripped" in todo.first.inner_text()
    said = page.locator(".headline").inner_text()
    with Client(url) as client:
        lift = client.session("compared").lift()["lift"]
    assert lift["high"] < 0
    assert said.startswith(f"{lift['difference']:.3g} a round against control")
    assert "The agent earns less than control: " in page.inner_text("main")
    page.get_by_text("guard tripped: control plays").wait_for()
    show(page, url)
    brief = f"{lift['difference']:.3g} a round over control ({lift['low']:.3g} to "
    page.get_by_text(brief).wait_for()
    show(page, f"{url}/#/sessions/plain")
    page.get_by_text("Live: this page follows the session.").wait_for()
    assert not page.get_by_text("Lift: what the agent adds").is_visible()
