"""How well an estimate predicted the rounds that came after it: `anytime`'s alarm and its guard."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import innovations
from lhb_engine.design.scaling import Units
from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, Ints

FEWEST = 20
WORSE = 1.25  # squared error over the noise expected, below which nothing is said
SURE = 5.0  # standard errors of that ratio under normal noise
DOUBT = 2.0  # how much more than its draws say a posterior may be off
FEWEST_BETTER = 4


@dataclass(frozen=True)
class Prediction:
    """What an installed estimate says of rounds to come.

    Attributes
    ----------
    lag_weights : (n_lags,) array, with theta's scale
    theta : (dim,) unit direction
    intercept : reward baseline a round
    noise : standard deviation of eps, of its innovations where it is autocorrelated
    last_round : round of the session up to which it had seen rewards
    settled : rows were at least twice the lags when it was made
    autocorrelation : rho of eps_t = rho eps_(t-1) + u_t
    since_round : round of the session since which rows counted
    """

    lag_weights: Floats
    theta: Floats
    intercept: float
    noise: float
    last_round: int
    settled: bool
    autocorrelation: float = 0.0
    since_round: int = 1

    @classmethod
    def of(cls, estimate: Estimate) -> "Prediction | None":
        """Return what `estimate` predicts; None without a finite direction."""
        if estimate.theta is None or not np.isfinite(estimate.theta).all():
            return None
        return cls(
            estimate.lag_weights,
            estimate.theta,
            estimate.intercept or 0.0,
            estimate.sigma_hat or 0.0,
            estimate.last_round,
            estimate.n_rows >= 2 * len(estimate.lag_weights),
            estimate.diagnostics.get("autocorrelation", 0.0),
            estimate.diagnostics.get("since_round", 1),
        )

    def to_json(self) -> dict[str, Any]:
        """Numbers and lists only; fields that older states do not have are left out at 0 and 1."""
        arrays = {"lag_weights": self.lag_weights.tolist(), "theta": self.theta.tolist()}
        out = asdict(self) | arrays
        if self.autocorrelation == 0.0:
            del out["autocorrelation"]
        if self.since_round == 1:
            del out["since_round"]
        return out

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Prediction":
        """Return the inverse of `to_json`."""
        arrays = {name: np.array(data[name], np.float64) for name in ("lag_weights", "theta")}
        return cls(**data | arrays)

    def in_units(self, units: Units) -> "Prediction":
        """Convert from the user's units: the inverse of `Units.restore`."""
        return replace(
            self,
            lag_weights=self.lag_weights * (units.contexts / units.rewards),
            intercept=self.intercept / units.rewards,
            noise=self.noise / units.rewards,
        )

    def since(self, rows: AlignedRounds) -> "LaterRows | None":
        """Those of `rows` that came after it; None where there are none."""
        later = np.flatnonzero(rows.number > self.last_round)
        return LaterRows(self, rows, later) if len(later) else None

    def residuals(self, rows: AlignedRounds) -> Floats:
        """(n_places,) what is measured less what it predicts of a row by itself."""
        return residuals(rows, self.theta, self.lag_weights, self.intercept)

    def errors(self, rows: AlignedRounds) -> Floats:
        """(n_places,) the same less what the row before lets it predict."""
        return innovations(rows, self.residuals(rows), self.autocorrelation)


def residuals(rows: AlignedRounds, theta: Floats, weights: Floats, intercept: float) -> Floats:
    """(n_places,) y_t - b - sum_k w_k <xi_(t-k), theta>; zero where there is no row."""
    signal = np.convolve(rows.contexts @ theta, weights[: rows.n_lags])[: len(rows.y)]
    return np.where(rows.number > 0, rows.y - signal - intercept * rows.intercept, 0.0)


@dataclass(frozen=True)
class LaterRows:
    """Rows that an installed estimate had not seen.

    Attributes
    ----------
    old : what it predicted
    rows : all rows
    places : (n_later,) array, those of the later ones
    """

    old: Prediction
    rows: AlignedRounds
    places: Ints

    @cached_property
    def errors(self) -> Floats:
        """(n_later,) those of the prediction."""
        return self.old.errors(self.rows)[self.places]

    def check(self, draws: Callable[[], tuple[Floats, Floats]]) -> dict[str, Any]:
        """Score the prediction: its mean squared error over noise^2; {} where rows are too few.

        `alarm` is true where a settled estimate does clearly worse than its posterior allows: than
        its noise and the most that a draw of the parameters differs from it.

        Parameters
        ----------
        draws : callable
            Returns draws of theta and of the lag weights from the posterior of the prediction, as
            (n_draws, dim) and (n_draws, n_lags); called only where noise alone explains too little.
        """
        if len(self.errors) < FEWEST or self.old.noise <= 0:
            return {}
        ratio = float(np.mean((self.errors / self.old.noise) ** 2))
        limit = max(WORSE, 1.0 + SURE * float(np.sqrt(2.0 / len(self.errors))))
        alarm = self.old.settled and ratio > limit
        if alarm:
            alarm = ratio > limit + DOUBT * self._doubt(*draws())
        return {
            "held_out_rows": len(self.errors),
            "held_out_error": ratio,
            "alarm": bool(alarm),
        }

    def _doubt(self, thetas: Floats, weights: Floats) -> float:
        """Return the largest mean squared distance of a draw's predictions from all draws' mean.

        It is told over noise^2.
        """
        rows, rho = self.rows, self.old.autocorrelation
        errors = np.array(
            [
                innovations(rows, residuals(rows, theta, w, 0.0), rho)[self.places]
                for theta, w in zip(thetas, weights, strict=True)
            ]
        )
        change = (errors - errors.mean(axis=0)) / self.old.noise
        return float((change**2).mean(axis=1).max())

    def is_better_than(self, new: Prediction, by: float) -> bool:
        """Whether the old one explains them better than `new` by so many standard errors.

        It had not seen them, and `new` has: that is no small difference, and no fair one.
        """
        if len(self.errors) < FEWEST_BETTER:
            return False
        excess = new.errors(self.rows)[self.places] ** 2 - self.errors**2
        error = float(excess.std(ddof=1)) / np.sqrt(len(excess))
        return bool(float(excess.mean()) > by * error)
