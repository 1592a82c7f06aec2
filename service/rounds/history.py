"""The history of a fit, built from stored rows by a constant number of statements."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import (
    LATEST,
    FitWindow,
    History,
    Ints,
    Measurements,
    Trajectory,
    joined,
)
from service.rounds.closing import closing_of
from service.rounds.stored_rows import stored_measurements, stored_rounds
from service.rounds.told import with_covariates
from service.session.due_fits import DueFit
from service.session.records import SessionRow, VoidRow
from service.storage.history_reader import Range
from service.storage.reader import FOR_EVER, Reader

_NO_INTS = np.zeros(0, np.int64)
NONE = Measurements(_NO_INTS, _NO_INTS, np.zeros(0), _NO_INTS)
SLICE = 8  # grains of measurements that are read at once where a fit adds up all rows anew


def read_history(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit | None = None
) -> History:
    """Build the history that `Agent.fit` gets.

    Parameters
    ----------
    reader : Reader
        A snapshot of the stored rows.
    session : SessionRow
        The session; it gives the dimension, the reward mode and the default reward.
    window : FitWindow
        The rounds to fit, by position; slots where there is a clock. Contexts also cover the
        ``n_lags - 1`` rounds before.
    due : DueFit, optional
        The fit's manifest. Later measurements are left out. Each closed round gets the sum of its
        rewards in sum mode, and otherwise the default reward if nothing measures it. Without it,
        there are all measurements, as they came.

    Returns
    -------
    History
        Contexts and measurements of each trajectory.
    """
    if session.clock is not None:
        from service.rounds.slot_history import read_slots

        return read_slots(reader, session, window, due)
    place = (session.key, window.first, window.last)
    n_before, closing = window.n_lags - 1, closing_of(session)
    measured = FOR_EVER if due is None else due.measured
    values = stored_measurements(reader.window_measurements(*place, n_before, measured), session)
    closed: dict[str, int] = {}
    if due is not None and closing.is_by_time:
        closed = reader.window_closed(*place, due.decided, due.closed_at)
    trajectories = {}
    rounds = reader.window_rounds(*place, n_before)
    voids = reader.voids(session.key, 0, measured)
    for name, (start, contexts, positions) in stored_rounds(rounds, session, voids):
        first = start + int(np.searchsorted(positions, window.first))
        last = start + len(positions) - 1
        rows = values[name] = _with_lags(values.get(name, NONE), start, window.n_lags, session)
        if due is not None:
            rows = closing.rows(rows, first, min(last, closed.get(name, 0)))
        trajectories[name] = Trajectory(contexts, rows.between(first, last), start, positions)
    unsettled = None
    if due is not None and not closing.is_by_time:
        unsettled = first_not_used(values, trajectories, 0, due.measured)
    known = None if due is None else due.measured
    history = History(session.dim, trajectories, window, measured=known, unsettled=unsettled)
    return with_covariates(reader, session, history, measured)


def read_recent(
    reader: Reader,
    session: SessionRow,
    window: FitWindow,
    due: DueFit,
    n_settled: int,
    stretches: Stretches = NO_LEVELS,
) -> History:
    """Build the history of a fit that has sums of the first `n_settled` measurements.

    It has the rows of the measurements after these, and those that are pairs with them. It has the
    window's latest rounds, too, with twice the lags before them, as checks look at these; where
    hardly any of these is measured, it also has the measurements that came last. Where trajectories
    have levels, it has the rows of the stretches that have new ones. It is read by a constant
    number of statements.

    Parameters
    ----------
    reader, session, window, due
        As `read_history`; rewards are single, without a default.
    n_settled : int
    stretches : Stretches
    """
    key, known = session.key, due.measured
    first = window.last - LATEST + 1
    wanted = [
        stored_measurements(reader.measurements_after(key, n_settled, known), session),
        stored_measurements(reader.window_measurements(key, first, window.last, 0, known), session),
    ]
    wanted += _beside(reader, session, wanted[0], stretches, known)
    spans = reader.window_spans(key, first, window.last)
    latest = {name: rounds for name, *rounds in spans if name != session.erasing}
    within, voids = (n_settled, known), reader.voids(key, 0, known)

    def read() -> History:
        ranges = [
            (name, *rounds)
            for name in sorted(set().union(*wanted, latest))
            for rounds in needed_ranges(
                name, wanted, latest.get(name), 2 * session.horizon, window.n_lags
            )
        ]
        return _read_ranges(reader, session, window, due, ranges, within, voids)

    if (found := read()).measures_latest(LATEST):
        return found
    last = reader.measurements_after(key, max(0, known - LATEST), known)
    wanted.append(stored_measurements(last, session))
    return read()


def _beside(
    reader: Reader,
    session: SessionRow,
    rows: dict[str, Measurements],
    stretches: Stretches,
    known: int,
) -> list[dict[str, Measurements]]:
    """Return the measurements of the stretches in which some begin; none without levels."""
    if not stretches.n_rounds:
        return []
    ranges = [(name, *rounds) for name, some in rows.items() for rounds in stretches.of(some.first)]
    return [stored_measurements(reader.measurements_in(session.key, ranges, known), session)]


def read_slices(
    reader: Reader,
    session: SessionRow,
    window: FitWindow,
    due: DueFit,
    stretches: Stretches = NO_LEVELS,
) -> Iterator[tuple[int, History]]:
    """Build the history of a fit slice by slice: of so many measurements in order of arrival.

    Each has the rows of its measurements, of their pairs, and of their levels.

    Parameters
    ----------
    reader, session, window, due, stretches
        As `read_recent`.

    Yields
    ------
    int, History
        The position of the slice's last measurement. Slices without a round of the window are left
        out; the first of their measurements that is no row is then that of the next slice.
    """
    from lhb_engine.design.moment_sums import GRAIN

    key, known = session.key, due.measured
    voids, unsettled = reader.voids(key, 0, known), FOR_EVER
    for after in range(0, known, SLICE * GRAIN):
        until = min(after + SLICE * GRAIN, known)
        rows = stored_measurements(reader.measurements_after(key, after, until), session)
        wanted = [rows, *_beside(reader, session, rows, stretches, known)]
        ranges = [
            (name, *rounds)
            for name in rows
            for rounds in needed_ranges(name, wanted, None, 0, window.n_lags)
        ]
        found = _read_ranges(reader, session, window, due, ranges, (after, until), voids)
        assert found.unsettled is not None
        if found.unsettled <= until:
            unsettled = min(unsettled, found.unsettled)
        if found.trajectories:
            yield until, replace(found, unsettled=min(unsettled, found.unsettled))


def _read_ranges(
    reader: Reader,
    session: SessionRow,
    window: FitWindow,
    due: DueFit,
    ranges: list[Range],
    within: tuple[int, int],
    voids: list[VoidRow],
) -> History:
    """Build the history of ranges of rounds of trajectories, in order.

    `within` are the positions, from after the first one to the second one, of the measurements that
    may be the first which is no row.
    """
    values = stored_measurements(reader.measurements_in(session.key, ranges, due.measured), session)
    parts: dict[str, Trajectory] = {}
    rounds = reader.rounds_in(session.key, ranges, window.last)
    asked = {name: first for name, first, _ in reversed(ranges)}
    for name, (start, contexts, positions) in stored_rounds(rounds, session, voids):
        rows = values.get(name, NONE)
        if start > asked.pop(name, start):  # earlier rounds are dropped
            rows = values[name] = _with_lags(rows, start, window.n_lags, session)
        rows = rows.between(start, start + len(positions) - 1)
        # the order of the names is that of the trajectories: no key holds a zero byte
        parts[f"{name}\0{start:020}"] = Trajectory(contexts, rows, start, positions)
    unsettled = first_not_used(values, parts, *within)
    history = History(session.dim, parts, window, measured=due.measured, unsettled=unsettled)
    return with_covariates(reader, session, history, due.measured)


def _with_lags(rows: Measurements, start: int, n_lags: int, session: SessionRow) -> Measurements:
    """Return the measurements of a trajectory whose lags are there, from round `start` on.

    Where rounds before it are dropped, a trajectory that goes on after a long time has rounds whose
    lags are gone. They are no rows of a fit.
    """
    if start == 1 or not session.dropped_to:
        return rows
    return rows.chosen(rows.first >= start + n_lags - 1)


def read_trajectory(
    reader: Reader, session: SessionRow, name: str, last: int, measured: int
) -> History:
    """Build the history of what is left of a trajectory, up to round `last` of the session.

    Measurements beyond position `measured` are left out.
    """
    key, window = session.key, FitWindow(1, 1, last, session.horizon, last)
    ranges = [(name, 1, FOR_EVER)]
    values = stored_measurements(reader.measurements_in(key, ranges, measured), session)
    rounds, voids = reader.rounds_in(key, ranges, last), reader.voids(key, 0, measured)
    parts = {}
    for _, (start, contexts, positions) in stored_rounds(rounds, session, voids):
        rows = _with_lags(values.get(name, NONE), start, session.horizon, session)
        rows = rows.between(start, start + len(positions) - 1)
        parts[name] = Trajectory(contexts, rows, start, positions)
    return with_covariates(reader, session, History(session.dim, parts, window), measured)


def first_not_used(
    values: dict[str, Measurements], parts: dict[str, Trajectory], after: int, until: int
) -> int:
    """Return the first position, beyond `after`, of a measurement that is no row of a history.

    It is one of a round after the window, or the next one after position `until`. Those that are
    erased, replaced or voids are none.
    """
    is_open = np.zeros(until + 1 - after, bool)  # from position after + 1 on
    is_open[-1] = True
    for rows in values.values():
        is_open[_within(rows, after, until) - after - 1] = True
    for part in parts.values():
        is_open[_within(part.measurements, after, until) - after - 1] = False
    return after + 1 + int(np.argmax(is_open))


def _within(rows: Measurements, after: int, until: int) -> Ints:
    """Return the positions of those measurements that are beyond `after`, up to `until`."""
    assert rows.position is not None
    return rows.position[(rows.position > after) & (rows.position <= until)]


def needed_ranges(
    name: str,
    wanted: list[dict[str, Measurements]],
    latest: list[int] | None,
    n_before: int,
    n_lags: int,
) -> list[tuple[int, int]]:
    """Return the ranges of rounds of a trajectory that a history needs.

    Parameters
    ----------
    name : str
        The trajectory.
    wanted : list of dict
        Measurements that are rows, by trajectory.
    latest : [first, last] or None
        Rounds that are there whether they are measured or not, and `n_before` rounds before them.
    n_before, n_lags : int
    """
    parts = [part[name] for part in wanted if name in part]
    found = [rounds for part in parts for rounds in part.needed_rounds(n_lags)]
    if latest is not None:
        found.append((max(1, latest[0] - n_before), latest[1]))
    return joined(found)
