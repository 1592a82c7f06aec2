"""What a fit reads of a session: its rows, at once or in slices.

Of a session whose rounds are decisions they are read by a constant number of statements.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import (
    NONE,
    FitWindow,
    History,
    Ints,
    Measurements,
    Parts,
    Spans,
    Trajectory,
    latest_keys,
)
from service.rounds.closing import closing_of
from service.rounds.retention import changed_in_time, is_latest, last_before, times_of
from service.rounds.stored_rows import (
    NO_ROWS,
    Rows,
    first_not_used,
    joined_ranges,
    measured_of,
    needed_ranges,
    stored_measurements,
    stored_parts,
    with_covariates,
    with_values,
)
from service.session.fit_schedule import Watermark
from service.session.records import KeptSumsRow, SessionRow
from service.session.rules import has_only_sums
from service.storage.reader import FOR_EVER, MeasuredRow, Range, Reader, Voided, in_columns

Version = tuple[int, bool, float]  # from a position on: whether a round has a value, and its row's
Versions = dict[int, float]  # what a round's row is, by the position from which on it is that


class StoredPast(ABC):
    """What a fit reads of a session: up to a watermark, without one all that there is."""

    n_rows: int  # how many rows there may be
    _read: tuple[list[Range], Rows] = ([], NO_ROWS)  # ranges of rounds, and what began in them
    anew = FOR_EVER  # a fit from sums reads values, too, that later corrections replaced

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, mark: Watermark | None
    ) -> None:
        self.reader, self.session, self.window, self._known = reader, session, window, mark
        self._sizes = session.kind.sizes
        self._latest = self._sizes.latest
        self._measured = FOR_EVER if mark is None else mark.measured
        self._n_positions = self._measured  # of rows

    def seen_before(self, agent: Agent, measured: int | None) -> int | None:
        """Return up to which position the rows are those of the installed estimate's fit.

        That fit could use so many measurements.
        """
        return measured

    def has_changed(self, since: KeptSumsRow) -> bool:
        """Return whether rows changed that sums have, at positions that are not known.

        What changes at a position, by a correction or a void, goes out of the sums there.
        """
        return False

    @abstractmethod
    def whole(self) -> History:
        """Build the history that `Agent.fit` gets: all rows of the window."""

    @abstractmethod
    def recent(self, n_settled: int, stretches: Stretches = NO_LEVELS) -> History:
        """Build the history of a fit that has sums of the first `n_settled` measurements.

        It has the rows of the measurements after these, those that are pairs with them, and the
        latest rows. Where trajectories have levels, it has the rows of the stretches that have new
        ones.
        """

    def slices(self, stretches: Stretches = NO_LEVELS) -> Iterator[tuple[int, History]]:
        """Build the history of a fit slice by slice: of so many measurements in order of arrival.

        Each has the rows of its measurements, of their pairs, and of their levels, beside the
        position of its last measurement. Slices without a round of the window are left out; the
        first of their measurements that is no row is then that of the next slice.
        """
        unsettled, step = FOR_EVER, self._sizes.n_grains * self._sizes.grain
        for after in range(0, self._n_positions, step):
            until = min(after + step, self._n_positions)
            wanted = self._with_levels(self._moved(after, until), stretches)
            ranges = self._needed(wanted)
            history = self._of_ranges(ranges, (after, until))
            assert history.unsettled is not None
            if history.unsettled <= until:
                unsettled = min(unsettled, history.unsettled)
            if ranges and history.trajectories:
                yield until, replace(history, unsettled=min(unsettled, history.unsettled))

    @abstractmethod
    def _needed(self, wanted: list[Rows]) -> list[Range]:
        """Return the ranges of rounds that rows need, in order of trajectories."""

    @abstractmethod
    def _of_ranges(self, ranges: list[Range], within: tuple[int, int]) -> History:
        """Build the history of ranges of rounds of trajectories, in order.

        `within` are the positions, from after the first one to the second one, of the measurements
        that may be the first which is no row.
        """

    def _after(self, after: int, until: int) -> Rows:
        """Return the measurements of positions after one, up to another."""
        rows = self.reader.measurements_after(self.session.key, after, until)
        return stored_measurements(rows, self.session)

    def _moved(self, after: int, until: int) -> Rows:
        """Return the rows that come or change at positions after one, up to another."""
        return self._after(after, until)

    def _with_levels(self, rows: Rows, stretches: Stretches) -> list[Rows]:
        """Return rows, and where there are levels those of the stretches in which some begin."""
        if not stretches.n_rounds:
            return [rows]
        ranges = [
            (name, *rounds) for name, some in rows.items() for rounds in stretches.of(some.first)
        ]
        return [rows, self._within(ranges)]

    def _within(self, ranges: list[Range]) -> Rows:
        """Return the measurements that begin in ranges of rounds; twice the same are read once."""
        if self._read[0] != ranges:
            rows = self.reader.measured_in(self.session.key, ranges, self._measured)
            self._read = ranges, measured_of(rows, self.session, self.anew)
        return self._read[1]


class PastByDecision(StoredPast):
    """Its rounds are decisions.

    The window's rounds are counted by position; contexts also cover the `n_lags - 1` rounds before.
    """

    seen_stays = True  # whether the rows that the installed estimate's fit used stay as they are
    settled_round: int | None = None  # the last round whose context is sure to stay; None: all do
    new: tuple[()] = ()  # sums of slots that are to be kept
    is_whole = True  # whether the fit can go on before these are kept

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, mark: Watermark | None = None
    ) -> None:
        super().__init__(reader, session, window, mark)
        self.n_rows = window.last

    @property
    def rereads(self) -> bool:
        """Whether a fit may read all rows again."""
        return not has_only_sums(self.session)

    def lacks_rows(self, agent: Agent, *, has_sums: bool) -> bool:
        """Whether rows are dropped that this fit needs, which has sums of them or not.

        After an alarm rows before the installed estimate's `since_round` do not count.
        """
        predictor = agent.prediction
        first = max(self.window.first, 1 if predictor is None else predictor.since_round)
        return not has_sums and self.session.dropped_to >= first

    def _moved(self, after: int, until: int) -> Rows:
        """Return the measurements of some positions, and those that voids at these change."""
        rows, until = self._after(after, until), min(until, self._measured)
        voids = self._voids(after, until) if until > self.anew else []
        if not voids:
            return rows
        n_lags = self.window.n_lags
        ranges = joined_ranges([(name, round, round + n_lags - 1) for name, round, *_ in voids])
        reached = self.reader.measurements_over(self.session.key, ranges, self._measured)
        changed = stored_measurements(reached, self.session, self.anew)
        every = {name: [some] for name, some in rows.items()}
        for name, some in changed.items():
            every.setdefault(name, []).append(some)
        names = sorted(every)
        return Rows.of({name: Measurements.joined(every[name]) for name in names})

    def _voids(self, after: int = 0, until: int = FOR_EVER) -> list[Voided]:
        """Return the voids at positions after one, up to another that is in the window."""
        return self.reader.voids(self.session.key, after, min(until, self._measured))

    def whole(self) -> History:
        """Build the history that `Agent.fit` gets: all rows of the window."""
        reader, session, window, mark = self.reader, self.session, self.window, self._known
        place = (session.key, window.first, window.last)
        n_before, closing, measured = window.n_lags - 1, closing_of(session), self._measured
        stored = reader.window_measurements(*place, n_before, measured)
        values = dict(stored_measurements(stored, session, self.anew))
        closed: dict[str, int] = {}
        if mark is not None and closing.is_by_time:
            closed = reader.window_closed(*place, mark.decided, mark.closed_at)
        chosen = []
        rounds = in_columns(reader.window_rounds(*place, n_before))
        parts = stored_parts(rounds, session, self._voids(), self.anew)
        for name, part in parts.items():
            start, positions = part.first_round, part.numbering
            first, last = start + int(np.searchsorted(positions, window.first)), part.last_round
            rows = values[name] = self._with_lags(values.get(name, NONE), start)
            if mark is not None:
                rows = closing.rows(rows, first, min(last, closed.get(name, 0)))
            chosen.append(rows.between(first, last))
        counts = np.array([len(some) for some in chosen], np.int64)
        parts = replace(parts, measurements=Measurements.joined(chosen), counts=counts)
        history = History(session.dim, parts, window)
        if mark is not None:
            unsettled = None
            if not closing.is_by_time:
                unsettled = first_not_used(values, parts, 0, measured)
            history = replace(history, measured=measured, unsettled=unsettled)
            history = self._choosing(history)
        return with_covariates(reader, session, history, measured)

    def _choosing(self, history: History) -> History:
        """Return a history of all rows with the trajectories that the latest rows are of."""
        n, last = self._latest, self.window.last
        latest = self._spans(last - n + 1) if last > n else {}
        history = replace(history, chosen=self._latest_keys(latest, NO_ROWS))
        if not latest or history.measures_latest(n):
            return history
        came, until = self._came()
        return replace(history, chosen=self._latest_keys(latest, came), measured=until)

    def measured(self) -> History:
        """Build the same history for a caller that needs no contexts."""
        return self.whole()

    def recent(self, n_settled: int, stretches: Stretches = NO_LEVELS) -> History:
        """Build the history of a fit that has sums of the first `n_settled` measurements.

        It has the window's latest rounds with twice the lags before them, as checks look at these;
        where hardly any of these is measured, it also has the measurements that came last. Where
        these rounds are too many to read, it has those of some trajectories alone.
        """
        place = n_settled, self._n_positions
        wanted = self._with_levels(self._moved(*place), stretches)
        latest = self._spans(self.window.last - self._latest + 1)
        history = self._with_latest(wanted, latest, NO_ROWS, place)
        if history.measures_latest(self._latest):
            return history
        came, until = self._came()
        return replace(self._with_latest(wanted, latest, came, place), measured=until)

    def _with_latest(
        self, wanted: list[Rows], latest: Spans, came: Rows, place: tuple[int, int]
    ) -> History:
        """Build the history of some rows and of the latest rounds, and those that `came` last."""
        keys = self._latest_keys(latest, came)
        if keys is not None:
            latest = {name: rounds for name, rounds in latest.items() if name in keys}
            came = Rows.of({name: rows for name, rows in came.items() if name in keys})
        wanted = [*wanted, came]
        if self.settled_round is None:  # else rows of the latest rounds are not settled
            latest = {name: (first, last + 1) for name, (first, last) in latest.items()}
            read = self._within(self._needed(wanted, latest)).whole
            if (read.last > read.first).any():  # a row of one round needs no other rounds
                wanted.append(self._within([(name, *span) for name, span in latest.items()]))
        return replace(self._of_ranges(self._needed(wanted, latest), place), chosen=keys)

    def _latest_keys(self, latest: Spans, came: Rows) -> frozenset[str] | None:
        """Return the trajectories that the latest rows are of, those that `came` last if any."""
        most = self._sizes.most_read * self._latest
        return latest_keys(came.spans() or latest, self.window.n_lags, most)

    def _came(self) -> tuple[Rows, int]:
        """Return the measurements that came last, and the position of the last one."""
        return self._after(max(0, self._measured - self._latest), self._measured), self._measured

    def _spans(self, first: int) -> Spans:
        """Return the first and the last round of each trajectory in the window, from a position."""
        spans = self.reader.window_spans(self.session.key, first, self.window.last)
        return {name: (start, end) for name, start, end in spans if self.session.has(name)}

    def _needed(self, wanted: list[Rows], latest: Spans | None = None) -> list[Range]:
        """Return the ranges of rounds that rows need, and those of the latest rounds."""
        spans = [(rows, self.window.n_lags) for rows in wanted]
        return needed_ranges(spans, latest or {}, 2 * self.session.horizon)

    def _of_ranges(self, ranges: list[Range], within: tuple[int, int]) -> History:
        reader, session, window, measured = self.reader, self.session, self.window, self._measured
        values = self._within(ranges)
        rounds = reader.rounds_in(session.key, ranges, window.last)
        voids = reader.voids_in(session.key, ranges, measured)
        parts = stored_parts(rounds, session, voids, self.anew)
        starts = {name: first for name, first, _ in reversed(ranges)}
        number, keys = parts.trajectories
        start = parts.first_rounds[np.searchsorted(number, np.arange(len(keys)))]
        gone = np.flatnonzero(start > np.array([starts[name] for name in keys], np.int64)).tolist()
        if gone:  # earlier rounds are dropped
            lost = {keys[i]: int(start[i]) for i in gone}
            pieces = ((name, rows, lost.get(name, 1)) for name, rows in values.items())
            values = Rows.of({name: self._with_lags(rows, first) for name, rows, first in pieces})
        parts = with_values(parts, values)
        unsettled = first_not_used(values, parts, *within)
        history = History(session.dim, parts, window, measured=measured, unsettled=unsettled)
        return with_covariates(reader, session, history, measured)

    def _with_lags(self, rows: Measurements, start: int) -> Measurements:
        """Return the measurements of a trajectory whose lags are there, from round `start` on.

        Where rounds before it are dropped, a trajectory that goes on after a long time has rounds
        whose lags are gone. They are no rows of a fit.
        """
        if start == 1 or not self.session.dropped_to:
            return rows
        return rows.chosen(rows.first >= start + self.window.n_lags - 1)

    def of(self, name: str, first: int = 1) -> History:
        """Build the history of what is left of one trajectory, from a round on."""
        return self._of_ranges([(name, first, FOR_EVER)], (self._n_positions, self._n_positions))


class PastByTime(PastByDecision):
    """Its rounds are decisions that time closes: with the sum of their values, or by default.

    Rows stand in the order of decisions. A value's row has the position of its decision. A sum, and
    a default, has that of the decision that closes its round: the trajectory's next one, or the one
    after the window. So what a row is, and where it stands, depends on the stored rows alone.
    Values may come for a round at any time. Therefore only rows before the latest 32 768 are
    settled, of rounds older than the wait. A value for one of these changes its row at the position
    `MeasurementRow.late`, a void at the one after the decisions up to then: there the old row goes
    and a new one comes. Values that have none (`late_place`) make the next fit add all rows anew.
    Where rows are dropped, all are refused.
    """

    seen_stays = False
    settled_round: int

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, mark: Watermark
    ) -> None:
        super().__init__(reader, session, window, mark)
        self._closing = closing_of(session)
        self._decided, self._closed_at = mark.decided, mark.closed_at
        self._n_positions = window.last + 1
        self.settled_round = window.last - self._latest

    def seen_before(self, agent: Agent, measured: int | None) -> int | None:
        """Return up to which position the rows are those of the installed estimate's fit."""
        return None if agent.prediction is None else agent.prediction.last_round

    def has_changed(self, since: KeptSumsRow) -> bool:
        """Return whether settled rows changed: by a value or a longer wait for rewards."""
        assert self._known is not None
        place = self.reader, self.session, since, self._known
        return changed_in_time(*place, since.n_settled)

    def whole(self) -> History:
        """Build the history that `Agent.fit` gets: all rows of the window."""
        window, session = self.window, self.session
        has_order = session.kind.takes_parts and self.settled_round > 0
        if window.first > 1 or not has_order:
            return super().whole()
        ranges = [(name, 1, FOR_EVER) for name in sorted(self._spans(1))]
        history = self._of_ranges(ranges, (0, self._n_positions))
        return self._choosing(history)

    def _came(self) -> tuple[Rows, int]:
        return self._after(max(0, self._open_from - self._latest), self._open_from), self._open_from

    @cached_property
    def _open_from(self) -> int:
        """The position from which on decisions came too late to close a round.

        Where hardly any of the latest rounds is closed, the latest rows are those before it.
        """
        at = times_of(self.reader, self.session)
        return last_before(at, self._closed_at, 0, self.window.last) + 1

    _moved = StoredPast._moved

    def _after(self, after: int, until: int) -> Rows:
        """Return the rounds that close, begin or change at positions of a range, and spans."""
        key, latest = self.session.key, FOR_EVER if until == self._n_positions else until
        spans = self.reader.window_spans(key, after + 1, self._read_until(until))
        late = self.reader.late_rounds(key, after, latest, self._measured)
        at = times_of(self.reader, self.session)
        begin, end = at(after) if after else None, at(until) if latest < FOR_EVER else None
        voids = [
            one
            for one in self._voids()
            if (begin is None or one.at >= begin) and (end is None or one.at < end)
        ]
        moves = [one for one in self._placed(voids) if after < one.position <= until]
        changed = [(name, round, round + self.window.n_lags - 1) for name, round, *_ in moves]
        begun = [(name, first - 1, last) for name, first, last in spans]
        return self._within([*begun, *late, *changed])

    def _placed(self, voids: list[Voided]) -> list[Voided]:
        """Return voids with the positions at which their rows change.

        That is after all decisions up to then; 0 where the round was one of the latest, so that no
        sums have its rows, and where sums were made anew after the void.
        """
        times, last, placed = times_of(self.reader, self.session), self.window.last, list[Voided]()
        for one in voids:
            begun, place = one.begun or FOR_EVER, 0
            if one.position > self.anew and not is_latest(self.session, last, begun):
                n = last_before(times, one.at, 0, last)
                if not is_latest(self.session, n, begun):
                    place = min(n + 1, self._n_positions)
            placed.append(one._replace(position=place))
        return placed

    def _within(self, ranges: list[Range]) -> Rows:
        """Return the rounds of some ranges, and the spans that begin in these or reach into them.

        By default a round counts only where no span has it, nor the round before, as its pair.
        """
        rows = _rounds([one for one in ranges if self.session.has(one[0])])
        if self._closing.adds_up:
            return Rows.of(rows)
        before = [(name, first - 1, last) for name, first, last in ranges]
        stored = self.reader.measurements_over(self.session.key, before, self._measured)
        for name, some in stored_measurements(stored, self.session).items():
            first, last = (
                np.append(getattr(rows[name], x), getattr(some, x)) for x in ("first", "last")
            )
            rows[name] = Measurements(first, last, np.zeros(len(first)))
        return Rows.of(rows)

    def _read_until(self, until: int) -> int:
        """Return the position of the last decision that closes a round up to a position."""
        return self._decided if until == self._n_positions else until

    def _of_ranges(self, ranges: list[Range], within: tuple[int, int]) -> History:
        reader, session, window, (after, until) = self.reader, self.session, self.window, within
        stored = [*reader.measurements_in(session.key, ranges, self._measured)]
        late = {row[:3] for row in stored if self._changes_at(row)}
        values = stored_measurements(stored, session)
        came = self._as_they_came(late)
        place = session.key, after + 1, self._read_until(until)
        closed = reader.window_closed(*place, self._decided, self._closed_at)
        parts, places = list[tuple[str, Trajectory]](), list[tuple[Ints, dict[int, Versions]]]()
        spans = iter(ranges)
        place = session.key, after + 1, min(until, self.settled_round)
        unsettled = reader.first_began_after(*place, self._closed_at)  # its value may still come
        rounds = reader.rounds_in(session.key, ranges, window.last)
        voids = self._placed(reader.voids_in(session.key, ranges, self._measured))
        stretches = stored_parts(rounds, session, voids, 0)
        for name, part in stretches.items():
            start, begun = part.first_round, part.numbering
            first, end = next(one[1:] for one in spans if one[0] == name and one[2] >= start)
            closers = np.append(begun[1:], self._n_positions)
            n_closed = int(np.searchsorted(closers, after, "right"))
            n_closed = max(n_closed, min(closed.get(name, 0) - start + 1, len(begun)))
            unsettled = min([unsettled, *closers[n_closed : n_closed + 1].tolist()])
            # what closes the last round of a range is not in it
            last = min(start + len(begun), end) - 1
            measured = values.get(name, NONE)
            rows = self._closing.rows(measured, start, min(start + n_closed - 1, last))
            rows = rows.between(start, last)
            if start > first:  # earlier rounds are dropped
                rows = self._with_lags(rows, start)
            at = rows.last - start
            has_value = np.isin(rows.first, measured.first) & (not self._closing.adds_up)
            parts.append((name, replace(part, measurements=replace(rows, position=None))))
            old = came.get(name, {})
            changed = {
                i: _versions(old[int(rows.first[i])], begun[at[i]], closers[at[i]])
                for i in np.flatnonzero(np.isin(rows.first, [*old])).tolist()
            }
            places.append((np.where(has_value, begun[at], closers[at]), changed))
        history = History(session.dim, Parts.joined(parts), window)
        history = with_covariates(reader, session, history, self._measured)
        parts = [
            (name, replace(part, measurements=_standing(part.measurements, *place)))
            for (name, part), place in zip(history.trajectories.items(), places, strict=True)
        ]
        return replace(
            history,
            trajectories=replace(Parts.joined(parts), before_voids=stretches.before_voids),
            measured=self._n_positions,
            unsettled=unsettled,
            settled_round=self.settled_round,
        )

    def _changes_at(self, row: MeasuredRow) -> int:
        """Return the position at which a value changes its round's row; 0: it stands there."""
        return 0 if row[6] is None or row[4] <= self.anew else min(row[6], self._n_positions)

    def _as_they_came(self, late: set[Range]) -> dict[str, dict[int, list[Version]]]:
        """Return what some rounds of each trajectory had at first, and after each late value."""
        changes: defaultdict[str, dict[int, list[Version]]] = defaultdict(dict)
        rows = self.reader.measurements_in(self.session.key, sorted(late), self._measured)
        for (name, round), group in groupby(rows, itemgetter(0, 1)):
            every, versions = [(self._changes_at(row), row) for row in group], []
            for place in sorted({0, *(place for place, _ in every)}):
                some = stored_measurements((r for p, r in every if p <= place), self.session)
                row = self._closing.rows(measured := some.get(name, NONE), round, round)
                has_value = len(measured) > 0 and not self._closing.adds_up
                versions.append((place, has_value, float(row.value[0])))
            changes[name][round] = versions
        return changes


