"""How well an estimate predicted the rounds that came after it: the alarm of `anytime`."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History

FEWEST = 20
WORSE = 1.25  # squared error over the noise expected, below which nothing is said
SURE = 5.0  # standard errors of that ratio under normal noise


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

    def check(self, history: History) -> dict[str, Any]:
        """Mean squared error over noise^2 on the window's rows that came after; {} where too few.

        `alarm` is true where a settled estimate does clearly worse than its own noise.
        """
        from lhb_engine.rows import measured_rows  # brings scipy, which a server starts without

        window = history.window
        if window is None or window.last <= self.last_round or self.noise <= 0:
            return {}
        later = replace(window, first=self.last_round + 1, n_lags=len(self.lag_weights))
        past = history.over(later)
        if not past.trajectories:
            return {}
        rows = measured_rows(past)
        if rows.design.n_rows < FEWEST:
            return {}
        expected = rows.design.matvec(np.outer(self.lag_weights, self.theta))
        left = rows.y - expected - self.intercept * rows.design.intercept
        ratio = float(np.mean((left / self.noise) ** 2))
        limit = max(WORSE, 1.0 + SURE * float(np.sqrt(2.0 / rows.design.n_rows)))
        return {
            "held_out_rows": rows.design.n_rows,
            "held_out_error": ratio,
            "alarm": bool(self.settled and ratio > limit),
        }
