"""The history of a fit in a session with a clock: its rounds are slots of time.

Where rewards are totals over all trajectories, there is one, the default one. Where they are totals
of trajectories, each measured one has all slots; of these a history has those that its totals need.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lhb_engine.agents import ALGORITHMS
from lhb_engine.history import (
    LATEST,
    FitWindow,
    History,
    Measurements,
    Trajectory,
    joined,
)
from service.rounds.history import NONE, SLICE, first_not_used, needed_ranges
from service.rounds.slot_sums import SlotSums, read_slot_sums
from service.rounds.stored_rows import stored_measurements
from service.rounds.told import with_covariates
from service.session.due_fits import DueFit
from service.session.records import SessionRow
from service.session.slot_clock import SlotClock, clock_of
from service.storage.history_reader import Range
from service.storage.reader import FOR_EVER, Reader

Rows = dict[str, Measurements]  # by trajectory


def clock_with_slots(session: SessionRow) -> SlotClock:
    """Return the clock of a session that has one."""
    clock = clock_of(session.clock)
    assert clock is not None
    return clock


def is_by_trajectory(session: SessionRow) -> bool:
    """Return whether each trajectory has all rounds of the session, which are slots."""
    clock = clock_of(session.clock)
    return clock is not None and clock.totals == "trajectory"


def _takes_parts(session: SessionRow) -> bool:
    """Return whether fits take a trajectory in parts, each with the slots of some totals."""
    kind = ALGORITHMS[session.algorithm]
    return is_by_trajectory(session) and kind.takes_parts


def fit_slots(reader: Reader, session: SessionRow, due: DueFit) -> SlotSums:
    """Return the sums of a fit's slots, kept ones as far as there are."""
    clock = clock_with_slots(session)
    return read_slot_sums(reader, session, clock, due.window.last, due, kept=True)


def read_slots(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit | None = None
) -> History:
    """Build the history that `Agent.fit` gets, of slots, from all decisions.

    The decisions of a slot are those up to the manifest's watermark: one that came later, for a
    slot that had begun, is in the next fit, and a repeat of this fit leaves it out again.

    Parameters
    ----------
    reader, session, due
        As `read_history`. Without a manifest kept sums stand for decisions.
    window : FitWindow
        The slots to fit.
    """
    clock = clock_with_slots(session)
    sums = read_slot_sums(reader, session, clock, window.last, due, kept=due is None)
    return read_all_slots(reader, session, window, due, sums)


def read_all_slots(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit | None, sums: SlotSums
) -> History:
    """Build the same history from sums of slots."""
    known = FOR_EVER if due is None else due.measured
    first = max(1, window.first - window.n_lags + 1)
    if is_by_trajectory(session) or window.first == 1:
        found = reader.window_measurements(session.key, 1, window.last, 0, known)
    else:  # totals of the default trajectory
        found = reader.measurements_in(session.key, [("", window.first, window.last)], known)
    values = stored_measurements(found, session)
    rows = {name: some.between(window.first, window.last) for name, some in values.items()}
    if _takes_parts(session):
        ranges = _ranges([(rows, max(window.n_lags, 2 * session.horizon))], window)
        history = _history(session, window, due, sums, ranges, rows)
    else:  # other agents' fits would take the parts of a trajectory for several
        ranges = [(name, first, window.last) for name in [*rows] or [""]]
        history = _history(session, window, due, sums, ranges, rows)
        whole = {name.partition("\0")[0]: part for name, part in history.trajectories.items()}
        history = replace(history, trajectories=whole)
    if due is not None and _clock_settles(session):
        history = _until_settled(history, values, sums.settled, (0, known))
    return with_covariates(reader, session, history, known)


