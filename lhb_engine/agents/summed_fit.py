"""A fit of the anytime agent from moments of all rows, and from the latest rows as rows."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lhb_engine.agents.anytime_fit import AnytimeFit
from lhb_engine.agents.base import NeedsNewSums
from lhb_engine.agents.fit_part import Part, too_little
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
    sums_of_slices,
)
from lhb_engine.history import LATEST, LEAST_ROWS, FitWindow, History
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.later_moments import LaterMoments
from lhb_engine.posterior.prediction_check import HeldOut, alarm_limit
from lhb_engine.posterior.rank_one_posterior import Posterior

if TYPE_CHECKING:
    from lhb_engine.agents.anytime import Anytime
    from lhb_engine.agents.base import Agent

TINY = float(np.finfo(float).tiny)  # numbers below have fewer digits
EQUAL = 1e-13  # rewards are all equal if their variance over their mean square is below


class SummedFit(AnytimeFit):
    """One fit; it reads the same numbers of the past however many rows that has.

    `rows` are the latest rows, of all rounds of the session; `sums` those of the rows that count,
    from round `sums.kept.first` on.
    """

    def __init__(
        self, agent: "Anytime", window: FitWindow, rows: AlignedRounds, sums: SessionSums
    ) -> None:
        super().__init__(agent, window, rows)
        total = sums.total
        square = np.sqrt(np.diag(total.rows.gram) / max(total.n_rows, 1))
        rewards = np.sqrt(np.array([total.rows.square]) / max(total.n_rows, 1))
        self.units, self.first = Units(power_of_two(square), power_of_two(rewards)), sums.kept.first
        self.rows = self.units.of(rows).rows(self.first, window.last)
        self.prediction = agent.prediction and agent.prediction.in_units(self.units)
        self.total = self.units.of(total)
        self._later = sums.later and self.units.of(sums.later)
        self._used = sums.seen and self.units.of(sums.seen)

    @cached_property
    def _since(self) -> HeldOut | None:
        """The rows that the installed estimate's fit has not used; None if there are none.

        None, too, if all rows that it has used were corrected since: nothing speaks for it.
        """
        if self.prediction is None or self._later is None or self._later.n_rows == 0:
            return None
        if self._used is None or self._used.n_rows == 0:
            return None
        return LaterMoments(self.prediction, self._later)

    def _covered(self) -> dict[str, Any]:
        """Return what the estimate says of its rows."""
        rows = self.total.rows
        n_missing = self.window.last - self.first + 1 - round(float(rows.covariates[0, 0]))
        return {
            "n_rows": rows.n_rows,
            "n_missing": n_missing if self.rows.shares_rounds else 0,
            "first_round": self.first,
            "last_round": self.window.last,
        }

    def _too_little(self) -> str:
        """Return why the rows cannot be fitted; empty if they can."""
        reason, rows = too_little(self.rows), self.total.rows
        if rows.n_rows < LEAST_ROWS or not rows.gram.any():
            return reason
        level = float(rows.covariate_target[0]) ** 2 / float(rows.covariates[0, 0])
        return reason if rows.square - level <= EQUAL * rows.square else ""

    def _part(self, first: int) -> Part:
        """Return the rows from the session's round `first` on."""
        if first <= self.first:
            return Part(self.total, self.rows, self.total.rows)
        return super()._part(first)

    def _explains(self, found: Posterior, rho: float) -> bool:
        """Return whether the new fit explains the later rows too (docs/model.md (7.21))."""
        later = self._later
        assert self.prediction is not None
        assert later is not None
        if self.rows.levels:
            rho = self.prediction.autocorrelation
        square = later.square(found.theta, found.weights, found.effects, rho) / later.n_rows
        return square <= alarm_limit(later.n_rows) * self.prediction.noise**2

    def _earlier_parts(self, first: int) -> tuple[int, dict[int, FitData]]:
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
        whole = self._seen()
        if not self.rows.levels:
            whole = self.total - moments_of(self.rows, later)
        parts = {self.first: whole}
        back = cut - begin
        starts = []
        while back >= self._fewest:
            starts.append(cut - back + 1)
            back //= 2
        found = self._parts(starts, cut)
        return cut, (parts | found if whole.n_rows >= LEAST_ROWS else found)

    def _cut(self, since: int) -> int:
        """Return the middle of the rounds after `since`.

        Where the latest rows are of earlier rounds, it is that of the rounds of new rows.
        """
        if int(self.rows.number.max()) <= since and self._later is not None:
            new = self.rows.in_order()[-self._later.n_rows :]
            since = int(self.rows.number[new].min()) - 1
        return super()._cut(since)

    def _seen(self) -> FitData:
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
        found = sums_of_slices(rows, first, window.last, seen, settled_round)
    return found if found is not None and np.isfinite(found.settled.sums).all() else None


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
        settled = history.unsettled or 1, history.settled_round
        sums = session_sums(rows, first, window.last, seen, kept, *settled)
    if kept is not None and loses_digits(rows, kept, sums):
        raise NeedsNewSums
    latest = history.latest(LATEST)
    found, total = align(latest) if latest.trajectories else None, sums.total.rows
    if found is None or found.n_rows < LEAST_ROWS or not np.isfinite(sums.total.sums).all():
        return None
    is_lost = total.square < TINY and found.y.any()
    is_lost |= np.trace(total.gram) < TINY and found.contexts.any()
    return None if is_lost else (found, sums)
