"""Stored rows as arrays, by trajectory, with covariates; and which of them a history needs."""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from lhb_engine.agents import ALGORITHMS
from lhb_engine.history import Floats, History, Ints, Measurements, Trajectory, joined
from service.session.covariates import names_of_covariates
from service.session.records import SessionRow, VoidRow
from service.storage.giving_way import giving_way
from service.storage.reader import FOR_EVER, MeasuredRow, Reader

_NO_INTS = np.zeros(0, np.int64)
NONE = Measurements(_NO_INTS, _NO_INTS, np.zeros(0), _NO_INTS)
SLICE = 8  # grains of measurements that are read at once where a fit adds up all rows anew
Rows = dict[str, Measurements]  # by trajectory
Rounds = tuple[int, Floats, Ints]  # first round; contexts and positions of it and the next ones


def stored_measurements(
    rows: Iterable[MeasuredRow], session: SessionRow, anew: int = FOR_EVER
) -> Rows:
    """Return the measurements of each trajectory, given in order of trajectories.

    What corrections up to position `anew` replaced is left out, and so is a trajectory that is
    being erased.
    """
    names = _Names()
    first, last, value, position = array("q"), array("q"), array("d"), array("q")
    roots: dict[int, int] = {}  # position of the first value, by that of a correction
    for name, start, end, number, place, replaces, _ in rows:
        names.add(name, len(first))
        first.append(start)
        last.append(end)
        value.append(number)
        position.append(place)
        if replaces is not None:
            roots[place] = replaces
    first_rounds, last_rounds, places = (np.array(a, np.int64) for a in (first, last, position))
    whole = Measurements(first_rounds, last_rounds, np.array(value), places)
    there = {name: here for name, here in names.slices(len(first)) if session.has(name)}
    found = {name: whole.chosen(here) for name, here in there.items()}
    if roots:
        latest = {root: place for place, root in sorted(roots.items()) if place <= anew}
        earlier = {place for place in roots if place <= anew} - {*latest.values()}
        replaced = np.array([*latest, *earlier], np.int64)
        for name, here in there.items():
            found[name] = found[name].chosen(~np.isin(places[here], replaced))
    return found


def gaps_of(reader: Reader, session: SessionRow) -> Ints:
    """Return the positions of the session's rounds that are no longer there, in order."""
    if session.n_erased_rounds == 0:
        return np.zeros(0, np.int64)
    is_there = np.zeros(session.n_rounds + 1, bool)
    for trajectory in reader.trajectories(session.key):
        key = (*session.key, trajectory.key)
        is_there[reader.positions(key, 1, trajectory.n_rounds)] = True
    return np.flatnonzero(~is_there[1:]) + 1


def unnamed_after(reader: Reader, session: SessionRow, position: int) -> int:
    """Return a round of the default trajectory after which all later ones than a position are."""
    return reader.unnamed_after(session.key, position, n_named(reader, session))


def n_named(reader: Reader, session: SessionRow) -> int:
    """Return how many rounds named trajectories have."""
    unnamed = reader.trajectory((*session.key, ""))
    return session.n_rounds - (0 if unnamed is None else unnamed.n_rounds)


def n_given(session: SessionRow) -> int:
    """Return how many numbers of a decision fits read: see `DecisionRow.context`."""
    return ALGORITHMS[session.algorithm].n_given(session.dim, session.horizon)


