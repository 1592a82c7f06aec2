"""The past of a fit as moments of all rows, and the latest rows as rows."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lhb_engine.agents.base import NeedsNewSums
from lhb_engine.agents.fit_part import Part, too_little
from lhb_engine.agents.fit_past import RowsPast
from lhb_engine.design.aligned_rounds import NEVER, AlignedRounds, align
from lhb_engine.design.level_sums import LevelSums
from lhb_engine.design.moment_sums import moments_of
from lhb_engine.design.moments import Moments, SquareSums
from lhb_engine.design.scaling import Units, power_of_two
from lhb_engine.design.session_sums import (
    KeptSums,
    Seen,
    SessionSums,
    Slice,
    loses_digits,
    session_sums,
)
from lhb_engine.history import LATEST, LEAST_ROWS, FitWindow, History
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.later_moments import LaterMoments
from lhb_engine.posterior.prediction_check import HeldOut

if TYPE_CHECKING:
    from lhb_engine.agents.anytime import Anytime
    from lhb_engine.agents.base import Agent

TINY = float(np.finfo(float).tiny)  # numbers below have fewer digits
EQUAL = 1e-13  # rewards are all equal if their variance over their mean square is below


class SummedPast(RowsPast):
    """As many numbers however many rows there are.

    `rows` are the latest rows, of all rounds of the session; `sums` those of the rows that count,
    from round `sums.kept.first` on.
    """

    def __init__(
        self, agent: "Anytime", window: FitWindow, rows: AlignedRounds, sums: SessionSums
    ) -> None:
        total = sums.total
        square = np.sqrt(np.diag(total.rows.gram) / max(total.n_rows, 1))
        rewards = np.sqrt(np.array([total.rows.square]) / max(total.n_rows, 1))
        units = Units(power_of_two(square), power_of_two(rewards))
        super().__init__(agent, window, rows, units)
        self.first = sums.kept.first
        self.rows = self.rows.rows(self.first, window.last)
        self.total = self.units.of(total)
        self._after = sums.later and self.units.of(sums.later)
        self._used = sums.seen and self.units.of(sums.seen)

    @cached_property
    def later(self) -> HeldOut | None:
        """The rows that the installed estimate's fit has not used; None if there are none.

        None, too, if all rows that it has used were corrected since: nothing speaks for it.
        """
        some = (one is not None and one.n_rows > 0 for one in (self._after, self._used))
        if self.prediction is None or self._after is None or not all(some):
            return None
        return LaterMoments(self.prediction, self._after)

    def covered(self) -> dict[str, Any]:
        """Return what the estimate says of its rows."""
        rows = self.total.rows
        n_missing = self.window.last - self.first + 1 - round(float(rows.covariates[0, 0]))
        return {
            "n_rows": rows.n_rows,
            "n_missing": n_missing if self.rows.shares_rounds else 0,
            "first_round": self.first,
            "last_round": self.window.last,
        }

    def too_little(self) -> str:
        """Return why the rows cannot be fitted; empty if they can."""
        reason, rows = too_little(self.rows), self.total.rows
        if rows.n_rows < LEAST_ROWS or not rows.gram.any():
            return reason
        level = float(rows.covariate_target[0]) ** 2 / float(rows.covariates[0, 0])
        return reason if rows.square - level <= EQUAL * rows.square else ""

    def part(self, first: int) -> Part:
        """Return the rows from the session's round `first` on."""
        if first <= self.first:
            return Part(self.total, self.rows, self.total.rows, self.n_means)
        return super().part(first)

    def earlier_parts(self, first: int) -> tuple[int, dict[int, FitData]]:
        """Return the round after which rows are held out, and earlier rows by their first round.

        Held out are some of the latest rows, and windows begin in these or with all rows. Where
        trajectories have levels, all rows are those of the installed estimate's fit.
        """
        assert self.prediction is not None
        last = self.window.last
        begin = max(self.first, last - self.rows.n_rows + 1)
        if not self.rows.shares_rounds:
            begin = max(begin, int(self.rows.number[self.rows.number > 0].min()))
        cut = self._cut(max(self.prediction.last_round, begin - 1))
        if cut < begin:
            begin = max(self.first, int(self.rows.number[self.rows.number > 0].min()))
        later = np.flatnonzero(self.rows.number > cut)
        whole = self.seen() if self.rows.levels else self.total - moments_of(self.rows, later)
        parts = {self.first: whole}
        found = self.parts(set(), cut, cut - begin)
        return cut, (parts | found if whole.n_rows >= LEAST_ROWS else found)

    def _cut(self, since: int) -> int:
        """Return the middle of the rounds after `since`.

        Where the latest rows are of earlier rounds, it is that of the rounds of new rows.
        """
        if int(self.rows.number.max()) <= since and self._after is not None:
            new = self.rows.in_order()[-self._after.n_rows :]
            since = int(self.rows.number[new].min()) - 1
        return super()._cut(since)

    def seen(self) -> FitData:
        """Return the rows that the installed estimate's fit used."""
        assert self._used is not None
        return self._used


