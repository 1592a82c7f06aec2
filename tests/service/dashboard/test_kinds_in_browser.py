"""What the pages of sessions with levels, covariates, many trajectories and a clock show."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from clients.cli.demo import server
from lhb import Client

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("dashboard") / "test.db") as address:
        with Client(address) as client:
            log_learners(client)
            play_hours(client)
            log_clickbait(client)
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


def play_hours(client: Client) -> None:
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=20)
    clock = {"slot_seconds": 3600, "start": start.isoformat()}
    session = client.create_session("by the hour", dim=2, horizon=4, clock=clock)
    for hour in range(20):
        begin = start + timedelta(hours=hour)
        session.decide([[1.0, 0.0], [0.0, 1.0]], at=begin + timedelta(minutes=5))
        session.reward(float(hour), interval=(begin, begin + timedelta(hours=1)))


def test_levels_and_covariates_are_said_in_units_of_reward(page: Page, url: str) -> None:
    page.goto(f"{url}/#/sessions/learners")
    page.get_by_role("heading", name="What moves the reward besides").wait_for()
    said = page.inner_text("main")
    with Client(url) as client:
        levels = client.session("learners").estimate()["levels"]
    low, high = levels["interval"]
    assert f"differ in level by {levels['spread']:.3g} (" in said
    assert f"interval {low:.3g} to {high:.3g})" in said
    effects = page.get_by_role("table", name="Effects that do not depend on what is chosen")
    name, adds, *_ = effects.locator("tbody tr").first.inner_text().split("\t")
    assert name == "noise"
    assert abs(float(adds) - 3) < 0.1
    assert "Half of what a choice earns comes in its own round, nine tenths within 1 round." in said
    assert "shown with a control group" in said


def test_credit_is_shown_of_the_trajectory_that_is_chosen(page: Page, url: str) -> None:
    page.goto(f"{url}/#/sessions/learners")
    choice = page.get_by_label("Trajectory")
    choice.wait_for()
    credit = page.get_by_role("table", name="Credit, newest first")
    first = credit.locator("tbody tr").first
    expect(first.locator("td").first).to_have_text("31")  # the decision after the log
    choice.select_option("learner-07")
    expect(first.locator("td").first).to_have_text("30")
    assert "20 of 24 trajectories are listed" in page.inner_text("main")


def test_lag_profiles_of_their_own_are_drawn_and_added_up(page: Page, url: str) -> None:
    page.goto(f"{url}/#/sessions/clickbait")
    profiles = page.locator("section", has=page.get_by_role("heading", name="Lag profiles"))
    profiles.locator(".uplot").wait_for()
    sums = page.locator("section", has=page.get_by_role("heading", name="Now and later"))
    with page.expect_download() as download:
        sums.get_by_role("button", name="CSV").click()
    head, *rows = download.value.path().read_text().splitlines()
    assert head == "feature,now,later,now low,now high,later low,later high"
    for row in rows:
        name, *numbers = row.split(",")
        now, later, now_low, now_high, later_low, later_high = map(float, numbers)
        true = {"depth": (0.0, 1.25), "clickbait": (1.0, -1.5)}[name]
        assert now_low - 0.05 < now < now_high + 0.05
        assert later_low - 0.05 < later < later_high + 0.05
        assert abs(now - true[0]) < 0.15
        assert abs(later - true[1]) < 0.3
    assert "Bands: 95% intervals." in profiles.inner_text()
    by_feature = page.get_by_role("table", name="Credit by feature").locator("tbody tr")
    assert [row.split("\t")[0] for row in by_feature.all_inner_texts()] == ["depth", "clickbait"]
    with Client(url) as client:
        [_, clickbait] = client.session("clickbait").credit_by_feature()["items"]
    assert clickbait["at_once"] * clickbait["later"] < 0
    page.goto(f"{url}/#/sessions/learners")
    page.get_by_role("heading", name="What moves the reward besides").wait_for()
    assert not page.get_by_role("heading", name="Lag profiles").is_visible()


def test_a_session_with_a_clock_counts_slots(page: Page, url: str) -> None:
    page.goto(url)
    spark = page.locator("tr", has=page.get_by_role("link", name="by the hour")).locator("canvas")
    spark.wait_for()
    with page.expect_response(lambda answer: "/series" in answer.url and answer.status == 200):
        page.reload()  # rewards are drawn beside its name
    page.get_by_role("link", name="by the hour").click()
    page.get_by_text("slots looked at").wait_for()
    said = page.inner_text("main")
    assert "20 (95%)" in said  # measured, of 21 slots
    assert "A reward is the total of whole slots." in said
    assert "due after slot of the session" in said
    assert not page.get_by_role("heading", name="Share of decisions that explored").is_visible()
