"""The history of a fit, built from stored rows by a constant number of statements."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from lhb_engine.history import (
    LATEST,
    FitWindow,
    Floats,
    History,
    Ints,
    Measurements,
    Trajectory,
    joined,
)
from service.due_fits import DueFit
from service.fits.closed_rounds import completed
from service.fits.told import with_covariates
from service.records import SessionRow, VoidRow
from service.storage.history_reader import MeasuredRow
from service.storage.reader import FOR_EVER, Reader

Rounds = tuple[int, Floats, Ints]  # first round; contexts and positions of it and the next ones


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
        all measurements count and no round is closed.

    Returns
    -------
    History
        Contexts and measurements of each trajectory.
    """
    if session.clock is not None:
        from service.fits.slot_history import read_slots

        return read_slots(reader, session, window, due)
    place = (session.key, window.first, window.last)
    n_before, default = window.n_lags - 1, session.default_reward
    measured = FOR_EVER if due is None else due.measured
    values = stored_measurements(reader.window_measurements(*place, n_before, measured), session)
    is_plain = session.reward_mode != "sum" and default is None
    closed: dict[str, int] = {}
    if due is not None and not is_plain:
        closed = reader.window_closed(*place, due.decided, due.closed_at)
    trajectories = {}
    rounds = reader.window_rounds(*place, n_before)
    voids = reader.voids(session.key, 0, measured)
    for name, (start, contexts, positions) in _rounds(rounds, session, voids):
        first = start + int(np.searchsorted(positions, window.first))
        last = start + len(positions) - 1
        rows = values[name] = _with_lags(values.get(name, _NONE), start, window.n_lags, session)
        if not is_plain:
            until = min(last, closed.get(name, 0))
            rows = completed(rows, first, until, session.reward_mode, default)
        trajectories[name] = Trajectory(contexts, rows.between(first, last), start, positions)
    unsettled = None
    if due is not None and is_plain:
        unsettled = _first_not_used(values, trajectories, 0, due.measured)
    history = History(session.dim, trajectories, window, unsettled=unsettled)
    return with_covariates(reader, session, history, measured)


_NO_INTS = np.zeros(0, np.int64)
_NONE = Measurements(_NO_INTS, _NO_INTS, np.zeros(0), _NO_INTS)


def read_recent(
    reader: Reader, session: SessionRow, window: FitWindow, due: DueFit, n_settled: int
) -> History:
    """Build the history of a fit that has sums of the first `n_settled` measurements.

    It has the rows of the measurements after these, and those that are pairs with them. It has the
    window's latest rounds, too, with twice the lags before them, as checks look at these. It is
    read by a constant number of statements.

    Parameters
    ----------
    reader, session, window, due
        As `read_history`; rewards are single, without a default.
    n_settled : int
    """
    key, known = session.key, due.measured
    first = window.last - LATEST + 1
    wanted = [
        stored_measurements(reader.measurements_after(key, n_settled, known), session),
        stored_measurements(reader.window_measurements(key, first, window.last, 0, known), session),
    ]
    spans = reader.window_spans(key, first, window.last)
    latest = {name: rounds for name, *rounds in spans if name != session.erasing}
    ranges = [
        (name, *rounds)
        for name in sorted(wanted[0].keys() | wanted[1].keys() | latest.keys())
        for rounds in _needed(name, wanted, latest.get(name), 2 * session.horizon, window.n_lags)
    ]
    values = stored_measurements(reader.measurements_in(key, ranges, known), session)
    parts: dict[str, Trajectory] = {}
    rounds, voids = reader.rounds_in(key, ranges, window.last), reader.voids(key, 0, known)
    asked = {name: first for name, first, _ in reversed(ranges)}
    for name, (start, contexts, positions) in _rounds(rounds, session, voids):
        rows = values.get(name, _NONE)
        if start > asked.pop(name, start):  # earlier rounds are dropped
            rows = values[name] = _with_lags(rows, start, window.n_lags, session)
            fresh = wanted[0].get(name, _NONE)
            wanted[0][name] = _with_lags(fresh, start, window.n_lags, session)
        rows = rows.between(start, start + len(positions) - 1)
        # the order of the names is that of the trajectories: no key holds a zero byte
        parts[f"{name}\0{start:020}"] = Trajectory(contexts, rows, start, positions)
    unsettled = _first_not_used(wanted[0], parts, n_settled, known)
    history = History(session.dim, parts, window, unsettled=unsettled)
    return with_covariates(reader, session, history, known)


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
    for _, (start, contexts, positions) in _rounds(rounds, session, voids):
        rows = _with_lags(values.get(name, _NONE), start, session.horizon, session)
        rows = rows.between(start, start + len(positions) - 1)
        parts[name] = Trajectory(contexts, rows, start, positions)
    return with_covariates(reader, session, History(session.dim, parts, window), measured)


