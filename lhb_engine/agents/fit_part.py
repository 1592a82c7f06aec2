"""The rows that a posterior of `anytime` is from, and what an estimate says of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import whitened
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import LEAST_ROWS, Ints
from lhb_engine.posterior.covariate_effects import changing
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.linearised_intervals import Certainty, certainty
from lhb_engine.posterior.profile_intervals import profile_certainty, totals
from lhb_engine.posterior.rank_one_posterior import Posterior
from lhb_engine.posterior.thompson_sampling import stops_teaching

ACTIVE = 0.95  # a lag is reported active if it is so in this share of the draws
SAID = 0.05  # probability from which on what all arms share is said to matter
CORRELATED = "The noise is correlated, and features may pay at lags of their own."


@dataclass(frozen=True)
class Part:
    """The rows that a posterior is from: all, or the latest with the moments of all (`past`).

    The last `n_means` covariates are what `with_means` adds.
    """

    data: FitData
    rows: AlignedRounds
    past: RowMoments | None = None
    n_means: int = 0

    def _unsaid(self, found: Posterior) -> Ints:
        """Return the numbers of the means that do nothing, or do not change."""
        n = self.rows.covariates.shape[1]
        of_means = np.arange(n - self.n_means, n)
        if not self._shares(found):
            return of_means
        known = self.data.statistics
        beside = self.rows.beside
        unit = beside.T @ beside if known is None else known.rows.covariates
        return of_means[~changing(unit)[1:][of_means]]

    def _shares(self, found: Posterior) -> bool:
        """Whether what all arms share may move rewards by itself."""
        return self.n_means > 0 and bool(found.included[-1] > SAID)

    def stops_teaching(self) -> bool:
        """Whether the selected contexts no longer vary, by docs/model.md (7.20)."""
        return stops_teaching(self.rows, self.past)

    def certainty(
        self, found: Posterior, active: Ints, rho: float, signed: bool
    ) -> Certainty | str:
        """Return intervals, or why there are none; see `certainty`."""
        known, unsaid = self.data.statistics, self._unsaid(found)
        past = None if known is None else known.whitened(rho).without(unsaid)
        rows = self.rows if self.rows.levels else whitened(self.rows, rho)
        return self._told(certainty(rows.without(unsaid), found, active, rho, signed, past))

    def own_certainty(
        self, found: Posterior, active: Ints, rho: float, signed: bool
    ) -> Certainty | str:
        """Return intervals that hold where features pay at lags of their own, or why not."""
        if rho != 0.0 and not self.rows.levels:
            return CORRELATED
        rows = self.data.summed().whitened(rho).without(self._unsaid(found))
        return self._told(profile_certainty(rows, found, active))

    def _told(self, known: Certainty | str) -> Certainty | str:
        """Return it with the effects of what was told alone."""
        if isinstance(known, str):
            return known
        n_told = self.rows.covariates.shape[1] - self.n_means
        return replace(known, effects=known.effects[:n_told])

    def totals(self, forms: Sequence[Posterior]) -> dict[str, Any] | str:
        """Return what an action pays by each feature in all, or why not; see `totals`."""
        return totals(self.data, forms, self._unsaid(forms[0]))

    def levels(self, found: Posterior) -> dict[str, Any] | None:
        """Return how far the trajectories' levels differ; None if they have none of their own."""
        known = self.data.statistics
        if known is None:
            return None
        spread = known.spread(known.coefficients(found.theta, found.weights, found.effects))
        return spread and {"spread": spread.value, "interval": [spread.low, spread.high]}

    def effects(self, found: Posterior) -> dict[str, Any] | None:
        """Return what the covariates do, a number each or one a group; None if there are none.

        The shares of the variance are those in `rows`, at most all of it. What all arms share is
        left out where it does nothing.
        """
        rows, groups = self.rows, self.rows.groups
        if self.n_means and not self._shares(found):
            groups = groups[:-1]
        if not groups:
            return None
        is_row, n = rows.number > 0, sum(groups)
        effects = found.effects[1 : 1 + n]
        parts = np.split(rows.covariates[is_row, :n] * effects, np.cumsum(groups)[:-1], 1)
        variance = float(rows.y[is_row].var())
        shares = [float(part.sum(axis=1).var()) / variance for part in parts]
        return {
            "values": effects.tolist(),
            "included": found.included[1 : 1 + len(groups)].tolist(),
            "share": [min(1.0, share) for share in shares],
        }

    def in_words(self, found: Posterior, angle: float | None) -> str:
        """Return the message of an estimate."""
        known = "a direction is found, and how far it may be off is not clear yet"
        if angle is not None:
            known = f"the direction is known to about {angle * 180.0 / np.pi:.0f} degrees"
        if not found.stands_out:
            known = "no direction stands out from the noise yet, and the likeliest decides"
        active = f"about {found.inclusion.sum():.0f} of {self.data.n_lags} lags are active"
        if not (found.inclusion > ACTIVE).any():
            active += ", and which is not clear"
        return f"From {self.data.n_rows} rows {known}; {active}."


def too_little(rows: AlignedRounds) -> str:
    """Return why rows cannot be fitted; empty if they can."""
    if rows.n_rows < LEAST_ROWS:
        return f"{rows.n_rows} measured rows; a fit needs at least {LEAST_ROWS}."
    level = float(rows.intercept @ rows.y) / float(rows.intercept @ rows.intercept)
    rest = rows.y - level * rows.intercept
    if float(np.abs(rest).max()) <= 1e-12 * float(np.abs(rows.y).max()):
        return "All rewards are equal: nothing to learn from."
    if not rows.contexts.any():
        return "All contexts are zero: nothing to learn from."
    return ""
