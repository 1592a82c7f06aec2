"""The past of a session whose rounds close with time, and have the sum of their values.

A row stands in the order of the decision that closes its round: its position is that of the
trajectory's next decision, or the one after the window. So the rows up to a position are all there
once a fit has seen it, and what a row is depends on the stored rows alone. Values may come for a
round at any time. Therefore only rounds before the latest 32 768 are settled, and a value for one
of these makes the next fit add all rows anew.
"""

from dataclasses import replace

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import LATEST, FitWindow, History, Ints, Measurements, Trajectory
from service.rounds.closing import closing_of
from service.rounds.history import PastByDecision
from service.rounds.stored_rows import NONE, Rows, stored_measurements, stored_rounds
from service.rounds.told import with_covariates
from service.session.records import KeptSumsRow, SessionRow
from service.session.schedule_records import Watermark
from service.storage.reader import Range, Reader


class PastByTime(PastByDecision):
    """Its rounds are decisions that time closes."""

    seen_stays = False
    settled_round: int

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, known: Watermark
    ) -> None:
        super().__init__(reader, session, window, known)
        self._decided, self._closed_at = known.decided, known.closed_at
        self._n_positions = window.last + 1
        self.settled_round = window.last - LATEST

    def seen_before(self, agent: Agent, measured: int | None) -> int | None:
        """Return up to which position the rows are those of the installed estimate's fit."""
        return None if agent.prediction is None else agent.prediction.last_round

    def has_changed(self, since: KeptSumsRow) -> bool:
        """Return whether values came for rounds that were settled."""
        place = self._session.key, since.measured, self._measured
        oldest = self._reader.oldest_measured(*place)
        return oldest is not None and oldest <= since.last_round - LATEST

    def whole(self) -> History:
        """Build the history that `Agent.fit` gets: all rows of the window."""
        history = super().whole()
        return self._in_order(history, 0) if self.settled_round > 0 else history

    def recent(self, n_settled: int, stretches: Stretches = NO_LEVELS) -> History:
        """Build the history of a fit that has sums of the rows up to a position."""
        window, session = self._window, self._session
        later = self._with_levels(self._after(n_settled, self._n_positions), stretches)
        place = session.key, self.settled_round + 1, window.last
        spans = self._reader.window_spans(*place)
        latest = {name: rounds for name, *rounds in spans if name != session.erasing}
        return self._of_ranges(self._needed(later, latest), (n_settled, self._n_positions))

    def _after(self, after: int, until: int) -> Rows:
        """Return the rounds that close, or begin, at the positions of a range."""
        spans = self._reader.window_spans(self._session.key, after + 1, self._read_until(until))
        return _rounds([(name, first - 1, last) for name, first, last in spans])

    def _with_levels(self, rows: Rows, stretches: Stretches) -> list[Rows]:
        if not stretches.n_rounds:
            return [rows]
        whole = [
            (name, *rounds) for name, some in rows.items() for rounds in stretches.of(some.first)
        ]
        return [rows, _rounds(whole)]

    def _read_until(self, until: int) -> int:
        """Return the position of the last decision that closes a round up to a position."""
        return self._decided if until == self._n_positions else until

    def _of_ranges(self, ranges: list[Range], within: tuple[int, int]) -> History:
        reader, session, window, (after, until) = self._reader, self._session, self._window, within
        found = reader.measurements_in(session.key, ranges, self._measured)
        values = stored_measurements(found, session)
        place = session.key, after + 1, self._read_until(until)
        closed = reader.window_closed(*place, self._decided, self._closed_at)
        parts, ends = {}, {(name, first): last for name, first, last in ranges}
        rounds = reader.rounds_in(session.key, ranges, window.last)
        for name, (start, contexts, positions) in stored_rounds(rounds, session, self._voids):
            part = Trajectory(contexts, NONE, start, positions)
            settled = start - 1 + int(np.searchsorted(self._closers(part), after, "right"))
            # what closes the last round of a range is not in it
            last = min(part.last_round, ends[name, start] - 1)
            last = min(last, max(settled, closed.get(name, 0)))
            rows = closing_of(session).rows(values.get(name, NONE), start, last)
            # the order of the names is that of the trajectories: no key holds a zero byte
            parts[f"{name}\0{start:020}"] = replace(part, measurements=rows)
        history = History(session.dim, parts, window)
        history = with_covariates(reader, session, history, self._measured)
        return self._in_order(history, after)

    def _closers(self, part: Trajectory) -> Ints:
        """Return the position at which each round of a trajectory closes."""
        return np.append(part.numbering[1:], self._n_positions)

    def _in_order(self, history: History, after: int) -> History:
        """Return the history with the positions of its rows, and of the first that may change."""
        parts, unsettled = {}, self.settled_round + 1
        for key, part in history.trajectories.items():
            closers, rows = self._closers(part), part.measurements
            n_closed = len(rows) and int(rows.last[-1]) - part.first_round + 1
            is_open = closers[n_closed:] > after
            unsettled = min([unsettled, *closers[n_closed:][is_open][:1].tolist()])
            position = closers[rows.first - part.first_round]
            parts[key] = replace(part, measurements=replace(rows, position=position))
        return replace(
            history,
            trajectories=parts,
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
