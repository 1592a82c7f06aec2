"""The past of a session whose rounds are decisions, read by a constant number of statements."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import LATEST, FitWindow, History, Measurements, Trajectory
from service.rounds.closing import closing_of
from service.rounds.stored_past import StoredPast
from service.rounds.stored_rows import (
    NONE,
    Rows,
    first_not_used,
    needed_ranges,
    stored_measurements,
    stored_rounds,
)
from service.rounds.told import with_covariates
from service.session.records import SessionRow, VoidRow
from service.session.schedule_records import Watermark
from service.storage.reader import FOR_EVER, Range, Reader


class PastByDecision(StoredPast):
    """Its rounds are decisions.

    The window's rounds are counted by position; contexts also cover the `n_lags - 1` rounds before.
    """

    seen_stays = True  # whether the rows that the installed estimate's fit used stay as they are
    settled_round: int | None = None  # the last round whose context is sure to stay; None: all do
    new: tuple[()] = ()  # sums of slots that are to be kept
    is_whole = True  # whether the fit can go on before these are kept

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, known: Watermark | None = None
    ) -> None:
        super().__init__(reader, session, window, known)
        self.n_rows = window.last

    @cached_property
    def _voids(self) -> list[VoidRow]:
        return self._reader.voids(self._session.key, 0, self._measured)

    def whole(self) -> History:
        """Build the history that `Agent.fit` gets: all rows of the window."""
        reader, session, window, known = self._reader, self._session, self._window, self._known
        place = (session.key, window.first, window.last)
        n_before, closing, measured = window.n_lags - 1, closing_of(session), self._measured
        found = reader.window_measurements(*place, n_before, measured)
        values = stored_measurements(found, session, self.anew)
        closed: dict[str, int] = {}
        if known is not None and closing.is_by_time:
            closed = reader.window_closed(*place, known.decided, known.closed_at)
        trajectories = {}
        rounds = reader.window_rounds(*place, n_before)
        for name, (start, contexts, positions) in stored_rounds(rounds, session, self._voids):
            first = start + int(np.searchsorted(positions, window.first))
            last = start + len(positions) - 1
            rows = values[name] = self._with_lags(values.get(name, NONE), start)
            if known is not None:
                rows = closing.rows(rows, first, min(last, closed.get(name, 0)))
            trajectories[name] = Trajectory(contexts, rows.between(first, last), start, positions)
        history = History(session.dim, trajectories, window)
        if known is not None:
            unsettled = None
            if not closing.is_by_time:
                unsettled = first_not_used(values, trajectories, 0, measured)
            history = replace(history, measured=measured, unsettled=unsettled)
        return with_covariates(reader, session, history, measured)

    def measured(self) -> History:
        """Build the same history for a caller that needs no contexts."""
        return self.whole()

    def recent(self, n_settled: int, stretches: Stretches = NO_LEVELS) -> History:
        """Build the history of a fit that has sums of the first `n_settled` measurements.

        It has the window's latest rounds with twice the lags before them, as checks look at these;
        where hardly any of these is measured, it also has the measurements that came last.
        """
        reader, session, window, known = self._reader, self._session, self._window, self._measured
        key, first = session.key, window.last - LATEST + 1
        later = self._after(n_settled, known)
        rows = reader.window_measurements(key, first, window.last, 0, known)
        wanted = [*self._with_levels(later, stretches), stored_measurements(rows, session)]
        latest = self._spans(first)
        history = self._of_ranges(self._needed(wanted, latest), (n_settled, known))
        if history.measures_latest(LATEST):
            return history
        wanted.append(self._after(max(0, known - LATEST), known))
        return self._of_ranges(self._needed(wanted, latest), (n_settled, known))

    def _spans(self, first: int) -> dict[str, list[int]]:
        """Return the first and the last round of each trajectory in the window, from a position."""
        spans = self._reader.window_spans(self._session.key, first, self._window.last)
        return {name: rounds for name, *rounds in spans if name != self._session.erasing}

    def _needed(
        self, wanted: list[Rows], latest: dict[str, list[int]] | None = None
    ) -> list[Range]:
        """Return the ranges of rounds that rows need, and those of the latest rounds."""
        n_before, n_lags = 2 * self._session.horizon, self._window.n_lags
        return [
            (name, *rounds)
            for name in sorted(set().union(*wanted, latest or {}))
            for rounds in needed_ranges(name, wanted, (latest or {}).get(name), n_before, n_lags)
        ]

    def _of_ranges(self, ranges: list[Range], within: tuple[int, int]) -> History:
        reader, session, window, known = self._reader, self._session, self._window, self._measured
        found = reader.measurements_in(session.key, ranges, known)
        values = stored_measurements(found, session, self.anew)
        parts: dict[str, Trajectory] = {}
        rounds = reader.rounds_in(session.key, ranges, window.last)
        asked = {name: first for name, first, _ in reversed(ranges)}
        for name, (start, contexts, positions) in stored_rounds(rounds, session, self._voids):
            rows = values.get(name, NONE)
            if start > asked.pop(name, start):  # earlier rounds are dropped
                rows = values[name] = self._with_lags(rows, start)
            rows = rows.between(start, start + len(positions) - 1)
            # the order of the names is that of the trajectories: no key holds a zero byte
            parts[f"{name}\0{start:020}"] = Trajectory(contexts, rows, start, positions)
        unsettled = first_not_used(values, parts, *within)
        history = History(session.dim, parts, window, measured=known, unsettled=unsettled)
        return with_covariates(reader, session, history, known)

    def _with_lags(self, rows: Measurements, start: int) -> Measurements:
        """Return the measurements of a trajectory whose lags are there, from round `start` on.

        Where rounds before it are dropped, a trajectory that goes on after a long time has rounds
        whose lags are gone. They are no rows of a fit.
        """
        if start == 1 or not self._session.dropped_to:
            return rows
        return rows.chosen(rows.first >= start + self._window.n_lags - 1)

    def of(self, name: str, first: int = 1) -> History:
        """Build the history of what is left of one trajectory, from a round on."""
        return self._of_ranges([(name, first, FOR_EVER)], (self._n_positions, self._n_positions))
