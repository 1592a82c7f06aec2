"""Statistics of an experiment with their confidence intervals, at any level."""

from dataclasses import dataclass
from math import isfinite, sqrt
from typing import NamedTuple, Protocol

import numpy as np
from scipy import stats

from lhb_engine.history import Floats


class Interval(NamedTuple):
    """A value and its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        size = (self.high - self.low) / 2
        if 0 < max(abs(self.low), abs(self.high)) < 1e-3:
            return f"{self.value:.1e} [{self.low:.1e}, {self.high:.1e}]"
        size = size if isfinite(size) and size > 0 else abs(self.value) / 100
        digits = min(max(0, 1 - int(np.floor(np.log10(size)))), 4) if size > 0 else 1
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


class Statistic(Protocol):
    """A measured quantity."""

    def interval(self, level: float) -> Interval:
        """Return the two-sided confidence interval with coverage `level`."""


@dataclass(frozen=True)
class SeedMean:
    """The mean of independent values, one a seed, with Student's t interval."""

    values: Floats

    def interval(self, level: float) -> Interval:
        """Return the mean and its t interval, which is unbounded for a single seed."""
        n, mean = len(self.values), float(self.values.mean())
        if n < 2:
            return Interval(mean, -np.inf, np.inf)
        error = float(self.values.std(ddof=1)) / sqrt(n)
        reach = error * float(stats.t.ppf((1 + level) / 2, n - 1))
        return Interval(mean, mean - reach, mean + reach)


@dataclass(frozen=True)
class Share:
    """A share of independent trials less `expected`, with the exact (Clopper-Pearson) interval."""

    count: int
    trials: int
    expected: float = 0.0

    def interval(self, level: float) -> Interval:
        """Return the share less `expected` and its exact binomial interval."""
        k, n, tail = self.count, self.trials, (1 - level) / 2
        low = float(stats.beta.ppf(tail, k, n - k + 1)) if k > 0 else 0.0
        high = float(stats.beta.ppf(1 - tail, k + 1, n - k)) if k < n else 1.0
        return Interval(k / n - self.expected, low - self.expected, high - self.expected)