def read_recent_slots(
    reader: Reader,
    session: SessionRow,
    window: FitWindow,
    due: DueFit,
    sums: SlotSums,
    n_settled: int,
) -> History:
    """Build the history of a fit that has moments of the first so many measurements.

    It has the rows of the later ones, those that are pairs with them, and the latest rows.
    """
    key, known, n_before = session.key, due.measured, 2 * session.horizon
    later = stored_measurements(reader.measurements_after(key, n_settled, known), session)
    if is_by_trajectory(session):
        after = max(0, known - LATEST)
        latest = stored_measurements(reader.measurements_after(key, after, known), session)
        wanted = [(later, window.n_lags), (latest, max(window.n_lags, n_before))]
        ranges = _ranges(wanted, window)
    else:
        first = max(1, window.last - LATEST + 1)
        latest = stored_measurements(
            reader.measurements_in(key, [("", first, window.last)], known), session
        )
        span = [first, window.last]
        needed = needed_ranges("", [later, latest], span, n_before, window.n_lags)
        ranges = _within(window, {"": needed})
    return _of_ranges(reader, session, window, due, sums, ranges, (n_settled, known))


def read_slot_slices(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit, sums: SlotSums
) -> Iterator[tuple[int, History]]:
    """Build the history of a fit slice by slice, as `read_slices`."""
    from lhb_engine.design.moment_sums import GRAIN

    known = due.measured
    for after in range(0, known, SLICE * GRAIN):
        until = min(after + SLICE * GRAIN, known)
        rows = stored_measurements(reader.measurements_after(session.key, after, until), session)
        ranges = _ranges([(rows, window.n_lags)], window)
        if ranges:
            yield until, _of_ranges(reader, session, window, due, sums, ranges, (after, until))


def _clock_settles(session: SessionRow) -> bool:
    return clock_with_slots(session).late_slots is not None


def _ranges(wanted: list[tuple[Rows, int]], window: FitWindow) -> list[Range]:
    """Return the ranges of slots that measurements need, each with its number of lags."""
    found: dict[str, list[tuple[int, int]]] = {}
    for rows, n_lags in wanted:
        for name, some in rows.items():
            if len(some):
                found.setdefault(name, []).extend(some.needed_rounds(n_lags))
    return _within(window, {name: joined(found[name]) for name in sorted(found)})


def _within(window: FitWindow, ranges: dict[str, list[tuple[int, int]]]) -> list[Range]:
    """Return what of ranges has begun."""
    return [
        (name, first, min(last, window.last))
        for name, parts in ranges.items()
        for first, last in parts
        if first <= window.last
    ]


def _of_ranges(
    reader: Reader,
    session: SessionRow,
    window: FitWindow,
    due: DueFit,
    sums: SlotSums,
    ranges: list[Range],
    within: tuple[int, int],
) -> History:
    """Build the history of ranges of slots, in order.

    `within` are the positions, from after the first one to the second one, of the measurements that
    may be the first which is no row.
    """
    found = reader.measurements_in(session.key, ranges, due.measured)
    values = stored_measurements(found, session)
    history = _history(session, window, due, sums, ranges, values)
    history = _until_settled(history, values, sums.settled, within)
    return with_covariates(reader, session, history, due.measured)


def _history(
    session: SessionRow,
    window: FitWindow,
    due: DueFit | None,
    sums: SlotSums,
    ranges: list[Range],
    values: Rows,
) -> History:
    """Build the history of ranges of slots, with those of the measurements that are within each."""
    parts: dict[str, Trajectory] = {}
    for (name, first, last), contexts in zip(ranges, sums.contexts(ranges), strict=True):
        rows = values.get(name, NONE).between(first, last)
        # the order of the names is that of the trajectories: no key holds a zero byte
        parts[f"{name}\0{first:020}"] = Trajectory(contexts, rows, first)
    if not parts:  # nothing is measured: the fit says so
        parts[""] = Trajectory(np.zeros((1, session.dim)), NONE, window.last)
    latest_after = None
    if _takes_parts(session) and due is not None:
        latest_after = max(0, due.measured - LATEST)
    return History(session.dim, parts, window, latest_after=latest_after)


def _until_settled(
    history: History, values: Rows, settled: int, within: tuple[int, int]
) -> History:
    """Return a history that says from which measurement, and which slot, on it may change."""
    used = {
        name: replace(part, measurements=part.measurements.between(1, settled))
        for name, part in history.trajectories.items()
    }
    return replace(history, unsettled=first_not_used(values, used, *within), settled_round=settled)
