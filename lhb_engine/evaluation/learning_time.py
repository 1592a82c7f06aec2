"""How many rounds it takes until choices are known to pay, before a session begins.

Equation numbers are those of docs/model.md 16.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

LIMITS, STEPS = 12.0, 4801  # of integrals
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class LearningTime:
    """What an agent earns of the possible gain, by the number of rounds that it has seen."""

    noise: float  # standard deviation of what a reward varies by, whatever is chosen
    effect: float  # what the best choices earn a round over chance, at once and later
    horizon: int  # number of lags
    arms: int  # of a round
    dim: int  # features of an arm

    def __post_init__(self) -> None:
        if not 0.0 < self.effect < np.inf or not 0.0 <= self.noise < np.inf:
            raise ValueError("effect must be above 0, and noise not below")
        if min(self.horizon, self.dim) < 1 or self.arms < 2:
            raise ValueError("horizon and dim must be at least 1, arms at least 2")

    @cached_property
    def unit(self) -> float:
        """N of (16.1): rewards with all lags after which 1 / sqrt(2) of the gain is earned."""
        ratio = expected_maximum(self.arms) * self.noise / self.effect
        return self.dim * self.horizon * ratio**2

    @property
    def _late(self) -> float:
        """Rounds until a lag has its first reward, in the mean: of n rounds, n - k tell lag k."""
        return (self.horizon - 1) / 2

    def share(self, rounds: Any) -> Any:
        """Return the share of the possible gain that choices earn after so many rounds."""
        n = np.maximum(rounds - self._late, 0.0)
        return np.sqrt(n / np.maximum(n + self.unit, TINY))

    def rounds(self, share: float) -> float:
        """Return the rounds after which choices earn a share below 1."""
        return self._late + self.unit / (1.0 / share**2 - 1.0)

    def mean_share(self, rounds: float) -> float:
        """Return the mean share over the first rounds."""
        return float(self.share(rounds * (np.arange(STEPS) + 0.5) / STEPS).mean())


def expected_maximum(n: int) -> float:
    """Return the expected maximum of n standard normal numbers."""
    at = np.linspace(-LIMITS, LIMITS, STEPS)
    density = np.exp(-0.5 * at**2) / np.sqrt(2.0 * np.pi)
    return float(np.trapezoid(n * at * density * ndtr(at) ** (n - 1), at))
