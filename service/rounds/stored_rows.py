"""Stored rows as arrays, by trajectory, with covariates; and which of them a history needs."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lhb_engine.history import (
    MOST_ROUNDS,
    NO_INTS,
    NONE,
    BeforeVoids,
    Flags,
    Floats,
    History,
    Ints,
    Measurements,
    Parts,
    Spans,
    Trajectories,
    joined,
    placed,
)
from service.session.covariates import names_of_covariates
from service.session.records import SessionRow
from service.storage.giving_way import giving_way
from service.storage.reader import FOR_EVER, Columns, MeasuredRow, Range, Reader, Voided, in_columns


class Rows(Mapping[str, Measurements]):
    """Measurements by trajectory, those of one after the other in few arrays, `whole`."""

    def __init__(self, names: Sequence[str], counts: Ints, whole: Measurements) -> None:
        self.names, self.whole, stops = names, whole, np.cumsum(counts)
        self.owner, self.starts = np.repeat(np.arange(len(names)), counts), stops - counts
        edges = map(slice, self.starts.tolist(), stops.tolist())
        self._edges = dict(zip(names, edges, strict=True))

    @classmethod
    def of(cls, rows: Mapping[str, Measurements]) -> "Rows":
        """Return measurements in these arrays."""
        if isinstance(rows, cls):
            return rows
        every = {name: some for name, some in rows.items() if len(some)}
        counts = np.array([len(some) for some in every.values()], np.int64)
        return cls([*every], counts, Measurements.joined([*every.values()]))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __getitem__(self, name: str) -> Measurements:
        return self.whole.chosen(self._edges[name])

    def spans(self) -> Spans:
        """Return the rounds from the first to the last one of each trajectory."""
        if not self:
            return {}
        first = np.minimum.reduceat(self.whole.first, self.starts).tolist()
        last = np.maximum.reduceat(self.whole.last, self.starts).tolist()
        return {name: (a, b) for name, a, b in zip(self.names, first, last, strict=True)}


NO_ROWS = Rows([], NO_INTS, NONE)


NAMES, INTS, FLOATS = (partial(np.asarray, dtype=kind) for kind in (object, np.int64, np.float64))


def _arrays(rows: Iterable[Columns], *kinds: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """Return the first columns of stored rows as arrays, a kind each."""
    pieces = [[kind(())] for kind in kinds]
    for columns in rows:
        for kind, column, parts in zip(kinds, columns, pieces, strict=False):
            parts.append(kind(column))
    return [np.concatenate(parts) for parts in pieces]


def _breaks(names: NDArray[np.object_]) -> Flags:
    """Return which of rows, in order of trajectories, are the first of one."""
    return np.append(True, names[1:] != names[:-1])[: len(names)]


def _by_name(names: NDArray[np.object_], whole: Measurements) -> Rows:
    begins = np.flatnonzero(_breaks(names))
    return Rows(names[begins].tolist(), np.diff(begins, append=len(names)), whole)


def stored_measurements(
    rows: Iterable[MeasuredRow], session: SessionRow, anew: int = FOR_EVER
) -> Rows:
    """Return what `measured_of` does, of rows."""
    return measured_of(in_columns(rows), session, anew)


def measured_of(rows: Iterable[Columns], session: SessionRow, anew: int = FOR_EVER) -> Rows:
    """Return the measurements of each trajectory, given in order of trajectories.

    What corrections up to position `anew` replaced is left out, and so is a trajectory that is
    being erased.
    """
    kinds = NAMES, INTS, INTS, FLOATS, INTS, NAMES
    names, first, last, value, position, replaces = _arrays(rows, *kinds)
    kept, corrects = names != session.erasing, replaces != None  # noqa: E711
    if corrects.any():
        # position of the first value, by that of a correction
        roots = dict(zip(position[corrects].tolist(), replaces[corrects].tolist(), strict=True))
        latest = {root: place for place, root in sorted(roots.items()) if place <= anew}
        earlier = {place for place in roots if place <= anew} - {*latest.values()}
        kept &= ~np.isin(position, np.array([*latest, *earlier], np.int64))
    whole = Measurements(first, last, value, position)
    return _by_name(names, whole) if kept.all() else _by_name(names[kept], whole.chosen(kept))


def gaps_of(reader: Reader, session: SessionRow) -> Ints:
    """Return the positions of the session's rounds that are no longer there, in order."""
    if session.n_erased_rounds == 0:
        return np.zeros(0, np.int64)
    is_there = np.zeros(session.n_rounds + 1, bool)
    for trajectory in reader.trajectories(session.key):
        key = (*session.key, trajectory.key)
        is_there[reader.positions(key, 1, trajectory.n_rounds)] = True
    return np.flatnonzero(~is_there[1:]) + 1