def _first_not_used(
    values: dict[str, Measurements], parts: dict[str, Trajectory], after: int, known: int
) -> int:
    """Return the first position, beyond `after`, of a measurement that is no row of a history.

    It is one of a round after the window, or one that is still to come. Those that are erased,
    replaced or voids are none.
    """
    is_open = np.zeros(known + 1 - after, bool)  # from position after + 1 on
    is_open[-1] = True
    for rows in values.values():
        is_open[_places(rows) - after - 1] = True
    for part in parts.values():
        places = _places(part.measurements)
        is_open[places[places > after] - after - 1] = False
    return after + 1 + int(np.argmax(is_open))


def _places(rows: Measurements) -> Ints:
    assert rows.position is not None
    return rows.position


def _needed(
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


def stored_measurements(
    rows: Iterable[MeasuredRow], session: SessionRow
) -> dict[str, Measurements]:
    """Return the measurements of each trajectory, given in order of trajectories.

    What another row replaces is left out, and so is a trajectory that is being erased.
    """
    names = _Names()
    first, last, value, position = array("q"), array("q"), array("d"), array("q")
    roots: dict[int, int] = {}  # position of the first value, by that of a correction
    for name, start, end, number, place, replaces in rows:
        names.add(name, len(first))
        first.append(start)
        last.append(end)
        value.append(number)
        position.append(place)
        if replaces is not None:
            roots[place] = replaces
    first_rounds, last_rounds, places = (np.array(a, np.int64) for a in (first, last, position))
    whole = Measurements(first_rounds, last_rounds, np.array(value), places)
    found = {name: whole.chosen(here) for name, here in names.slices(len(first))}
    if roots:
        latest: dict[int, int] = {}
        for place, root in roots.items():
            latest[root] = max(place, latest.get(root, 0))
        replaced = np.array([*latest, *(roots.keys() - latest.values())], np.int64)
        for name, here in names.slices(len(first)):
            found[name] = found[name].chosen(~np.isin(places[here], replaced))
    if session.erasing is not None:
        found.pop(session.erasing, None)
    return found


class _Names:
    """Where each trajectory starts in the rows of all, which come in order of trajectories."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._starts: list[int] = []

    def add(self, name: str, row: int, is_after_gap: bool = False) -> None:
        """Take note of a row's trajectory; after a gap its rows are a part of their own."""
        if is_after_gap or not self._names or name != self._names[-1]:
            self._names.append(name)
            self._starts.append(row)

    def slices(self, n_rows: int) -> Iterator[tuple[str, slice]]:
        """Yield each trajectory with the slice of its rows."""
        edges = [*self._starts, n_rows]
        for name, (start, stop) in zip(self._names, pairwise(edges), strict=True):
            yield name, slice(start, stop)


def _rounds(
    rows: Iterable[tuple[str, int, int, bytes]], session: SessionRow, voids: list[VoidRow]
) -> Iterator[tuple[str, Rounds]]:
    """Yield each stretch of consecutive rounds of a trajectory that is not being erased.

    A round's context is the sum of those of its decisions; that of a void one is 0.
    """
    names, none = _Names(), bytes(8 * session.dim)
    rounds, positions, contexts = array("q"), array("q"), bytearray()
    for name, round, position, context in rows:
        names.add(name, len(rounds), is_after_gap=bool(rounds) and round > rounds[-1] + 1)
        rounds.append(round)
        positions.append(position)
        contexts += context or none
    selected = np.frombuffer(contexts).reshape(-1, session.dim)
    numbers, places = np.array(rounds, np.int64), np.array(positions, np.int64)
    void: defaultdict[str, list[int]] = defaultdict(list)
    for one in voids:
        void[one.trajectory].append(one.round)
    for name, here in names.slices(len(rounds)):
        if name in void:
            selected[here][np.isin(numbers[here], void[name])] = 0.0
        if name != session.erasing:
            yield name, _together(numbers[here], selected[here], places[here])


def _together(rounds: Ints, contexts: Floats, positions: Ints) -> Rounds:
    """Return the rounds of one trajectory, the decisions of a round taken together."""
    first, n = int(rounds[0]), int(rounds[-1] - rounds[0]) + 1
    if n < len(rounds):
        starts = np.searchsorted(rounds, np.arange(first, first + n))
        contexts, positions = np.add.reduceat(contexts, starts), positions[starts]
    return first, contexts, positions
