"""The past of a session whose rounds close with time: with the sum of their values, or by default.

Rows stand in the order of decisions. A value's row has the position of its decision. A sum, and a
default, has that of the decision that closes its round: the trajectory's next one, or the one after
the window. So what a row is, and where it stands, depends on the stored rows alone. Values may come
for a round at any time. Therefore only rows before the latest 32 768 are settled, of rounds older
than the wait, and a value for one of these makes the next fit add all rows anew; where rows are
dropped, it is refused.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from lhb_engine.agents import ALGORITHMS, Agent
from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import LATEST, FitWindow, History, Ints, Measurements, Trajectory
from service.rounds.closing import closing_of
from service.rounds.history import PastByDecision
from service.rounds.retention import changed_in_time, last_before, times_of
from service.rounds.stored_rows import NONE, Rows, stored_measurements, stored_rounds
from service.rounds.told import with_covariates
from service.session.records import KeptSumsRow, SessionRow
from service.session.schedule_records import Watermark
from service.storage.reader import FOR_EVER, Range, Reader


class PastByTime(PastByDecision):
    """Its rounds are decisions that time closes."""

    seen_stays = False
    settled_round: int

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, known: Watermark
    ) -> None:
        super().__init__(reader, session, window, known)
        self._closing = closing_of(session)
        self._decided, self._closed_at = known.decided, known.closed_at
        self._n_positions = window.last + 1
        self.settled_round = window.last - LATEST

    def seen_before(self, agent: Agent, measured: int | None) -> int | None:
        """Return up to which position the rows are those of the installed estimate's fit."""
        return None if agent.prediction is None else agent.prediction.last_round

    def has_order(self, stretches: Stretches) -> bool:
        """Return whether rows do not depend on spans that reach into a stretch."""
        return self._closing.adds_up or not stretches.n_rounds

    def has_changed(self, since: KeptSumsRow) -> bool:
        """Return whether settled rows changed: by a value, a void or a longer wait for rewards."""
        assert self._known is not None
        given = self._reader, self._session, since, self._known
        return changed_in_time(*given, since.n_settled)

    def whole(self) -> History:
        """Build the history that `Agent.fit` gets: all rows of the window."""
        window, session = self._window, self._session
        has_order = ALGORITHMS[session.algorithm].takes_parts and self.settled_round > 0
        if window.first > 1 or not has_order:
            return super().whole()
        ranges = [(name, 1, FOR_EVER) for name in sorted(self._spans(1))]
        history = self._of_ranges(ranges, (0, self._n_positions))
        whole = {name.partition("\0")[0]: part for name, part in history.trajectories.items()}
        history = replace(history, trajectories=whole)
        if history.measures_latest(LATEST):
            return history
        return replace(history, measured=self._open_from)

    def recent(self, n_settled: int, stretches: Stretches = NO_LEVELS) -> History:
        """Build the history of a fit that has sums of the rows up to a position."""
        later = self._with_levels(self._after(n_settled, self._n_positions), stretches)
        latest, place = self._spans(self.settled_round + 1), (n_settled, self._n_positions)
        history = self._of_ranges(self._needed(later, latest), place)
        if history.measures_latest(LATEST):
            return history
        before = self._after(max(0, self._open_from - LATEST), self._open_from)
        history = self._of_ranges(self._needed([*later, before], latest), place)
        return replace(history, measured=self._open_from)

    @cached_property
    def _open_from(self) -> int:
        """The position from which on decisions came too late to close a round.

        Where hardly any of the latest rounds is closed, the latest rows are those before it.
        """
        at = times_of(self._reader, self._session)
        return last_before(at, self._closed_at, 0, self._window.last) + 1

    def _after(self, after: int, until: int) -> Rows:
        """Return the rounds that close, or begin, at the positions of a range, and spans in it."""
        session, until = self._session, self._read_until(until)
        spans = self._reader.window_spans(session.key, after + 1, until)
        rows = _rounds([(name, first - 1, last) for name, first, last in spans])
        rows.pop(session.erasing or "\0", None)
        if self._closing.adds_up:
            return rows
        # a window that begins with the session would have all measurements
        place = session.key, max(2, after + 1), until, self._window.n_lags, self._measured
        given = stored_measurements(self._reader.window_measurements(*place), session)
        for name, some in given.items():
            alone = rows.get(name, NONE)
            first, last = (
                np.append(getattr(alone, x), getattr(some, x)) for x in ("first", "last")
            )
            rows[name] = Measurements(first, last, np.zeros(len(first)))
        return rows

    def _within(self, ranges: list[Range]) -> Rows:
        return _rounds(ranges)

    def _read_until(self, until: int) -> int:
        """Return the position of the last decision that closes a round up to a position."""
        return self._decided if until == self._n_positions else until

    def _of_ranges(self, ranges: list[Range], within: tuple[int, int]) -> History:
        reader, session, window, (after, until) = self._reader, self._session, self._window, within
        found = reader.measurements_in(session.key, ranges, self._measured)
        values = stored_measurements(found, session)
        place = session.key, after + 1, self._read_until(until)
        closed = reader.window_closed(*place, self._decided, self._closed_at)
        parts: dict[str, Trajectory] = {}
        positions: dict[str, Ints] = {}
        asked = iter(ranges)
        place = session.key, after + 1, min(until, self.settled_round)
        unsettled = reader.first_began_after(*place, self._closed_at)  # its value may still come
        rounds = reader.rounds_in(session.key, ranges, window.last)
        for name, (start, contexts, begun) in stored_rounds(rounds, session, self._voids):
            first, end = next(one[1:] for one in asked if one[0] == name and one[2] >= start)
            closers = np.append(begun[1:], self._n_positions)
            n_closed = int(np.searchsorted(closers, after, "right"))
            n_closed = max(n_closed, min(closed.get(name, 0) - start + 1, len(begun)))
            unsettled = min([unsettled, *closers[n_closed : n_closed + 1].tolist()])
            # what closes the last round of a range is not in it
            last = min(start + len(begun), end) - 1
            given = values.get(name, NONE)
            rows = self._closing.rows(given, start, min(start + n_closed - 1, last))
            rows = rows.between(start, last)
            if start > first:  # earlier rounds are dropped
                rows = self._with_lags(rows, start)
            at = rows.last - start
            has_value = np.isin(rows.first, given.first) & (not self._closing.adds_up)
            # the order of the names is that of the trajectories: no key holds a zero byte
            key = f"{name}\0{start:020}"
            parts[key] = Trajectory(contexts, replace(rows, position=None), start, begun)
            positions[key] = np.where(has_value, begun[at], closers[at])
        history = History(session.dim, parts, window)
        history = with_covariates(reader, session, history, self._measured)
        trajectories = {
            key: replace(part, measurements=replace(part.measurements, position=positions[key]))
            for key, part in history.trajectories.items()
        }
        return replace(
            history,
            trajectories=trajectories,
            measured=self._n_positions,
            unsettled=unsettled,
            settled_round=self.settled_round,
        )


def _rounds(ranges: list[Range]) -> Rows:
    """Return the rounds of some ranges as measurements of nothing, by trajectory."""
    found: dict[str, list[Ints]] = {}
    for name, first, last in ranges:
        found.setdefault(name, []).append(np.arange(max(first, 1), last + 1))
    rounds = {name: np.concatenate(parts) for name, parts in found.items()}
    return {name: Measurements.single(some, np.zeros(len(some))) for name, some in rounds.items()}