def n_named(reader: Reader, session: SessionRow) -> int:
    """Return how many rounds named trajectories have."""
    unnamed = reader.trajectory((*session.key, ""))
    return session.n_rounds - (0 if unnamed is None else unnamed.n_rounds)


def n_given(session: SessionRow) -> int:
    """Return how many numbers of a decision fits read: see `DecisionRow.context`."""
    return session.kind.n_given(session.dim, session.horizon)


def last_decisions(
    reader: Reader, session: SessionRow, n: int
) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Yield rounds, times, and contexts or 0, of trajectories among the last n decisions."""
    none, first = bytes(8 * session.dim), max(0, session.n_rounds - n) + 1
    every = giving_way(reader.chosen(session.key, first, session.n_rounds))
    for name, some in groupby(every, attrgetter("trajectory")):
        rows = [(o.round, o.at, none if o.is_void or not o.context else o.context) for o in some]
        rounds, times, contexts = zip(*rows, strict=True)
        if session.has(name):
            selected = np.frombuffer(b"".join(one[: len(none)] for one in contexts))
            yield np.array(rounds), np.array(times), selected.reshape(-1, session.dim)


def stored_parts(
    rows: Iterable[Columns], session: SessionRow, voids: Iterable[Voided], anew: int = FOR_EVER
) -> Parts:
    """Return the stretches of consecutive rounds of trajectories, without values.

    A trajectory that is being erased has none. A round's context is the sum of those of its
    decisions; that of a void one is 0. After position `anew` it is known what it was before.
    """
    n = n_given(session)

    def padded(column: Sequence[bytes]) -> Floats:
        if len({*map(len, column)}) > 1:
            column = [one.ljust(8 * n, b"\0") for one in column]
        out, numbers = np.zeros((len(column), n)), np.frombuffer(b"".join(column))
        width = len(numbers) // max(len(column), 1)
        out[:, :width] = numbers.reshape(len(column), width)
        return out

    owners, at, places, selected = _arrays(rows, NAMES, INTS, INTS, padded)
    kept = owners != session.erasing
    if not kept.all():
        owners, at, places, selected = owners[kept], at[kept], places[kept], selected[kept]
    before, void = None, {one[:2]: one.position for one in voids}
    if void:
        pairs = zip(owners, at.tolist(), strict=True)
        position = np.array([void.get(pair, -1) for pair in pairs], np.int64)
        late = np.where(position > anew, position, 0)
        if late.any():
            selected[(position >= 0) & (late == 0)] = 0.0
            before = BeforeVoids(late, selected.copy(), np.zeros((len(selected), 0)))
        selected[position >= 0] = 0.0
    step, is_first = np.diff(at, prepend=0), _breaks(owners)
    is_first |= step > 1
    is_round = is_first | (step > 0)
    if not is_round.all():  # the decisions of a round are taken together
        begun = np.flatnonzero(is_round)
        selected = np.add.reduceat(selected, begun)
        owners, at, places, is_first = owners[begun], at[begun], places[begun], is_first[begun]
    begins = np.flatnonzero(is_first)
    first, lengths = at[begins], np.diff(begins, append=len(at))
    names, none = owners[begins].tolist(), np.zeros_like(first)
    return Parts(names, first, lengths, none, selected, places, None, NONE, before)


def with_values(parts: Parts, values: Rows) -> Parts:
    """Return parts with the measurements that are wholly in each."""
    number, keys = parts.trajectories
    order = {name: i for i, name in enumerate(sorted({*keys, *values}))}
    of, whose = (np.array([order[name] for name in some], np.int64) for some in (keys, values))
    at = placed(of[number], parts.first_rounds, parts.lengths, whose[values.owner], values.whole)
    rows, counts = values.whole.chosen(at >= 0), np.bincount(at[at >= 0], minlength=len(parts))
    return replace(parts, measurements=rows, counts=counts)


def first_not_used(
    values: Mapping[str, Measurements], parts: Trajectories, after: int, until: int
) -> int:
    """Return the first position, beyond `after`, of a measurement that is no row of a history.

    That is one of a round after the window, or the next after `until`; no erased or replaced one.
    """
    is_open = np.zeros(until + 1 - after, bool)  # from position after + 1 on
    is_open[-1] = True
    for rows, is_in in ((Rows.of(values).whole, True), (Parts.of(parts).measurements, False)):
        at = NO_INTS if rows.position is None else rows.position
        is_open[at[(at > after) & (at <= until)] - after - 1] = is_in
    return after + 1 + int(np.argmax(is_open))


def needed_ranges(
    wanted: Sequence[tuple[Mapping[str, Measurements], int]], latest: Spans, n_before: int = 0
) -> list[Range]:
    """Return the ranges of rounds of trajectories that a history needs, in order.

    `wanted` are rows with their numbers of lags; the rounds `latest`, and `n_before` before, too.
    """
    names = sorted({*latest}.union(*(rows for rows, _ in wanted)))
    number = {name: i for i, name in enumerate(names)}
    first, last = np.array([*latest.values()], np.int64).reshape(-1, 2).T
    owner = np.array([number[name] for name in latest], np.int64)
    ranges = [(owner, np.maximum(first - n_before, 1), last)]
    for rows, n_lags in ((Rows.of(some), n_lags) for some, n_lags in wanted):
        owner = np.array([number[name] for name in rows], np.int64)[rows.owner]
        ranges.append((owner, *rows.whole.needed_rounds(n_lags)))
    return _ranges(names, *map(np.concatenate, zip(*ranges, strict=True)))


def joined_ranges(ranges: list[Range]) -> list[Range]:
    """Return ranges in order of trajectories, those that overlap or touch as one."""
    names = sorted({name for name, _, _ in ranges})
    number = {name: i for i, name in enumerate(names)}
    every = [(number[name], first, last) for name, first, last in ranges]
    return _ranges(names, *np.array(every, np.int64).reshape(-1, 3).T)


def _ranges(names: list[str], owner: Ints, first: Ints, last: Ints) -> list[Range]:
    columns = (values.tolist() for values in joined(owner, first, last))
    return [(names[i], start, end) for i, start, end in zip(*columns, strict=True)]


def with_covariates(
    reader: Reader, session: SessionRow, history: History, until: int, *, of_decisions: bool = True
) -> History:
    """Return a history with the covariates of its rounds, and those that came with its rewards.

    The session's option names them; without any, nothing is read. `until` is the position of the
    last measurement that counts. Not `of_decisions`: a round has many of them, which have none.
    """
    names = names_of_covariates(session)
    if not names:
        return history
    parts = Parts.of(history.trajectories)
    number, keys = parts.trajectories
    edges = parts.first_rounds, parts.first_rounds + parts.lengths - 1
    edges_of = zip(number.tolist(), *(some.tolist() for some in edges), strict=True)
    ranges = [(keys[i], first, last) for i, first, last in edges_of]
    stored = reader.covariates_in(session.key, ranges) if of_decisions else ()
    _, of_rounds = _said(parts, ((x, round, 0, text) for x, round, text in stored), names).inside()
    told = np.zeros((len(parts.contexts), len(names)))
    told[of_rounds.first] = np.nan_to_num(np.asarray(of_rounds.covariates))
    stated = _said(parts, reader.measured_covariates_in(session.key, ranges, until), names)
    measured = parts.measurements
    if len(stated.measurements) and len(measured):
        measured = replace(measured, covariates=_measured(parts, stated))
    parts = replace(parts, covariates=told, measurements=measured)
    return replace(history, trajectories=parts, groups=(1,) * len(names))


def _said(parts: Parts, rows: Iterable[tuple[str, int, int, str]], names: Sequence[str]) -> Parts:
    """Return what is said of rounds that parts have, as covariates of measurements of 0."""
    nothing = float("nan")

    def values(column: Sequence[str]) -> Floats:
        read = [[json.loads(text).get(one, nothing) for one in names] for text in column]
        return np.array(read).reshape(-1, len(names))

    owners, rounds, positions, told = _arrays(in_columns(rows), NAMES, INTS, INTS, values)
    of_rounds = Measurements(rounds, rounds, np.zeros(len(rounds)), positions, told)
    return with_values(parts, _by_name(owners, of_rounds))


def _measured(parts: Parts, stated: Parts) -> Floats:
    """Return what was measured with the rows, (n, n_covariates), NaN where nothing was.

    Where positions are not known, several values may have made a row: of each covariate the last
    one counts.
    """
    rows, sums = parts.measurements, stated.measurements
    told, position = np.asarray(sums.covariates), np.asarray(sums.position)
    out = np.full((len(rows), told.shape[1]), np.nan)
    if rows.position is not None:
        order = np.argsort(position)
        at = np.searchsorted(position[order], rows.position)
        at = order[np.minimum(at, len(order) - 1)]
        is_said = position[at] == rows.position
        out[is_said] = told[at[is_said]]
        return out
    rounds, keys = parts.owner * MOST_ROUNDS + rows.first, stated.owner * MOST_ROUNDS + sums.first
    at = np.minimum(np.searchsorted(rounds, keys), len(rows) - 1)
    for i in np.flatnonzero(rounds[at] == keys).tolist():
        out[at[i]] = np.where(np.isnan(told[i]), out[at[i]], told[i])
    return out
