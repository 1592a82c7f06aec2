"""Confidence intervals of what an experiment measured, at any level."""

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from scipy import stats

from lhb_engine.history import Floats


class Interval(NamedTuple):
    """A value and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        size = (self.high - self.low) / 2
        size = size if isfinite(size) and size > 0 else abs(self.value) / 100
        digits = min(max(0, 1 - int(np.floor(np.log10(size)))), 4) if size > 0 else 1
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


class Statistic(Protocol):
    """A measured quantity."""

    def interval(self, level: float) -> Interval:
        """The two-sided interval that covers the truth with probability `level`."""


@dataclass(frozen=True)
class SeedMean:
    """The mean of one independent value a seed; Student's t interval."""

    values: Floats

    def interval(self, level: float) -> Interval:
        """Mean and t interval; unbounded where there is one seed only."""
        n, mean = len(self.values), float(self.values.mean())
        if n < 2:
            return Interval(mean, -np.inf, np.inf)
        error = float(self.values.std(ddof=1)) / sqrt(n)
        reach = error * float(stats.t.ppf((1 + level) / 2, n - 1))
        return Interval(mean, mean - reach, mean + reach)


@dataclass(frozen=True)
class Share:
    """A share of independent trials; the exact (Clopper-Pearson) interval."""

    count: int
    trials: int

    def interval(self, level: float) -> Interval:
        """Share and exact binomial interval."""
        k, n, tail = self.count, self.trials, (1 - level) / 2
        low = float(stats.beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
        high = float(stats.beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
        return Interval(k / n, low, high)
