"""Fits that go on from kept sums say what fits of all rows say, to the bit, and read little."""

from typing import Any

import numpy as np
import pytest

from lhb_engine.history import FitWindow
from service.commands.erase_trajectory import erase_trajectory
from service.commands.sessions import remove_session
from service.rounds import history
from service.session.fit_schedule import Watermark
from service.transfer.replay import replay_session
from tests.examples import repeats
from tests.lhb_engine.draw_little import seldom_fitted  # noqa: F401
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.fits.kept_rounds import DIM, World, low_limits, reopen, store  # noqa: F401
from tests.service.service_harness import ServiceHarness


@pytest.mark.parametrize(
    ("database_url", "names"),
    [*repeats(("postgres", ("",))), ("sqlite", ("", "a", "b"))],
    indirect=["database_url"],
)
def test_a_session_lives_on_sums(
    harness: ServiceHarness,
    names: tuple[str, ...],
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every fit equals that from all rows; replay does too; what a fit reads is bounded."""
    options: dict[str, Any] = {"seasonality": [{"period": 12}]}
    if names != ("",):
        options = {"covariates": ["rain"]}
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30, "options": options}
    harness.create(algorithm="anytime", **made)
    world = World(harness, names, database_url)
    world.play(260)
    assert world.n_from_sums >= 4
    assert world.n_fits > 10
    row = world.kept()
    assert row is not None
    assert row.n_settled >= 128
    assert row.n_settled % 16 == 0
    assert 32 <= world.largest_slice < 120  # with those that are pairs with its own
    read: list[int] = harness.read  # type: ignore[attr-defined]
    assert max(read[-3:]) < 200
    for at_once in (4, 0):  # 0: rows of every fit from sums are read in slices
        have_sizes(monkeypatch, n_latest=at_once)
        read.clear()
        assert world.replayed().estimates == world.n_fits
        assert (len(read) >= world.n_from_sums) == (at_once == 0)
    assert max(read) < 200
    harness.run(remove_session(harness.key))
    assert world.kept() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database_url", "delay"), [("sqlite", 0), *repeats(("sqlite", 90))], indirect=["database_url"]
)
def test_a_fit_of_a_fleet_looks_at_some_trajectories(
    harness: ServiceHarness, database_url: str, delay: int
) -> None:
    """It reads twice the latest rounds for its checks, the lags before them included.

    So does one whose latest rounds have no rewards yet.
    """
    harness.create(algorithm="anytime", dim=DIM, horizon=6, reward_wait_seconds=200)
    world = World(harness, tuple(f"u{i:02}" for i in range(40)), database_url)
    world.delay = delay
    world.play(200)
    n_from_rows = world.n_from_rows
    world.play(220)
    assert world.n_from_sums >= 4
    assert world.n_from_rows == n_from_rows
    session = harness.session
    window = FitWindow(9, 1, session.n_rounds, 6, session.n_rounds)
    known = Watermark(session.n_measurements, session.n_rounds, 0.0)
    with harness.store.reader() as reader:
        past = history.PastByDecision(reader, session, window, known)
        found, whole = past.recent(session.n_measurements), past.whole()
        assert replay_session(reader, session).differences == []
    assert found.chosen is not None
    assert whole.chosen == found.chosen
    assert 3 < len(found.chosen) < 20
    assert sum(len(part.contexts) for part in found.trajectories.values()) <= 2 * 64 + 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database_url", "names"), [("sqlite", ("",)), ("sqlite", ("", "a"))], indirect=["database_url"]
)
def test_rewards_may_be_later_than_the_latest_rows(
    harness: ServiceHarness, names: tuple[str, ...], database_url: str
) -> None:
    """Fits look at the rewards that came last then, beside the sums of all."""
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30}
    harness.create(algorithm="anytime", **made)
    world = World(harness, names, database_url)
    world.play(150)
    n, n_fits, n_from_rows = world.n_from_sums, world.n_fits, world.n_from_rows
    world.silent_until = 260
    world.play(109)
    assert world.n_fits > n_fits + 1
    assert harness.session.estimate
    world.play(80)
    assert world.n_from_sums > n + 3
    assert world.n_from_rows == n_from_rows
    assert max(harness.read) < 200  # type: ignore[attr-defined]
    world.replayed()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_slice_hides_a_measurement_beyond_the_window(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of one round each; slices of four. The next fit has to add what is beyond."""
    have_sizes(monkeypatch, grain=4, n_grains=1)
    harness.create(algorithm="anytime", dim=DIM, horizon=6)
    contexts = np.ones((2, DIM))
    for i in range(24):
        harness.decide(f"u{i:02}", contexts=contexts)
        if i != 3:
            harness.reward(1.0, f"u{i:02}", round=1)
    harness.reward(1.0, "u03", round=1)
    window = FitWindow(1, 1, 9, 6, 9)
    known = Watermark(24, 24, 0.0)
    with harness.store.reader() as reader:
        slices = list(history.PastByDecision(reader, harness.session, window, known).slices())
    assert [(stop, each.unsettled) for stop, each in slices] == [(4, 5), (8, 9), (24, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("zero_start", [*repeats(True), False])
def test_a_session_with_levels_lives_on_sums(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch, zero_start: bool
) -> None:
    """Fits equal those from all rows, after a correction, a void one and an erasure too."""
    have_sizes(monkeypatch, least_stretch=8, horizons=1)
    options = {"levels": True, "zero_start": zero_start}
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30, "options": options}
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("", "a", "b"), database_url)
    world.play(180)
    assert world.n_from_sums >= 3
    read: list[int] = harness.read  # type: ignore[attr-defined]
    assert max(read[-3:]) < 150
    world.correct(3)
    world.void("a", 7)
    n = world.n_from_sums
    world.ask()
    assert world.n_from_sums == n + 1
    harness.run_large(erase_trajectory(harness.key, "a"))
    assert world.kept() is None
    world.forget("a")
    world.play(80)
    row = world.kept()
    assert row is not None
    assert row.settled[:4] == b"LHBL"
    assert world.n_from_sums > n
    world.replayed()


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 400])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_after_a_change_of_the_world_sums_begin_anew(
    harness: ServiceHarness, database_url: str, delay: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no reward of the latest rounds is there yet."""
    keep_sums_from(monkeypatch, 300)
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30}
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("",), database_url)
    world.delay = delay
    world.play(400 + delay)
    before = world.kept()
    assert before is not None
    assert before.first_round == 1
    world.play(500 + delay, sign=-1.0)
    after = world.kept()
    assert after is not None
    assert after.first_round > 300
    n = world.n_from_sums
    world.play(300, sign=-1.0)
    assert world.n_from_sums > n
    world.replayed()
