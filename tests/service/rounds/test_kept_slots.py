"""Fits by the clock that go on from kept sums say what fits of all decisions say, to the bit."""

from pathlib import Path

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.commands.erase_trajectory import erase_trajectory, sweep
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import remove_session
from service.fits.job import run_fit
from service.storage.transactions import Store
from service.transfer.file_format import export_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.examples import on_one_database, repeats
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.fits.slot_world import DIM, LATE, SECONDS, START, World, make_small
from tests.service.service_harness import ServiceHarness

SHARED = {"profiles": "shared"}  # other forms are in the first test, and in test_kept_sums


@pytest.fixture
def harness(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    make_small(monkeypatch)
    return ServiceHarness(tmp_path, store)


@on_one_database
def test_a_session_by_the_clock_lives_on_sums(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    world = World(harness, database_url, options={"covariates": ["rain"], "most_stale": 0.15})
    world.play(120)
    assert world.n_from_sums >= 3
    n_decisions = harness.session.n_rounds
    assert max(read["timed_decisions"] for read in world.n_read[-2:]) < n_decisions / 2
    assert len(world.kept()) >= 10
    with harness.store.reader() as reader:
        row = reader.kept_sums(harness.key)
        content = b"".join(export_session(reader, harness.session))
    assert row is not None
    assert row.n_settled >= 24
    too_late = START + SECONDS * (harness.session.schedule.n_slots - LATE - 1) - 1.0
    with pytest.raises(Problem) as caught:
        harness.decide("a", contexts=np.ones((2, DIM)), at=too_late)
    assert (caught.value.status, caught.value.field) == (422, "at")
    assert world.n_erased_of_replay() == 0
    made, _ = harness.import_file(tmp_path, content)
    harness.run(remove_session(harness.key))
    harness.run_large(sweep(harness.key))
    assert world.kept() == []
    harness.key = made.key
    n = world.n_from_sums
    world.play(12)
    world.ask()
    world.ask() if harness.session.fit_due else None
    assert world.kept() != []
    assert world.n_from_sums > n
    assert world.n_erased_of_replay() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("totals", ["trajectory", *repeats("all")])
def test_what_is_void_corrected_or_erased_is_in_no_sum(
    harness: ServiceHarness, database_url: str, totals: str
) -> None:
    """Also where a fit under way has read it."""
    world = World(
        harness, database_url, clock={"totals": totals}, options={"most_stale": 0.15, **SHARED}
    )
    world.play(70)
    before = world.kept()
    assert len(before) > 5
    harness.run(void_decision(harness.key, "a", "~9", harness.agents))
    assert len(world.kept()) < len(before)
    world.play(4)
    world.ask()
    assert len(world.kept()) >= len(before)
    world.total("", 1, 2, correct=True, reward_id="refund")
    world.play(4)
    world.ask()
    _, due = harness.run(ask_fit(harness.key, harness.agents))
    if due is None:
        world.play(2)
        _, due = harness.run(ask_fit(harness.key, harness.agents))
    running = run_fit(database_url, *harness.key, due.key, 0.0)
    assert running is not None
    harness.run_large(erase_trajectory(harness.key, "b"))
    left = world.kept()
    assert {row.trajectory for row in left} == (set() if totals == "all" else {"", "a"})
    world.finish(due.key, running)  # nothing of it is recorded: it is made again
    assert world.kept() == left
    with harness.store.reader() as reader:
        assert reader.kept_sums(harness.key) is None
    world.forget("b")
    n = world.n_from_sums
    world.play(40)
    assert world.n_from_sums > n
    assert world.n_erased_of_replay() > 0


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_totals_may_stop_for_longer_than_the_latest_slots(
    harness: ServiceHarness, database_url: str
) -> None:
    world = World(harness, database_url, options=SHARED)
    world.play(80)
    assert world.n_from_sums
    while harness.session.n_measurements % 8:
        world.play(1)  # else a part of a grain would be read
    n_fits, world.total = world.n_fits, lambda *args: None  # type: ignore[method-assign]
    world.play(100)
    assert world.n_fits > n_fits + 2
    assert world.n_erased_of_replay() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_totals_of_trajectories_may_never_come(harness: ServiceHarness, database_url: str) -> None:
    world = World(harness, database_url, clock={"totals": "trajectory"}, options=SHARED)
    world.total = lambda *args: None  # type: ignore[method-assign]
    world.play(66)
    assert world.n_fits > 2
    assert world.n_erased_of_replay() == 0


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("totals", ["trajectory", *repeats("all")])
def test_a_void_beside_a_fit_keeps_the_slots_before_it(
    harness: ServiceHarness, database_url: str, totals: str
) -> None:
    world = World(harness, database_url, clock={"totals": totals}, options=SHARED)
    world.play(60)
    harness.run(void_decision(harness.key, "", "~1", harness.agents))
    assert world.kept() == []
    _, due = harness.run(ask_fit(harness.key, harness.agents))
    running = run_fit(database_url, *harness.key, due.key, 0.0)
    last = harness.store.reader
    with last() as reader:
        n = reader.trajectory((*harness.key, "")).n_decisions
    harness.run(void_decision(harness.key, "", f"~{n // 2}", harness.agents))
    world.fit()  # it knows nothing of the second void
    first = world.kept()
    assert running is not None
    assert 0 < len(first) < len(running.settled.rows)
    world.play(6)
    world.ask()
    assert len(world.kept()) > len(first)
    assert world.n_erased_of_replay() == 0


@pytest.mark.parametrize("totals", ["all", "trajectory"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_void_in_a_slot_that_takes_decisions_leaves_the_sums(
    harness: ServiceHarness, database_url: str, totals: str
) -> None:
    """One in a settled slot does not: all is added anew, once."""
    world = World(harness, database_url, clock={"totals": totals}, options=SHARED)
    world.play(80)
    world.ask()
    for is_old, n_more in ((False, 1), (True, 0), (False, 1)):
        n = world.n_from_sums
        assert n
        with harness.store.reader() as reader:
            last = reader.trajectory((*harness.key, "a"))
        assert last is not None
        decision = 9 if is_old else last.n_rounds
        harness.run(void_decision(harness.key, "a", f"~{decision}", harness.agents))
        world.play(1)
        world.ask()
        assert world.n_from_sums == n + n_more
    assert world.n_erased_of_replay() == 0


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_totals_of_trajectories_are_fitted_from_sums(
    harness: ServiceHarness, database_url: str
) -> None:
    """Levels last for 64 slots, the first for four fewer."""
    options = {"levels": True, "most_stale": 0.15, **SHARED}
    world = World(harness, database_url, clock={"totals": "trajectory"}, options=options)
    world.play(110)
    assert world.n_from_sums >= 3
    assert {row.trajectory for row in world.kept()} == {"", "a", "b"}
    world.total("a", 1, 2, correct=True, reward_id="refund")
    world.play(4)
    world.ask()
    assert world.n_erased_of_replay() == 0  # of the fits before the correction, too


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_one_sequence_of_totals_has_levels_of_its_stretches(
    harness: ServiceHarness, database_url: str
) -> None:
    world = World(harness, database_url, options={"levels": True, "most_stale": 0.15, **SHARED})
    world.play(110)
    assert world.n_from_sums >= 3
    assert world.n_erased_of_replay() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("totals", ["trajectory", *repeats("all")])
def test_a_fit_reads_no_more_after_many_slots(
    harness: ServiceHarness, database_url: str, totals: str
) -> None:
    world = World(
        harness, database_url, clock={"totals": totals}, options={"most_stale": 0.3, **SHARED}
    )
    world.is_compared = False  # as the other tests do
    world.play(80)
    early, n_early = world.n_read_now(), harness.session.n_rounds
    world.play(100)
    late = world.n_read_now()
    assert harness.session.n_rounds > 2 * n_early
    assert sum(late.values()) < 1.3 * sum(early.values()), (early, late)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("totals", ["all", *repeats("trajectory")])
def test_many_slots_are_kept_in_parts(
    harness: ServiceHarness, database_url: str, totals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an import: a transaction keeps a few stretches, and the fit goes on."""
    world = World(harness, database_url, clock={"totals": totals}, options=SHARED)
    world.play(90)
    n_before = len(world.kept())
    harness.run(void_decision(harness.key, "", "~1", harness.agents))
    have_sizes(monkeypatch, most_rows=1)
    world.ask()
    assert world.n_parts >= 3
    assert len(world.kept()) >= n_before
    assert world.n_erased_of_replay() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("limit", ["most_trajectories", "most_again"])
def test_stretches_end_before_they_are_large(
    harness: ServiceHarness, database_url: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    have_sizes(monkeypatch, **{limit: 2})
    world = World(harness, database_url, clock={"totals": "trajectory"}, options=SHARED)
    world.play(70)
    lasts = [row.last_slot for row in world.kept() if not row.trajectory]
    assert min(np.diff(lasts)) < 8
    assert world.n_from_sums >= 1
    assert world.n_erased_of_replay() == 0
