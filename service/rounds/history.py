"""The past of a session whose rounds are decisions, read by a constant number of statements."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lhb_engine.design import moment_sums
from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import LATEST, FitWindow, History, Measurements, Trajectory
from service.rounds.closing import closing_of
from service.rounds.stored_rows import (
    NONE,
    SLICE,
    first_not_used,
    needed_ranges,
    of_levels,
    stored_measurements,
    stored_rounds,
)
from service.rounds.told import with_covariates
from service.session.due_fits import Watermark
from service.session.records import SessionRow, VoidRow
from service.storage.reader import FOR_EVER, Range, Reader


class PastByDecision:
    """What a fit reads of a session: up to a watermark, without one all that there is.

    The window's rounds are counted by position; contexts also cover the `n_lags - 1` rounds before.
    """

    n_rows: int  # how many rows there may be
    seen_stays = True  # whether the rows that the installed estimate's fit used stay as they are
    settled_round = None  # the last round whose context is sure to stay; None: all do
    anew = FOR_EVER  # a fit from sums reads values, too, that later corrections replaced
    new: tuple[()] = ()  # sums of slots that are to be kept
    is_whole = True  # whether the fit can go on before these are kept

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, known: Watermark | None = None
    ) -> None:
        self._reader, self._session, self._window, self._known = reader, session, window, known
        self._measured = FOR_EVER if known is None else known.measured
        self.n_rows = window.last

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
        voids = reader.voids(session.key, 0, measured)
        for name, (start, contexts, positions) in stored_rounds(rounds, session, voids):
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

        It has the rows of the measurements after these, and those that are pairs with them. It has
        the window's latest rounds, too, with twice the lags before them, as checks look at these;
        where hardly any of these is measured, it also has the measurements that came last. Where
        trajectories have levels, it has the rows of the stretches that have new ones.
        """
        reader, session, window, known = self._reader, self._session, self._window, self._measured
        key, first = session.key, window.last - LATEST + 1
        wanted = [
            stored_measurements(reader.measurements_after(key, n_settled, known), session),
            stored_measurements(
                reader.window_measurements(key, first, window.last, 0, known), session
            ),
        ]
        wanted += of_levels(reader, session, wanted[0], stretches, known)
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
            return self._ranges(ranges, within, voids)

        if (found := read()).measures_latest(LATEST):
            return found
        last = reader.measurements_after(key, max(0, known - LATEST), known)
        wanted.append(stored_measurements(last, session))
        return read()

    def slices(self, stretches: Stretches = NO_LEVELS) -> Iterator[tuple[int, History]]:
        """Build the history of a fit slice by slice: of so many measurements in order of arrival.

        Each has the rows of its measurements, of their pairs, and of their levels, beside the
        position of its last measurement. Slices without a round of the window are left out; the
        first of their measurements that is no row is then that of the next slice.
        """
        key, known = self._session.key, self._measured
        voids, unsettled = self._reader.voids(key, 0, known), FOR_EVER
        for after in range(0, known, SLICE * moment_sums.GRAIN):
            until = min(after + SLICE * moment_sums.GRAIN, known)
            found = self._reader.measurements_after(key, after, until)
            rows = stored_measurements(found, self._session)
            wanted = [rows, *of_levels(self._reader, self._session, rows, stretches, known)]
            ranges = [
                (name, *rounds)
                for name in rows
                for rounds in needed_ranges(name, wanted, None, 0, self._window.n_lags)
            ]
            history = self._ranges(ranges, (after, until), voids)
            assert history.unsettled is not None
            if history.unsettled <= until:
                unsettled = min(unsettled, history.unsettled)
            if history.trajectories:
                yield until, replace(history, unsettled=min(unsettled, history.unsettled))

    def _ranges(
        self, ranges: list[Range], within: tuple[int, int], voids: list[VoidRow]
    ) -> History:
        """Build the history of ranges of rounds of trajectories, in order.

        `within` are the positions, from after the first one to the second one, of the measurements
        that may be the first which is no row.
        """
        reader, session, window, known = self._reader, self._session, self._window, self._measured
        found = reader.measurements_in(session.key, ranges, known)
        values = stored_measurements(found, session, self.anew)
        parts: dict[str, Trajectory] = {}
        rounds = reader.rounds_in(session.key, ranges, window.last)
        asked = {name: first for name, first, _ in reversed(ranges)}
        for name, (start, contexts, positions) in stored_rounds(rounds, session, voids):
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

    def of(self, name: str) -> History:
        """Build the history of what is left of one trajectory."""
        reader, session = self._reader, self._session
        key, ranges = session.key, [(name, 1, FOR_EVER)]
        found = reader.measurements_in(key, ranges, self._measured)
        values = stored_measurements(found, session)
        rounds = reader.rounds_in(key, ranges, self._window.last)
        parts = {}
        for _, (start, contexts, positions) in stored_rounds(
            rounds, session, reader.voids(key, 0, self._measured)
        ):
            rows = self._with_lags(values.get(name, NONE), start)
            rows = rows.between(start, start + len(positions) - 1)
            parts[name] = Trajectory(contexts, rows, start, positions)
        history = History(session.dim, parts, self._window)
        return with_covariates(reader, session, history, self._measured)