def kept_sums(
    agent: "Agent",
    slices: Iterable[tuple[int, History]],
    window: FitWindow,
    measured: int | None,
    settled_round: int | None = None,
) -> KeptSums | None:
    """Add up the rows of a fit that are too many to be there all at once; the agent is not changed.

    A slice is the number of its last measurement, and its rows (docs/model.md 10); `measured` is
    the history's `measured_before`. From the sums `Agent.fit_keeping` goes on as from all rows, to
    the bit. None where there are no rows, or their squares are beyond a float.
    """
    first, seen = _counted(agent, measured)
    with np.errstate(over="ignore", invalid="ignore"):
        told = ((stop, agent.told(each)) for stop, each in slices)
        rows = (Slice(align(each), stop, each.unsettled or stop + 1) for stop, each in told)
        found = session_sums(rows, first, window.last, seen, None, settled_round)
    return found.kept if found is not None and found.kept.settled.are_finite else None


def sums_from_bytes(agent: "Agent", data: bytes) -> SquareSums:
    """Return stored sums as the agent's fits take them; ValueError if they are not of its size."""
    kind = LevelSums if agent.stretches.n_rounds else Moments
    found: SquareSums = kind.from_bytes(data, agent.covariates.groups)
    if found.dim != agent.fitted_dim or found.n_lags > agent.horizon or not found.are_finite:
        raise ValueError("not sums of this session")
    return found


def _counted(agent: "Agent", measured: int | None) -> tuple[int, Seen | None]:
    """Return the first round whose row counts, and which rows the installed estimate's fit used."""
    old = agent.prediction
    if old is None:
        return 1, None
    return old.since_round, Seen(NEVER if measured is None else measured, old.last_round)


def sums_of(
    agent: "Anytime", history: History, kept: KeptSums | None
) -> tuple[AlignedRounds, SessionSums] | None:
    """Return the latest rows and the sums of all; None if the rounds, or the latest rows, are few.

    It is None, too, where squares are more than a float holds, or those of all contexts, or of all
    rewards, less. `history` has a window; the agent is not changed.
    """
    window = history.window
    assert window is not None
    if history.is_small(LATEST):
        return None
    first, seen = _counted(agent, history.measured_before)
    first = first if kept is None else kept.first
    with np.errstate(over="ignore", invalid="ignore"):
        rows = align(history)
        every = Slice(rows, NEVER, history.unsettled or 1)
        sums = session_sums([every], first, window.last, seen, kept, history.settled_round)
    assert sums is not None
    if kept is not None and loses_digits(rows, kept, sums):
        raise NeedsNewSums
    latest = history.latest(LATEST)
    found, total = align(latest) if latest.trajectories else None, sums.total.rows
    if found is None or found.n_rows < LEAST_ROWS or not np.isfinite(sums.total.sums).all():
        return None
    is_lost = total.square < TINY and found.y.any()
    is_lost |= np.trace(total.gram) < TINY and found.contexts.any()
    return None if is_lost else (found, sums)
