"""How well an estimate predicted the rounds that came after it: `anytime`'s alarm and its guard."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History

if TYPE_CHECKING:
    from lhb_engine.design.fit_rows import FitRows

FEWEST = 20
WORSE = 1.25  # squared error over the noise expected, below which nothing is said
SURE = 5.0  # standard errors of that ratio under normal noise
FEWEST_BETTER = 4


@dataclass(frozen=True)
class Prediction:
    """What an installed estimate says of rounds to come.

    Attributes
    ----------
    lag_weights : (n_lags,) array, with theta's scale
    theta : (dim,) unit direction
    intercept : reward baseline a round
    noise : standard deviation of eps
    last_round : round of the session up to which it had seen rewards
    settled : rows were at least twice the lags when it was made
    """

    lag_weights: Floats
    theta: Floats
    intercept: float
    noise: float
    last_round: int
    settled: bool

    @classmethod
    def of(cls, estimate: Estimate) -> "Prediction | None":
        """What `estimate` predicts; None without a finite direction."""
        if estimate.theta is None or not np.isfinite(estimate.theta).all():
            return None
        return cls(
            estimate.lag_weights,
            estimate.theta,
            estimate.intercept or 0.0,
            estimate.sigma_hat or 0.0,
            estimate.last_round,
            estimate.n_rows >= 2 * len(estimate.lag_weights),
        )

    def to_json(self) -> dict[str, Any]:
        """Numbers and lists only."""
        arrays = {"lag_weights": self.lag_weights.tolist(), "theta": self.theta.tolist()}
        return asdict(self) | arrays

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Prediction":
        """The inverse of `to_json`."""
        arrays = {name: np.array(data[name], np.float64) for name in ("lag_weights", "theta")}
        return cls(**data | arrays)

    def since(self, history: History) -> "LaterRows | None":
        """The window's rows that came after it; None where there are none."""
        from lhb_engine.design.fit_rows import (
            measured_rows,  # brings scipy, which a server starts without
        )

        window = history.window
        if window is None or window.last <= self.last_round:
            return None
        later = history.over(replace(window, first=self.last_round + 1))
        if not later.trajectories:
            return None
        rows = measured_rows(later)
        return LaterRows(self, rows, self.errors(rows))

    def errors(self, rows: "FitRows") -> Floats:
        """(n_rows,) what is measured less what it predicts."""
        phi = np.zeros((rows.design.n_lags, len(self.theta)))
        known = self.lag_weights[: len(phi)]
        phi[: len(known)] = np.outer(known, self.theta)
        return np.asarray(rows.y - rows.design.matvec(phi) - self.intercept * rows.design.intercept)


@dataclass(frozen=True)
class LaterRows:
    """Rows that an installed estimate had not seen.

    Attributes
    ----------
    old : what it predicted
    rows : the rows
    errors : (n_rows,) of that prediction
    """

    old: Prediction
    rows: "FitRows"
    errors: Floats

    def check(self) -> dict[str, Any]:
        """Mean squared error over noise^2; {} where rows are too few.

        `alarm` is true where a settled estimate does clearly worse than its own noise.
        """
        if len(self.errors) < FEWEST or self.old.noise <= 0:
            return {}
        ratio = float(np.mean((self.errors / self.old.noise) ** 2))
        limit = max(WORSE, 1.0 + SURE * float(np.sqrt(2.0 / len(self.errors))))
        return {
            "held_out_rows": len(self.errors),
            "held_out_error": ratio,
            "alarm": bool(self.old.settled and ratio > limit),
        }

    def is_better_than(self, new: Prediction, by: float) -> bool:
        """Whether the old one explains them better than `new` by so many standard errors.

        It had not seen them, and `new` has: that is no small difference, and no fair one.
        """
        if len(self.errors) < FEWEST_BETTER:
            return False
        excess = new.errors(self.rows) ** 2 - self.errors**2
        error = float(excess.std(ddof=1)) / np.sqrt(len(excess))
        return bool(float(excess.mean()) > by * error)
