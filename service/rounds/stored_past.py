"""What a fit reads of a session: its rows, at once or in slices, whatever its rounds are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace

from lhb_engine.agents import Agent
from lhb_engine.design import moment_sums
from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import FitWindow, History
from service.rounds.stored_rows import SLICE, Rows, stored_measurements
from service.session.records import KeptSumsRow, SessionRow
from service.session.schedule_records import Watermark
from service.storage.reader import FOR_EVER, Range, Reader


class StoredPast(ABC):
    """What a fit reads of a session: up to a watermark, without one all that there is."""

    n_rows: int  # how many rows there may be
    anew = FOR_EVER  # a fit from sums reads values, too, that later corrections replaced

    def __init__(
        self, reader: Reader, session: SessionRow, window: FitWindow, known: Watermark | None
    ) -> None:
        self._reader, self._session, self._window, self._known = reader, session, window, known
        self._measured = FOR_EVER if known is None else known.measured
        self._n_positions = self._measured  # of rows

    def seen_before(self, agent: Agent, measured: int | None) -> int | None:
        """Return up to which position the rows are those of the installed estimate's fit.

        That fit could use so many measurements.
        """
        return measured

    def has_order(self, stretches: Stretches) -> bool:
        """Return whether sums of rows can be kept, where levels change after such stretches."""
        return True

    def has_changed(self, since: KeptSumsRow) -> bool:
        """Return whether rows that sums have changed: a decision was voided."""
        return bool(self._reader.voids(self._session.key, since.measured, self._measured))

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
        unsettled = FOR_EVER
        for after in range(0, self._n_positions, SLICE * moment_sums.GRAIN):
            until = min(after + SLICE * moment_sums.GRAIN, self._n_positions)
            wanted = self._with_levels(self._after(after, until), stretches)
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
        found = self._reader.measurements_after(self._session.key, after, until)
        return stored_measurements(found, self._session)

    def _with_levels(self, rows: Rows, stretches: Stretches) -> list[Rows]:
        """Return rows, and where there are levels those of the stretches in which some begin."""
        if not stretches.n_rounds:
            return [rows]
        ranges = [
            (name, *rounds) for name, some in rows.items() for rounds in stretches.of(some.first)
        ]
        return [rows, self._within(ranges)]

    def _within(self, ranges: list[Range]) -> Rows:
        """Return the measurements that begin in ranges of rounds."""
        found = self._reader.measurements_in(self._session.key, ranges, self._measured)
        return stored_measurements(found, self._session)
