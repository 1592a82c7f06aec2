"""How well an estimate predicted the rounds that came after it: `anytime`'s alarm and its guard."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lhb_engine.estimate import Estimate
from lhb_engine.history import Floats, History

if TYPE_CHECKING:
    from lhb_engine.rows import Rows

FEWEST = 20
WORSE = 1.25  # squared error over the noise expected, below which nothing is said
SURE = 5.0  # standard errors of that ratio under normal noise
FEWEST_BETTER = 4
BETTER = 2.0  # standard errors by which a new estimate's squared errors may not exceed the old's


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
        rows = self._later(history)
        if rows is None or rows.design.n_rows < FEWEST or self.noise <= 0:
            return {}
        ratio = float(np.mean((self._errors(rows) / self.noise) ** 2))
        limit = max(WORSE, 1.0 + SURE * float(np.sqrt(2.0 / rows.design.n_rows)))
        return {
            "held_out_rows": rows.design.n_rows,
            "held_out_error": ratio,
            "alarm": bool(self.settled and ratio > limit),
        }

    def is_better(self, history: History, new: "Prediction") -> bool:
        """Whether it explains the rows that came after it clearly better than `new`.

        It had not seen them, and `new` has: that is no small difference, and no fair one.
        """
        rows = self._later(history)
        if rows is None or rows.design.n_rows < FEWEST_BETTER:
            return False
        excess = new._errors(rows) ** 2 - self._errors(rows) ** 2
        error = float(excess.std(ddof=1)) / np.sqrt(len(excess))
        return bool(float(excess.mean()) > BETTER * error)

    def _later(self, history: History) -> "Rows | None":
        """The window's rows that came after; None where there are none."""
        from lhb_engine.rows import measured_rows  # brings scipy, which a server starts without

        window = history.window
        if window is None or window.last <= self.last_round:
            return None
        later = replace(window, first=self.last_round + 1)
        past = history.over(later)
        return measured_rows(past) if past.trajectories else None

    def _errors(self, rows: "Rows") -> Floats:
        phi = np.zeros((rows.design.n_lags, len(self.theta)))
        known = self.lag_weights[: len(phi)]
        phi[: len(known)] = np.outer(known, self.theta)
        return np.asarray(rows.y - rows.design.matvec(phi) - self.intercept * rows.design.intercept)
