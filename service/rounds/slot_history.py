"""The past of a session whose rounds are slots of time.

Where rewards are totals over all trajectories, there is one, the default one. Where they are totals
of trajectories, each measured one has all slots; of these a history has those that its totals need.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.context_sets import latest_kept
from lhb_engine.design.levels import NO_LEVELS, Stretches
from lhb_engine.history import NONE, FitWindow, History, Measurements, Parts, Trajectory
from service.rounds.history import StoredPast
from service.rounds.slot_sums import (
    SlotSums,
    SlotTable,
    first_void_slot,
    read_slot_sums,
    slot_sums_of,
)
from service.rounds.stored_rows import (
    Rows,
    first_not_used,
    n_given,
    needed_ranges,
    stored_measurements,
    with_covariates,
)
from service.session.fit_schedule import Watermark
from service.session.records import KeptSumsRow, SessionRow, SlotSumsRow, TrajectoryRow
from service.session.slot_clock import SlotClock
from service.storage.reader import MeasuredRow, Range, Reader


class PastBySlot(StoredPast):
    """Its rounds are slots of time.

    The decisions of a slot are those up to the watermark: one that came later, for a slot that had
    begun, is in the next fit, and a repeat of this fit leaves it out again. With `takes_kept` kept
    sums of slots stand for their decisions.
    """

    seen_stays, rereads = False, False

    def __init__(
        self,
        reader: Reader,
        session: SessionRow,
        clock: SlotClock,
        window: FitWindow,
        mark: Watermark | None,
        takes_kept: bool,
    ) -> None:
        super().__init__(reader, session, window, mark)
        self._clock, self._takes_kept = clock, takes_kept
        self.n_rows = self._n_rows()

    def _n_rows(self) -> int:
        """Return the number of rows, at most."""
        return self._measured

    @cached_property
    def sums(self) -> SlotSums:
        """The summed contexts of the slots that have begun."""
        place = self.reader, self.session, self.window.last, self._known
        return read_slot_sums(*place, kept=self._takes_kept)

    @property
    def settled_round(self) -> int:
        """The last slot that takes no decision any more."""
        return self.sums.settled

    @property
    def new(self) -> Sequence[SlotSumsRow]:
        """Sums of slots that are to be kept."""
        return self.sums.new

    @property
    def is_whole(self) -> bool:
        """Whether the fit can go on before these are kept."""
        return self.sums.is_whole

    def lacks_rows(self, agent: Agent, *, has_sums: bool) -> bool:
        """Whether rows are dropped that this fit needs: slots have other sums, or sets are gone."""
        reader, session, mark = self.reader, self.session, self._known
        if not session.dropped_to or mark is None:
            return False
        void = first_void_slot(reader, session, mark.measured)
        settled = min(self._clock.settled(self.window.last), void - 1)
        sets = latest_kept(mark.decided, self._latest)
        return settled < reader.summed_for_good(session) or sets[0] <= session.dropped_to

    def has_changed(self, since: KeptSumsRow) -> bool:
        """Return whether a decision of a slot that was settled was voided."""
        void = first_void_slot(self.reader, self.session, since.measured)
        return void <= self._clock.settled(since.last_round)

    def whole(self) -> History:
        """Build the history of all rows of the window."""
        return self._whole(self.sums)

    def measured(self) -> History:
        """Build the same history, all contexts of which are zero."""
        none = SlotTable(n_given(self.session))
        return self._whole(SlotSums(self.reader, self.session, 0, none))

    def _whole(self, sums: SlotSums) -> History:
        session, window, until = self.session, self.window, self._measured
        first = max(1, window.first - window.n_lags + 1)
        values = stored_measurements(self._values(), session, self.anew)
        rows = {name: some.between(window.first, window.last) for name, some in values.items()}
        if self._has_parts:
            ranges = self._ranges([(rows, max(window.n_lags, 2 * session.horizon))])
        else:  # other agents' fits would take the parts of a trajectory for several
            ranges = [(name, first, window.last) for name in [*rows] or [""]]
        history = self._history(sums, ranges, rows)
        if self._known is not None:
            history = _until_settled(history, values, sums.settled, (0, until))
        return with_covariates(self.reader, session, history, until, of_decisions=False)

    def _values(self) -> Iterable[MeasuredRow]:
        """Return the measurements of a history of all rows."""
        session, known = self.session, self._measured
        if session.kind.fits_responses(session.options):
            last = min(known, session.n_measurements)  # without sums of older ones
            return self.reader.measurements_after(session.key, max(0, last - self._latest), last)
        return self.reader.window_measurements(session.key, 1, self.window.last, 0, known)

    def recent(self, n_settled: int, stretches: Stretches = NO_LEVELS) -> History:
        """Build the history of a fit that has sums of the first `n_settled` measurements."""
        place = n_settled, self._measured
        wanted = self._with_levels(self._after(*place), stretches)
        return self._of_ranges(self._with_latest(wanted), place)

    def _with_latest(self, wanted: list[Rows]) -> list[Range]:
        """Return the ranges of slots that rows need, and those of the latest measurements."""
        latest = self._after(max(0, self._measured - self._latest), self._measured)
        n_lags, n_before = self.window.n_lags, 2 * self.session.horizon
        lags = [(rows, n_lags) for rows in wanted]
        return self._ranges([*lags, (latest, max(n_lags, n_before))])

    def _needed(self, wanted: list[Rows]) -> list[Range]:
        return self._ranges([(rows, self.window.n_lags) for rows in wanted])

    def of(self, name: str, first: int = 1) -> History:
        """Build the history of the slots of one trajectory, from one to the last measured one."""
        row = self.reader.trajectory((*self.session.key, name))
        if row is None or row.measured_through < first:
            return History(self.session.dim, {}, self.window)
        self.sums = self._sums_of(row)
        ranges = self._begun([(name, first, row.measured_through)])
        return self._of_ranges(ranges, (self._measured, self._measured))

    def _sums_of(self, trajectory: TrajectoryRow) -> SlotSums:
        return slot_sums_of(self.reader, self.session, self._clock, trajectory)

    @property
    def _has_parts(self) -> bool:
        """Whether fits take a trajectory in parts, each with the slots of some totals."""
        return self.session.kind.takes_parts

    def _ranges(self, wanted: Sequence[tuple[Mapping[str, Measurements], int]]) -> list[Range]:
        """Return the ranges of slots that measurements need, each with its number of lags."""
        return self._begun(needed_ranges(wanted, {}))

    def _begun(self, ranges: list[Range]) -> list[Range]:
        """Return what of ranges has begun."""
        until = self.window.last
        return [(name, first, min(last, until)) for name, first, last in ranges if first <= until]

    def _of_ranges(self, ranges: list[Range], within: tuple[int, int]) -> History:
        session, until = self.session, self._measured
        rows = self.reader.measurements_in(session.key, ranges, until)
        values = stored_measurements(rows, session, self.anew)
        history = self._history(self.sums, ranges, values)
        history = _until_settled(history, values, self.sums.settled, within)
        return with_covariates(self.reader, session, history, until, of_decisions=False)

    def _history(
        self, sums: SlotSums, ranges: list[Range], values: Mapping[str, Measurements]
    ) -> History:
        """Build the history of ranges of slots, with those of the measurements in each."""
        session, window = self.session, self.window
        parts = [
            (name, Trajectory(contexts, values.get(name, NONE).between(first, last), first))
            for (name, first, last), contexts in zip(ranges, sums.contexts(ranges), strict=True)
        ]
        if not parts:  # nothing is measured: the fit says so
            parts = [("", Trajectory(np.zeros((1, session.dim)), NONE, window.last))]
        latest_after = None
        if self._has_parts and self._known is not None:
            latest_after = max(0, self._measured - self._latest)
        return History(session.dim, Parts.joined(parts), window, latest_after=latest_after)


class PastBySlotOfAll(PastBySlot):
    """Its totals are over all trajectories: there is one, the default one."""

    _has_parts = False

    def _n_rows(self) -> int:
        return self.window.last

    def _values(self) -> Iterable[MeasuredRow]:
        if self.window.first == 1:
            return self.reader.window_measurements(
                self.session.key, 1, self.window.last, 0, self._measured
            )
        return self._since(self.window.first)

    def _since(self, first: int) -> Iterator[MeasuredRow]:
        ranges = [("", first, self.window.last)]
        return self.reader.measurements_in(self.session.key, ranges, self._measured)

    def _with_latest(self, wanted: list[Rows]) -> list[Range]:
        last, n_lags = self.window.last, self.window.n_lags
        first = max(1, last - self._latest + 1)
        latest = stored_measurements(self._since(first), self.session)
        lags = [(rows, n_lags) for rows in (*wanted, latest)]
        return self._begun(needed_ranges(lags, {"": (first, last)}, 2 * self.session.horizon))

    def _sums_of(self, trajectory: TrajectoryRow) -> SlotSums:
        return self.sums


def _until_settled(
    history: History, values: Mapping[str, Measurements], settled: int, within: tuple[int, int]
) -> History:
    """Return a history that says from which measurement, and which slot, on it may change."""
    used = Parts.joined(
        (name, replace(part, measurements=part.measurements.between(1, settled)))
        for name, part in history.trajectories.items()
    )
    return replace(history, unsettled=first_not_used(values, used, *within), settled_round=settled)
