"""The past that a fit of `anytime` has: all rows of its window, or moments and the latest rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lhb_engine.agents.anytime_options import AnytimeOptions
from lhb_engine.agents.base import Agent, NeedsNewSums
from lhb_engine.agents.rank_one_agent import RankOneAgent
from lhb_engine.design.aligned_rounds import AlignedRounds, align
from lhb_engine.design.coloured_noise import in_time, whitened
from lhb_engine.design.level_sums import LevelSums
from lhb_engine.design.moment_sums import moments_of
from lhb_engine.design.moments import Moments, RowMoments, SquareSums
from lhb_engine.design.replaced_rows import NEVER
from lhb_engine.design.scaling import LEAST_CONTEXT, Rows, Units, power_of_two
from lhb_engine.design.session_sums import (
    KeptSums,
    Seen,
    SessionSums,
    Slice,
    loses_digits,
    session_sums,
)
from lhb_engine.findings.check_side_effects import following
from lhb_engine.history import LEAST_ROWS, FitWindow, History, Ints
from lhb_engine.posterior.acceptance_and_alarm import HeldOut, LaterMoments, LaterRows
from lhb_engine.posterior.covariate_effects import changing
from lhb_engine.posterior.fit_data import MOST_UNKNOWNS, FitData, fit_data, later_rows
from lhb_engine.posterior.linearised_intervals import (
    ROWS_AN_UNKNOWN,
    Certainty,
    certainty,
    negative_lag,
)
from lhb_engine.posterior.outliers import without_outliers
from lhb_engine.posterior.own_responses import less_responses
from lhb_engine.posterior.profile_intervals import TOO_FEW, LeastSquares, profile_certainty, totals
from lhb_engine.posterior.rank_one_posterior import Posterior
from lhb_engine.posterior.thompson_sampling import stops_teaching

TINY = float(np.finfo(float).tiny)  # numbers below have fewer digits
EQUAL = 1e-13  # rewards are all equal if their variance over their mean square is below
ACTIVE = 0.95  # a lag is reported active if it is so in this share of the draws
HIGH = 1e4  # times what rewards vary by: squares lose half of their digits
FEWEST_ROWS = 40  # that a fit after an alarm may use
SAID = 0.05  # probability from which on what all arms share is said to matter
MOST_SMOOTH = 0.5  # of the draws: the linearised intervals hold for few lags alone
CORRELATED = "The noise is correlated, and features may pay at lags of their own."


@dataclass(frozen=True)
class Part:
    """The rows that a posterior is from: all, or the latest with the `moments` of all.

    The last `n_means` covariates are what `with_means` adds.
    """

    data: FitData
    rows: AlignedRounds
    moments: RowMoments | None = None
    n_means: int = 0

    def _unsaid(self, posterior: Posterior) -> Ints:
        """Return the numbers of the means that do nothing, or do not change."""
        n = self.rows.covariates.shape[1]
        of_means = np.arange(n - self.n_means, n)
        if not self._shares(posterior):
            return of_means
        statistics = self.data.statistics
        beside = self.rows.beside
        unit = beside.T @ beside if statistics is None else statistics.rows.covariates
        return of_means[~changing(unit)[1:][of_means]]

    def _shares(self, posterior: Posterior) -> bool:
        """Whether what all arms share may move rewards by itself."""
        return self.n_means > 0 and bool(posterior.included[-1] > SAID)

    def stops_teaching(self) -> bool:
        """Whether the selected contexts no longer vary, by docs/model.md (7.20)."""
        return stops_teaching(self.rows, self.moments)

    def all_lags(self, posterior: Posterior, rho: float) -> LeastSquares | str:
        """Return least squares of all lags of all features, or why nothing can be said by them."""
        data, n_unknown = self.data, self.data.n_lags * len(posterior.theta)
        if n_unknown > MOST_UNKNOWNS or data.n_rows < ROWS_AN_UNKNOWN * n_unknown:
            return TOO_FEW
        if in_time(self.rows, rho):
            return CORRELATED
        rows = data.summed().whitened(rho).without(self._unsaid(posterior))
        return LeastSquares.of(rows, posterior.n_features)

    def certainty(
        self,
        posterior: Posterior,
        told: LeastSquares | str,
        active: Ints,
        rho: float,
        options: AnytimeOptions,
    ) -> Certainty | str:
        """Return intervals, or why there are none; see `certainty` and `profile_certainty`.

        Those of shared profiles hold where such were told. Else intervals are those of all lags of
        all features; where the draws have few shared lags, rows have to be as these say, too.
        """
        if posterior.form == "shared" and posterior.smooth <= MOST_SMOOTH:
            statistics, unsaid = self.data.statistics, self._unsaid(posterior)
            moments = None if statistics is None else statistics.whitened(rho).without(unsaid)
            last, rows = in_time(self.rows, rho), self.rows.without(unsaid)
            if last and not options.signed:
                plain = None if statistics is None else statistics.whitened(0.0).without(unsaid)
                if reason := negative_lag(rows, posterior, plain):
                    return reason
            rows = whitened(rows, last)
            certain = certainty(rows, posterior, active, rho, options.signed, moments)
            is_told = options.form == "shared" or posterior.n_features == 1
            if is_told or isinstance(certain, str):
                return self._told(certain)
        return self._told(
            told if isinstance(told, str) else profile_certainty(told, posterior, active)
        )

    def _told(self, certain: Certainty | str) -> Certainty | str:
        """Return it with the effects of what was told alone."""
        if isinstance(certain, str):
            return certain
        n_told = self.rows.covariates.shape[1] - self.n_means
        return replace(certain, effects=certain.effects[:n_told])

    def totals(self, forms: Sequence[Posterior], told: LeastSquares | str) -> dict[str, Any] | str:
        """Return what an action pays by each feature in all, or why not; see `totals`."""
        return totals(self.data, forms, told, self._unsaid(forms[0]))

    def levels(self, posterior: Posterior) -> dict[str, Any] | None:
        """Return how far the trajectories' levels differ; None if they have none of their own."""
        sums = self.data.statistics
        if sums is None:
            return None
        at = sums.coefficients(posterior.theta, posterior.weights, posterior.effects)
        spread = sums.spread(at)
        return spread and {"spread": spread.value, "interval": [spread.low, spread.high]}

    def effects(self, posterior: Posterior) -> dict[str, Any] | None:
        """Return what the covariates do, a number each or one a group; None if there are none.

        The shares of the variance are those in `rows`, at most all of it. What all arms share is
        left out where it does nothing.
        """
        rows, groups = self.rows, self.rows.groups
        if self.n_means and not self._shares(posterior):
            groups = groups[:-1]
        if not groups:
            return None
        is_row, n = rows.number > 0, sum(groups)
        effects = posterior.effects[1 : 1 + n]
        parts = np.split(rows.covariates[is_row, :n] * effects, np.cumsum(groups)[:-1], 1)
        variance = float(rows.y[is_row].var())
        shares = [float(part.sum(axis=1).var()) / variance if variance else 0.0 for part in parts]
        return {
            "values": effects.tolist(),
            "included": posterior.included[1 : 1 + len(groups)].tolist(),
            "share": [min(1.0, share) for share in shares],
        }

    def in_words(self, posterior: Posterior, certain: Certainty | str) -> str:
        """Return the message of an estimate."""
        clause = "a direction is found, and how far it may be off is not clear yet"
        if not isinstance(certain, str):
            n = round(certain.angle * 180.0 / np.pi)
            clause = f"the direction is known to about {n} degree{'s' * (n != 1)}"
        if not posterior.stands_out:
            clause = "no direction stands out from the noise yet, and the likeliest decides"
        active = f"about {posterior.inclusion.sum():.0f} of {self.data.n_lags} lags are active"
        if not (posterior.inclusion > ACTIVE).any():
            active += ", and which is not clear"
        return f"From {self.data.n_rows} rows {clause}; {active}."