def _standing(rows: Measurements, positions: Ints, changed: dict[int, Versions]) -> Measurements:
    """Return rows at their positions; those that changed stand as they were at each of theirs."""
    counts = np.ones(len(rows), np.int64)
    counts[[*changed]] = [len(versions) for versions in changed.values()]
    source = np.repeat(np.arange(len(rows)), counts)
    chosen, places = rows.chosen(source), positions[source]
    for i, versions in changed.items():
        places[source == i], chosen.value[source == i] = [*versions], [*versions.values()]
    return replace(chosen, position=places)


def _versions(came: list[Version], begun: int, closer: int) -> Versions:
    """Return a round's values by position: each replaces the one before."""
    versions: Versions = {}
    for place, has_value, value in came:
        stands = max(place, begun if has_value else closer)
        versions = {p: v for p, v in versions.items() if p < stands} | {stands: value}
    return versions


def _rounds(ranges: list[Range]) -> dict[str, Measurements]:
    """Return the rounds of some ranges as measurements of nothing, by trajectory."""
    pieces: dict[str, list[Ints]] = {}
    for name, first, last in ranges:
        pieces.setdefault(name, []).append(np.arange(max(first, 1), last + 1))
    rounds = {name: np.concatenate(parts) for name, parts in pieces.items()}
    return {name: Measurements.single(some, np.zeros(len(some))) for name, some in rounds.items()}
