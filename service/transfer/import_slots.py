"""Checks of which rounds, or slots of time, the records of an imported session name."""

from typing import Any

from service.rounds.closing import closing_of
from service.session.records import SessionRow
from service.session.slot_clock import MOST_SLOTS, clock_of
from service.transfer.import_manifests import TrajectoryRecords
from service.transfer.import_records import check


def count_slot(session: SessionRow, at: float) -> None:
    """Take note of a decision's slot.

    Raises
    ------
    InvalidRecord
        It is before the first.
    """
    clock = clock_of(session.clock)
    if clock is None:
        return
    slot = clock.slots.at(at)
    check(1 <= slot <= MOST_SLOTS, "at", "before the session's first slot")
    session.schedule.n_slots = max(session.schedule.n_slots, slot)


def check_rounds(session: SessionRow, part: TrajectoryRecords, record: dict[str, Any]) -> None:
    """Check the rounds of a measurement, slots where there is a clock, and take note of them.

    Raises
    ------
    InvalidRecord
        There are no such rounds, or they have another measurement.
    """
    first, last = record["first_round"], record["last_round"]
    check(first <= last, "last_round", "it is before first_round")
    if session.clock is not None:
        _check_total(session, part, record)
        return
    check(last <= part.row.n_rounds, "last_round", "that round has not been decided")
    places = part.places(first, last)
    if record["replaces"] is None and closing_of(session).adds_up:
        check(first == last, "last_round", "in sum mode values belong to one round")
        check(record["reward_id"] is not None, "reward_id", "sum mode needs one")
    elif record["replaces"] is None:
        is_new = 1 not in part.measured[places]
        check(is_new, "first_round", "it overlaps another measurement")
    part.measured[places] = b"\1" * (places.stop - places.start)


def _check_total(session: SessionRow, part: TrajectoryRecords, record: dict[str, Any]) -> None:
    clock, first, last = clock_of(session.clock), record["first_round"], record["last_round"]
    assert clock is not None
    is_over = last <= MOST_SLOTS and clock.slots.begin(last + 1) <= record["at"]
    check(is_over, "last_round", "that slot was not over")
    is_whose = clock.totals == "trajectory" or record["trajectory"] == ""
    check(is_whose, "trajectory", "totals are of all trajectories together")
    if record["replaces"] is None:
        check(part.totals.over(first, last) is None, "first_round", "it overlaps another total")
        part.totals.add(first, last, None)
    session.schedule.n_slots = max(session.schedule.n_slots, last + 1)
