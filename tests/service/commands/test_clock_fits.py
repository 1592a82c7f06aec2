"""Sessions with a clock: when a fit is due and what is in it, also after an export and import."""

import json
from pathlib import Path

import numpy as np
import pytest

from lhb_engine.agents.fit_cost import FitCost
from service.base.problems import Problem
from service.commands.decisions import Blocked
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.file_format import export_session
from tests.service.commands.slots import begin, between, history_of, slot_totals, sums, taken
from tests.service.service_harness import ServiceHarness


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
    assert sums(history_of(harness, 8, due.known)) == [1.0] * 8
    harness.finish(8)
    _, again = harness.run(ask_fit(harness.key, harness.agents))
    assert again is None or again.known.decided == 9
    assert sums(history_of(harness, 8)) == [2.0] + [1.0] * 7


def test_decisions_wait_for_a_due_fit_where_the_session_says_so(
    harness: ServiceHarness, tmp_path: Path
) -> None:
    """They and the fits are then those of a session whose fits end before its next decision."""
    keys = [begin(harness, **more).key for more in ({}, {"refit": "blocking"})]
    rng, n_waited = np.random.default_rng(2), 0
    for i in range(60):
        contexts, value = rng.uniform(-1, 1, (3, 2)), float(rng.standard_normal())
        harness.now = 961.0 + 25 * i
        for harness.key in keys:
            if harness.session.fit_due is not None:
                if harness.key == keys[1]:
                    blocked = harness.decide_or_block("ab"[i % 2], contexts=contexts)
                    assert isinstance(blocked, Blocked)
                    n_waited += 1
                harness.make_fits(f"sqlite:///{tmp_path / 'lhb.db'}")
            harness.decide("ab"[i % 2], contexts=contexts)
            slot = (25 * i + 1) // 60
            if i and slot > (25 * i - 24) // 60:
                slot_totals(harness, slot, slot, value)
    assert n_waited > 3
    told = []
    for harness.key in keys:
        found = [json.loads(one.estimate or "{}") | {"seconds": 0} for one in harness.estimates]
        with harness.store.reader() as reader:
            rows = [row for name in "ab" for row in reader.decisions((*harness.key, name), 0, 99)]
        told.append((found, [(row.arm, row.scores, row.propensity) for row in rows]))
    assert told[0] == told[1]


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
    assert due.known.measured == 8  # with the total that made it due


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
    same = ("clock", "n_rounds", "n_trajectories", "n_measurements", "estimate")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    new = history_of(harness, 12)
    assert sums(new) == sums(old)
    assert new.trajectories[""].measurements.value.tolist() == [0.5] + [1.0] * 8
    ahead = [one.window for one in before.schedule.open if one.window.due > before.schedule.n_slots]
    assert after.schedule.n_slots == before.schedule.n_slots
    assert [one.window for one in after.schedule.open] == ahead
    with harness.store.reader() as reader:
        again = b"".join(export_session(reader, after))
    skipped = (b'"header"', b'"end"')
    assert [line for line in again.splitlines() if not any(s in line for s in skipped)] == [
        line for line in content.splitlines() if not any(s in line for s in skipped)
    ]


@pytest.mark.parametrize("way", ["copy", "export"])
@pytest.mark.parametrize("at", [970.0, 1155.0])
def test_slots_that_erased_people_began_have_begun_in_a_copy(
    harness: ServiceHarness, tmp_path: Path, way: str, at: float
) -> None:
    """Four decisions of a slot, all erased, are no four slots, and the fourth slot stays begun."""
    begin(harness, clock={"totals": "trajectory", "late_slots": 2})
    taken(harness, *(("a", at + i) for i in range(4)))
    n_slots = int(at - 900) // 60
    harness.run_large(erase_trajectory(harness.key, "a"))
    source = harness.session
    with harness.store.reader() as reader:
        if way == "copy":
            copy, agent = copied_session(source, {}, False, FitCost(1e9, 1e9), harness.now)
            content = b"".join(copy_session(reader, source, copy, agent))
        else:
            content = b"".join(export_session(reader, source))
    harness.key = harness.import_file(tmp_path, content)[0].key
    assert harness.session.schedule.n_slots == n_slots
    for slot in range(1, n_slots + 1):
        when = 930.0 + 60 * slot
        if slot < n_slots - 2:
            with pytest.raises(Problem):
                harness.decide("a", at=when)
        else:
            assert harness.decide("a", at=min(when, harness.now)).round


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