def last_decisions(
    reader: Reader, session: SessionRow, n: int
) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield rounds, times and contexts of each trajectory among the session's last n decisions.

    The context of a void one, or of a round without action, is 0.
    """
    names, none = _Names(), bytes(8 * session.dim)
    rounds, times, contexts = array("q"), array("d"), bytearray()
    first = max(0, session.n_rounds - n) + 1
    for one in giving_way(reader.chosen(session.key, first, session.n_rounds)):
        names.add(one.trajectory, len(rounds))
        rounds.append(one.round)
        times.append(one.at)
        contexts += none if one.is_void or not one.context else one.context[: len(none)]
    found = np.array(rounds, np.int64), np.array(times)
    selected = np.frombuffer(contexts).reshape(-1, session.dim)
    for name, here in names.slices(len(rounds)):
        if session.has(name):
            yield found[0][here], found[1][here], selected[here]


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


def stored_rounds(
    rows: Iterable[tuple[str, int, int, bytes]], session: SessionRow, voids: list[VoidRow]
) -> Iterator[tuple[str, Rounds]]:
    """Yield each stretch of consecutive rounds of a trajectory that is not being erased.

    A round's context is the sum of those of its decisions; that of a void one is 0.
    """
    names, none = _Names(), bytes(8 * n_given(session))
    rounds, positions, contexts = array("q"), array("q"), bytearray()
    for name, round, position, context in rows:
        names.add(name, len(rounds), is_after_gap=bool(rounds) and round > rounds[-1] + 1)
        rounds.append(round)
        positions.append(position)
        contexts += context
        contexts += none[len(context) :]
    selected = np.frombuffer(contexts).reshape(-1, n_given(session))
    numbers, places = np.array(rounds, np.int64), np.array(positions, np.int64)
    void: defaultdict[str, list[int]] = defaultdict(list)
    for one in voids:
        void[one.trajectory].append(one.round)
    for name, here in names.slices(len(rounds)):
        if name in void:
            selected[here][np.isin(numbers[here], void[name])] = 0.0
        if session.has(name):
            yield name, _together(numbers[here], selected[here], places[here])


def _together(rounds: Ints, contexts: Floats, positions: Ints) -> Rounds:
    """Return the rounds of one trajectory, the decisions of a round taken together."""
    first, n = int(rounds[0]), int(rounds[-1] - rounds[0]) + 1
    if n < len(rounds):
        starts = np.searchsorted(rounds, np.arange(first, first + n))
        contexts, positions = np.add.reduceat(contexts, starts), positions[starts]
    return first, contexts, positions


def first_not_used(values: Rows, parts: dict[str, Trajectory], after: int, until: int) -> int:
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
    wanted: list[Rows],
    latest: list[int] | None,
    n_before: int,
    n_lags: int,
) -> list[tuple[int, int]]:
    """Return the ranges of rounds of a trajectory that a history needs.

    `wanted` are measurements that are rows, by trajectory; the rounds `latest`, and `n_before`
    before them, are there whether they are measured or not.
    """
    parts = [part[name] for part in wanted if name in part]
    found = [rounds for part in parts for rounds in part.needed_rounds(n_lags)]
    if latest is not None:
        found.append((max(1, latest[0] - n_before), latest[1]))
    return joined(found)


Said = tuple[Ints, Ints, Floats]  # rounds, positions, and (n, n_covariates) values, NaN: not said


def with_covariates(
    reader: Reader,
    session: SessionRow,
    history: History,
    known: int,
    *,
    of_decisions: bool = True,
) -> History:
    """Return a history with the covariates of its rounds, and those that came with its rewards.

    The session's option names the covariates; without any, nothing is read. `known` is the position
    of the last measurement that counts. Not `of_decisions`: decisions have none, where a round has
    many of them.
    """
    names = names_of_covariates(session)
    if not names:
        return history
    owners = {key: key.partition("\0")[0] for key in history.trajectories}
    ranges = [
        (owners[key], part.first_round, part.last_round)
        for key, part in history.trajectories.items()
    ]
    given = reader.covariates_in(session.key, ranges) if of_decisions else ()
    of_rounds = _read(((name, round, 0, text) for name, round, text in given), names)
    measured = _read(reader.measured_covariates_in(session.key, ranges, known), names)
    parts = {
        key: _told(part, of_rounds.get(owners[key]), measured.get(owners[key]), len(names))
        for key, part in history.trajectories.items()
    }
    return replace(history, trajectories=parts, groups=(1,) * len(names))


def _read(rows: Iterable[tuple[str, int, int, str]], names: tuple[str, ...]) -> dict[str, Said]:
    """Return what is said in each trajectory, in the order of the rows."""
    rounds: dict[str, array[int]] = {}
    positions: dict[str, array[int]] = {}
    values: dict[str, array[float]] = {}
    nothing = float("nan")
    for name, round, position, text in rows:
        if name not in rounds:
            rounds[name], positions[name], values[name] = array("q"), array("q"), array("d")
        said = json.loads(text)
        rounds[name].append(round)
        positions[name].append(position)
        values[name].extend(said.get(one, nothing) for one in names)
    return {
        name: (
            np.array(rounds[name], np.int64),
            np.array(positions[name], np.int64),
            np.array(values[name]).reshape(-1, len(names)),
        )
        for name in rounds
    }


def _told(
    part: Trajectory, of_rounds: Said | None, measured: Said | None, n_covariates: int
) -> Trajectory:
    told = np.zeros((len(part.contexts), n_covariates))
    if of_rounds is not None:
        rounds, _, values = of_rounds
        here = slice(*np.searchsorted(rounds, (part.first_round, part.last_round + 1)))
        told[rounds[here] - part.first_round] = np.nan_to_num(values[here])
    measurements = part.measurements
    if measured is not None and len(measurements):
        measurements = replace(measurements, covariates=_measured(measurements, *measured))
    return replace(part, covariates=told, measurements=measurements)


def _measured(rows: Measurements, rounds: Ints, positions: Ints, values: Floats) -> Floats:
    """Return what was measured with the rows, (n, n_covariates), NaN where nothing was.

    Where positions are not known, several values may have made a row: of each covariate the last
    one counts.
    """
    found = np.full((len(rows), values.shape[1]), np.nan)
    if rows.position is not None:
        at = np.minimum(np.searchsorted(positions, rows.position), len(positions) - 1)
        is_said = positions[at] == rows.position
        found[is_said] = values[at[is_said]]
        return found
    at = np.minimum(np.searchsorted(rows.first, rounds), len(rows) - 1)
    for i in np.flatnonzero(rows.first[at] == rounds).tolist():
        found[at[i]] = np.where(np.isnan(values[i]), found[at[i]], values[i])
    return found