def too_little(rows: AlignedRounds, dim: int) -> str:
    """Return why rows cannot be fitted, by the first `dim` features; empty if they can."""
    if rows.n_rows < LEAST_ROWS:
        return f"{rows.n_rows} measured rows; a fit needs at least {LEAST_ROWS}."
    mean = float(rows.intercept @ rows.y) / float(rows.intercept @ rows.intercept)
    rest = rows.y - mean * rows.intercept
    if float(np.abs(rest).max()) <= 1e-12 * float(np.abs(rows.y).max()):
        return "All rewards are equal: nothing to learn from."
    if np.abs(rows.contexts[:, :dim]).max(initial=0.0) < LEAST_CONTEXT:
        return "All contexts are zero, or too small to count: nothing to learn from."
    return ""


def offset_of(rows: AlignedRounds) -> float:
    """Return an offset so large beside what rewards vary by that squares lose digits, or 0."""
    at = rows.number > 0
    rewards = rows.y[at] / rows.intercept[at]
    offset = float(np.median(rewards))
    return offset if abs(offset) > HIGH * float(np.median(np.abs(rewards - offset))) > 0.0 else 0.0


class RowsPast:
    """All rows of a fit's window, in units in which the largest numbers are about 1.

    `prediction` is the installed estimate's, in these units; `first` the first round that counts.
    What own responses add to everybody's is taken out of `rows`, and not of `plain`. Covariates
    that follow from earlier choices count as 0. An installed estimate that counted on
    them is no `prediction`, and leaves its `form` alone.
    """

    is_summed: ClassVar[bool] = False  # so a whole fit costs as little as a check

    def __init__(
        self,
        agent: RankOneAgent,
        window: FitWindow,
        rows: AlignedRounds,
        units: Units | None = None,
    ) -> None:
        self.window, self.n_means, self.dim = window, agent.covariates.n_means, agent.dim
        offset = offset_of(rows) if units is None and rows.n_rows else 0.0
        rows = replace(rows, y=rows.y - offset * rows.intercept) if offset else rows
        self.units = units or Units(power_of_two(rows.contexts), power_of_two(rows.y), offset)
        follows = following(rows, len(agent.covariates.names), self.n_means)
        self._silent = np.flatnonzero(follows)
        self.prediction = agent.prediction and agent.prediction.in_units(self.units)
        old, self.form = self.prediction, None
        # what it says of choices may be without what they do by these covariates
        hides = old is not None and old.effects[: len(follows)][follows[: len(old.effects)]].any()
        if old is not None and (hides or not old.has_squares):
            self.prediction, self.form = None, old.form
        rows = self._counted(rows)
        if units is None:  # else they stand beside sums of all rows, as these came
            rows = without_outliers(rows, self.prediction)
        self.plain = self.rows = rows
        if self.prediction is not None:
            self.rows = less_responses(self.plain, self.prediction)
        self.first = self.prediction.since_round if self.prediction else 1

    def _counted(self, rows: Rows) -> Rows:
        """Return rows, or sums of them, in the units of the fit, without covariates left out."""
        rows = self.units.of(rows)
        return rows.silencing(self._silent) if len(self._silent) else rows

    @property
    def left_out(self) -> dict[str, Any]:
        """What diagnostics say of covariates that follow from earlier choices, by number."""
        return {"left_out": self._silent.tolist()} if len(self._silent) else {}

    @cached_property
    def later(self) -> HeldOut | None:
        """The rows since the installed estimate's fit; None if there are none.

        With own responses each prediction is judged about its own.
        """
        predictor = self.prediction
        if predictor is None:
            return None
        if predictor.own is None:
            return later_rows(predictor, self.rows)
        later = LaterRows.after(predictor, self.rows)
        return later and replace(later, less=lambda new: less_responses(self.plain, new))

    def covered(self) -> dict[str, Any]:
        """Return what the estimate says of its rows."""
        return {
            "n_rows": self.rows.n_rows,
            "n_missing": self.rows.n_missing,
            "first_round": self.window.first,
            "last_round": self.window.last,
        }

    def too_little(self) -> str:
        """Return why the rows cannot be fitted; empty if they can."""
        return too_little(self.rows, self.dim)

    def part(self, first: int) -> Part:
        """Return the rows from the session's round `first` on."""
        some = first > self.window.first
        rows = self.rows.rows(first, self.window.last) if some else self.rows
        return Part(fit_data(rows), rows, n_means=self.n_means)

    def earlier_parts(self, first: int) -> tuple[int, dict[int, FitData]]:
        """Return the round after which rows are held out, and earlier rows by their first round."""
        assert self.prediction is not None
        cut = self._cut(self.prediction.last_round)
        return cut, self.parts({first}, cut, (cut - first + 1) // 2)

    def _cut(self, since: int) -> int:
        """Return the middle of the rounds after `since`, up to the newest row if that is older."""
        last, newest = self.window.last, int(self.rows.number.max())
        cut = last - (last - since) // 2
        return cut if cut < newest else newest - max(1, (newest - since) // 2)

    def parts(self, starts: set[int], cut: int, back: int) -> dict[int, FitData]:
        """Return the rows from each start up to `cut`, where they are enough for a fit.

        Others start `back` rounds before its end, half as many, and so on.
        """
        parts, fewest = {}, max(FEWEST_ROWS, 8 * self.rows.dim)
        while back >= fewest:
            starts.add(cut - back + 1)
            back //= 2
        for start in sorted(starts):
            inside = (self.rows.number >= start) & (self.rows.number <= cut)
            if inside.any() and not too_little(rows := self.rows.only(inside), self.dim):
                parts[start] = fit_data(rows)
        return parts

    def seen(self) -> FitData:
        """Return the rows that the installed estimate's fit used; all, where these earn nothing."""
        assert self.prediction is not None
        rows = self.rows.rows(1, self.prediction.last_round)
        return fit_data(rows if rows.square > 0.0 else self.rows)


class SummedPast(RowsPast):
    """As many numbers however many rows there are.

    `rows` are the latest rows, of all rounds of the session, or those of some trajectories in its
    `n_latest` rounds; `sums` those of the rows that count, from round `sums.kept.first` on.
    """

    is_summed = True

    def __init__(
        self,
        agent: RankOneAgent,
        window: FitWindow,
        rows: AlignedRounds,
        sums: SessionSums,
        n_latest: int | None,
    ) -> None:
        total = sums.total
        square = np.sqrt(np.diag(total.rows.gram) / max(total.n_rows, 1))
        rewards = np.sqrt(np.array([total.rows.square]) / max(total.n_rows, 1))
        units = Units(power_of_two(square), power_of_two(rewards))
        super().__init__(agent, window, rows, units)
        self.first = sums.kept.first
        self.rows = self.rows.rows(self.first, window.last)
        self._n_latest = n_latest or self.rows.n_rows
        self.total = self._counted(total)
        self._after = sums.later and self._counted(sums.later)
        self._used = sums.seen and self._counted(sums.seen)

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
        reason, rows = too_little(self.rows, self.dim), self.total.rows
        if rows.n_rows < LEAST_ROWS or not rows.gram.any():
            return reason
        by_mean = float(rows.covariate_target[0]) ** 2 / float(rows.covariates[0, 0])
        return reason if rows.square - by_mean <= EQUAL * rows.square else ""

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
        begin = max(self.first, self.window.last - self._n_latest + 1)
        if not self.rows.shares_rounds:
            begin = max(begin, int(self.rows.number[self.rows.number > 0].min()))
        cut = self._cut(max(self.prediction.last_round, begin - 1))
        if cut < begin:
            begin = max(self.first, int(self.rows.number[self.rows.number > 0].min()))
        later = np.flatnonzero(self.rows.number > cut)
        whole = self.seen() if self.rows.levels else self.total - moments_of(self.rows, later)
        parts = {self.first: whole}
        latest = self.parts(set(), cut, cut - begin)
        return cut, (parts | latest if whole.n_rows >= LEAST_ROWS else latest)

    def _cut(self, since: int) -> int:
        """Return the middle of the rounds after `since`.

        Where the latest rows are of earlier rounds, it is that of the rounds of new rows.
        """
        if int(self.rows.number.max()) <= since and self._after is not None:
            new = self.rows.in_order()[-self._after.n_rows :]
            since = int(self.rows.number[new].min()) - 1
        return super()._cut(since)

    def seen(self) -> FitData:
        """Return the rows that the installed estimate's fit used; all, where these earn nothing."""
        assert self._used is not None
        return self._used if self._used.rows.square > 0.0 else self.total


def kept_sums(
    agent: Agent,
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
        sums = session_sums(rows, first, window.last, seen, None, settled_round)
    return sums.kept if sums is not None and sums.kept.settled.are_finite else None


def sums_from_bytes(agent: Agent, data: bytes) -> SquareSums:
    """Return stored sums as the agent's fits take them; ValueError if they are not of its size.

    Stored sums may lack the agent's last products; see `Agent.counting`.
    """
    kind = LevelSums if agent.stretches.n_rounds else Moments
    sums: SquareSums = kind.from_bytes(data, agent.covariates.groups)
    n_fewer = agent.fitted_dim - sums.dim  # products that these lack
    fits = 0 <= n_fewer <= len(agent.products) and sums.n_lags <= agent.horizon
    if not fits or not sums.are_finite:
        raise ValueError("not sums of this session")
    return sums


def _counted(agent: Agent, measured: int | None) -> tuple[int, Seen | None]:
    """Return the first round whose row counts, and which rows the installed estimate's fit used."""
    old = agent.prediction
    if old is None:
        return 1, None
    return old.since_round, Seen(NEVER if measured is None else measured, old.last_round)


def sums_of(
    agent: RankOneAgent, history: History, kept: KeptSums | None
) -> tuple[AlignedRounds, SessionSums, int | None] | None:
    """Return the latest rows, the sums of all, and the number of the latest rounds.

    The number is None where the rows are those of all trajectories. There are no sums where the
    rounds, or the latest rows, are few, and where no float holds the squares. `history` has a
    window; the agent is not changed.
    """
    window, n = history.cut_window, agent.sizes.latest
    if history.is_small(n):
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
    latest = history.latest(n)
    tail, total = align(latest) if latest.trajectories else None, sums.total.rows
    if tail is None or tail.n_rows < LEAST_ROWS or not np.isfinite(sums.total.sums).all():
        return None
    is_lost = total.square < TINY and tail.y.any()
    is_lost |= np.trace(total.gram) < TINY and tail.contexts.any()
    return None if is_lost else (tail, sums, None if history.chosen is None else n)
