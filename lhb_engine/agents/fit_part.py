"""The rows that a posterior of `anytime` is from, and what an estimate says of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import whitened
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import LEAST_ROWS, Ints
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.linearised_intervals import Certainty, certainty
from lhb_engine.posterior.profile_intervals import profile_certainty
from lhb_engine.posterior.rank_one_posterior import Posterior
from lhb_engine.posterior.thompson_sampling import stops_teaching

ACTIVE = 0.95  # a lag is reported active if it is so in this share of the draws
CORRELATED = "The noise is correlated, and features may pay at lags of their own."


@dataclass(frozen=True)
class Part:
    """The rows that a posterior is from: all, or the latest with the moments of all (`past`)."""

    data: FitData
    rows: AlignedRounds
    past: RowMoments | None = None

    def stops_teaching(self) -> bool:
        """Whether the selected contexts no longer vary, by docs/model.md (7.20)."""
        return stops_teaching(self.rows, self.past)

    def certainty(
        self, found: Posterior, active: Ints, rho: float, signed: bool
    ) -> Certainty | str:
        """Return intervals, or why there are none; see `certainty`."""
        known = self.data.statistics
        past = None if known is None else known.whitened(rho)
        rows = self.rows if self.rows.levels else whitened(self.rows, rho)
        return certainty(rows, found, active, rho, signed, past)

    def own_certainty(
        self, found: Posterior, active: Ints, rho: float, signed: bool
    ) -> Certainty | str:
        """Return intervals that hold where features pay at lags of their own, or why not."""
        if rho != 0.0 and not self.rows.levels:
            return CORRELATED
        return profile_certainty(self.data.summed().whitened(rho), found, active)

    def levels(self, found: Posterior) -> dict[str, Any] | None:
        """Return how far the trajectories' levels differ; None if they have none of their own."""
        known = self.data.statistics
        if known is None:
            return None
        spread = known.spread(known.coefficients(found.theta, found.weights, found.effects))
        return spread and {"spread": spread.value, "interval": [spread.low, spread.high]}

    def effects(self, found: Posterior) -> dict[str, Any] | None:
        """Return what the covariates do, a number each or one a group; None if there are none.

        The shares of the variance are those in `rows`, at most all of it.
        """
        rows = self.rows
        if not rows.groups:
            return None
        is_row, edges = rows.number > 0, np.cumsum(rows.groups)[:-1]
        parts = np.split(rows.covariates[is_row] * found.effects[1:], edges, 1)
        variance = float(rows.y[is_row].var())
        shares = [float(part.sum(axis=1).var()) / variance for part in parts]
        return {
            "values": found.effects[1:].tolist(),
            "included": found.included[1:].tolist(),
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
