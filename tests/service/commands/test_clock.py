"""Sessions with a clock: slots of time, totals of them, late decisions."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lhb_engine.history import FitWindow, History
from service.commands.reward_rounds import Reward
from service.commands.void_decision import VoidDecision
from service.due_fits import DueFit
from service.fits.history import read_history
from service.fits.out_of_turn import AskFit
from service.problems import Problem, ProblemCode
from service.records import SessionRow
from service.transfer.file_format import export_session
from tests.service.service_harness import ServiceHarness

CLOCK = {"slot_seconds": 60, "start": 960.0, "totals": "all", "late_slots": 20}


def between(since: float, until: float) -> dict[str, datetime]:
    ends = (datetime.fromtimestamp(end, UTC) for end in (since, until))
    return dict(zip(("since", "until"), ends, strict=True))


def begin(harness: ServiceHarness, **more: Any) -> SessionRow:
    clock = {**CLOCK, **more.pop("clock", {})}
    return harness.create(algorithm="anytime", clock=clock, **more)


def history_of(harness: ServiceHarness, last: int, due: DueFit | None = None) -> History:
    window = FitWindow(1, 1, last, 4, last)
    with harness.store.reader() as reader:
        return read_history(reader, harness.session, window, due)


def sums(history: History, name: str = "") -> list[float]:
    """The first feature of each slot."""
    found: list[float] = history.trajectories[name].contexts[:, 0].tolist()
    return found


def taken(harness: ServiceHarness, *when: tuple[str, float]) -> None:
    """Decisions of trajectories at times, each for the first arm, whose context is (1, 0)."""
    for trajectory, at in when:
        harness.now = at
        harness.decide(trajectory, forced_arm=0)


def slot_totals(harness: ServiceHarness, first: int, last: int, value: float = 1.0) -> None:
    """A total for each slot from first to last, after the last is over."""
    harness.now = max(harness.now, 960.0 + 60 * last)
    for slot in range(first, last + 1):
        harness.reward(value, **between(900.0 + 60 * slot, 960.0 + 60 * slot))


def refused(harness: ServiceHarness, code: ProblemCode, field: str, **reward: Any) -> None:
    with pytest.raises(Problem) as caught:
        harness.reward(1.0, **reward)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_a_slot_has_the_sum_of_the_contexts_of_all_trajectories(harness: ServiceHarness) -> None:
    begin(harness)
    taken(harness, ("a", 1000.0), ("b", 1019.0), ("a", 1020.0), ("b", 1210.0))
    assert harness.session.n_begun == 5
    harness.now = 1300.0
    harness.reward(2.5, **between(960, 1080))
    history = history_of(harness, 5)
    assert list(history.trajectories) == [""]
    assert sums(history) == [2.0, 1.0, 0.0, 0.0, 1.0]
    rows = history.trajectories[""].measurements
    assert (rows.first.tolist(), rows.last.tolist(), rows.value.tolist()) == ([1], [2], [2.5])


def test_totals_of_trajectories_keep_them_apart(harness: ServiceHarness) -> None:
    begin(harness, clock={"totals": "trajectory"})
    taken(harness, ("a", 1000.0), ("b", 1019.0), ("a", 1020.0), ("c", 1021.0))
    harness.now = 1300.0
    harness.reward(2.5, "a", **between(960, 1020))
    harness.reward(1.5, "b", **between(960, 1020))
    history = history_of(harness, 2)
    assert {name: sums(history, name) for name in history.trajectories} == {
        "a": [1.0, 1.0],
        "b": [1.0, 0.0],
    }
    refused(
        harness, ProblemCode.FUTURE_ROUND, "trajectory", trajectory="nobody", **between(960, 1020)
    )


def test_a_total_is_of_whole_slots_that_are_over(harness: ServiceHarness) -> None:
    begin(harness)
    taken(harness, ("a", 1000.0), ("a", 1190.0))
    refused(harness, ProblemCode.OUT_OF_RANGE, "from", **between(961, 1020))
    refused(harness, ProblemCode.OUT_OF_RANGE, "to", **between(960, 1021))
    refused(harness, ProblemCode.OUT_OF_RANGE, "from", **between(900, 1020))
    refused(harness, ProblemCode.INTERVAL_OPEN, "to", **between(960, 1200))
    refused(harness, ProblemCode.LAST_BEFORE_FIRST, "to", **between(1020, 960))
    refused(harness, ProblemCode.INVALID, "round", round=1)
    refused(harness, ProblemCode.INVALID, "event_id", event_id="~1")
    refused(harness, ProblemCode.INVALID, "trajectory", trajectory="a", **between(960, 1020))
    assert harness.session.n_measurements == 0
    harness.reward(3.0, **between(960, 1080))
    assert harness.reward(3.0, **between(960, 1080)).repeated == 1
    refused(harness, ProblemCode.REWARD_CONFLICT, "value", **between(960, 1080))
    refused(harness, ProblemCode.REWARD_CONFLICT, "from", **between(1020, 1140))
    harness.reward(2.0, correct=True, reward_id="refund", **between(960, 1080))
    assert history_of(harness, 4).trajectories[""].measurements.value.tolist() == [2.0]


def test_a_late_decision_counts_from_the_next_fit_on(harness: ServiceHarness) -> None:
    """And a repeat of the fit before it leaves it out."""
    begin(harness)
    taken(harness, *(("a", 970.0 + 60 * i) for i in range(8)))
    slot_totals(harness, 1, 8)
    due = harness.session.schedule.current
    assert due is not None
    assert (due.window.first, due.window.last, due.reason) == (1, 8, "overdue")
    taken_late = harness.decide("b", forced_arm=0, at=1000.0)
    assert (taken_late.at, taken_late.round) == (1000.0, 1)
    assert sums(history_of(harness, 8, due)) == [1.0] * 8
    harness.finish(8)
    again = harness.run(AskFit(harness.key, harness.agents)).due
    assert again is None or again.decided == 9
    assert sums(history_of(harness, 8)) == [2.0] + [1.0] * 7


@pytest.mark.parametrize(("at", "code"), [(959.0, "out_of_range"), (2000.0, "out_of_range")])
def test_a_decision_is_not_before_the_first_slot_and_not_ahead(
    harness: ServiceHarness, at: float, code: str
) -> None:
    begin(harness)
    with pytest.raises(Problem) as caught:
        harness.decide(at=at)
    assert (caught.value.code, caught.value.field) == (code, "at")
    assert harness.session.n_rounds == 0


def test_a_decision_is_late_by_so_many_slots(harness: ServiceHarness) -> None:
    """By default the horizon. A total in its own body may make it too late: nothing is stored."""
    harness.create(algorithm="anytime", clock={"slot_seconds": 60, "start": 960.0, "totals": "all"})
    taken(harness, ("a", 961.0 + 60 * 9))
    assert harness.decide("a", forced_arm=0, at=960.0 + 60 * 5).at == 1260.0  # slot 6 of 10
    harness.now += 60.0
    total = Reward(1.0, "", **between(960.0 + 60 * 9, 960.0 + 60 * 10))
    for at, rewards in ((1259.9, []), (1260.0, [total])):
        with pytest.raises(Problem) as caught:
            harness.decide("a", forced_arm=0, at=at, rewards=rewards)
        assert (caught.value.code, caught.value.field) == (ProblemCode.OUT_OF_RANGE, "at")
    assert (harness.session.n_begun, harness.session.n_measurements) == (10, 0)
    harness.decide("a", forced_arm=0, at=1320.0, rewards=[total])
    assert harness.session.n_begun == 11
    harness.now = 1000.0  # another server's clock is behind
    assert harness.decide("a", forced_arm=0).at == 1320.0


def test_a_decision_has_a_time_only_where_there_is_a_clock(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime")
    with pytest.raises(Problem) as caught:
        harness.decide(at=990.0)
    assert caught.value.field == "at"


def test_fits_are_due_by_slots_empty_ones_too(harness: ServiceHarness) -> None:
    """The first window ends with slot 8; of boundaries passed in a pause there is one fit."""
    begin(harness)
    taken(harness, *(("a", 961.0 + i) for i in range(20)))
    assert [one.window.due for one in harness.session.schedule.open] == [8]
    assert harness.session.schedule.current is None
    slot_totals(harness, 1, 3)
    taken(harness, ("a", 960.0 + 60 * 500 + 1))
    schedule = harness.session.schedule
    assert schedule.current is not None
    assert schedule.current.window.due == 8
    assert len(schedule.open) == 1
    assert schedule.open[0].window.due > 501
    assert schedule.waiting == []


def test_a_fit_waits_for_totals_as_long_as_the_session_says(harness: ServiceHarness) -> None:
    begin(harness, reward_wait_seconds=600.0)
    taken(harness, *(("a", 961.0 + 60 * i) for i in range(9)))
    assert harness.session.schedule.current is None
    harness.now += 599.0
    harness.tick()
    assert harness.session.schedule.current is None
    harness.now += 2.0
    harness.tick()
    assert harness.session.fit_due == 8


def test_totals_alone_move_the_clock_and_make_a_fit_due(harness: ServiceHarness) -> None:
    begin(harness)
    taken(harness, *(("a", 961.0 + 60 * i) for i in range(6)))
    slot_totals(harness, 1, 7)
    assert harness.session.fit_due is None
    slot_totals(harness, 8, 8)
    due = harness.session.schedule.current
    assert due is not None
    assert due.measured == 8  # with the total that made it due


def test_a_void_decision_leaves_its_slot(harness: ServiceHarness) -> None:
    begin(harness)
    taken(harness, ("a", 970.0), ("a", 980.0), ("b", 990.0))
    slot_totals(harness, 1, 1)
    harness.run(VoidDecision(harness.key, "a", "~2", harness.agents))
    assert sums(history_of(harness, 1)) == [2.0]


EXCLUDED: list[tuple[dict[str, Any], str]] = [
    ({"reward_mode": "sum"}, "reward_mode"),
    ({"default_reward": 0.0}, "default_reward"),
    ({"refit": "blocking"}, "refit"),
    ({"holdout": {"share": 0.2}}, "holdout"),
    ({"mode": "shadow"}, "mode"),
    ({"clock": {"start": 5000.0}}, "clock.start"),
    ({"clock": {"start": 0.5}}, "clock.start"),
]


@pytest.mark.parametrize(("body", "field"), EXCLUDED)
def test_what_a_clock_excludes(harness: ServiceHarness, body: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as caught:
        begin(harness, **body)
    assert (caught.value.code, caught.value.field) == (ProblemCode.BAD_OPTION, field)


def test_an_agent_that_learns_from_each_reward_has_no_clock(harness: ServiceHarness) -> None:
    with pytest.raises(Problem) as caught:
        harness.create(algorithm="ucb_mp", clock=CLOCK)
    assert caught.value.field == "algorithm"


def test_an_export_is_imported_with_its_clock(harness: ServiceHarness, tmp_path: Path) -> None:
    begin(harness)
    taken(harness, *(("ab"[i % 2], 961.0 + 40 * i) for i in range(15)))
    slot_totals(harness, 1, 9)
    harness.reward(0.5, correct=True, reward_id="refund", **between(960, 1020))
    harness.finish(8)
    taken(harness, ("a", 1700.0))
    harness.decide("b", forced_arm=0, at=1000.0)
    before = harness.session
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, before))
    made, _ = harness.import_file(tmp_path, content)
    old = history_of(harness, 12)
    harness.key = made.key
    after = harness.session
    same = ("clock", "n_rounds", "n_trajectories", "n_measurements", "n_begun", "estimate")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    new = history_of(harness, 12)
    assert sums(new) == sums(old)
    assert new.trajectories[""].measurements.value.tolist() == [0.5] + [1.0] * 8
    ahead = [one.window for one in before.schedule.open if one.window.due > before.n_begun]
    assert [one.window for one in after.schedule.open] == ahead
    with harness.store.reader() as reader:
        again = b"".join(export_session(reader, after))
    skipped = (b'"header"', b'"end"')
    assert [line for line in again.splitlines() if not any(s in line for s in skipped)] == [
        line for line in content.splitlines() if not any(s in line for s in skipped)
    ]


def test_a_window_that_waits_for_totals_is_imported(
    harness: ServiceHarness, tmp_path: Path
) -> None:
    begin(harness, reward_wait_seconds=600.0)
    taken(harness, *(("a", 961.0 + 60 * i) for i in range(9)))
    before = harness.session
    assert before.schedule.open[0].window.due == 8
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, before))
    harness.key = harness.import_file(tmp_path, content)[0].key
    after = harness.session.schedule.open
    assert [one.window for one in after] == [one.window for one in before.schedule.open]
    harness.now += 602.0
    harness.tick()
    assert harness.session.fit_due == 8


def test_covariates_come_with_totals_alone(harness: ServiceHarness) -> None:
    """A slot has many decisions, and which of them said it right nobody knows."""
    begin(harness, options={"covariates": ["rain", "sun"]})
    taken(harness, ("a", 1000.0), ("b", 1019.0))
    with pytest.raises(Problem) as caught:
        harness.decide("a", covariates={"rain": 1.0})
    assert (caught.value.code, caught.value.field) == (ProblemCode.INVALID, "covariates")
    assert harness.session.n_rounds == 2
    harness.now = 1300.0
    harness.reward(2.5, **between(960, 1080), covariates={"sun": 3.0})
    slot_totals(harness, 3, 4)
    found = history_of(harness, 5)
    assert found.groups == (1, 1)
    part = found.trajectories[""]
    assert part.covariates is not None
    assert not part.covariates.any()
    told = part.measurements.covariates
    assert told is not None
    assert str(told.tolist()) == "[[nan, 3.0], [nan, nan], [nan, nan]]"
