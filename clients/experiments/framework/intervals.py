"""Statistics of an experiment with their confidence intervals, at any level."""

from dataclasses import asdict, dataclass
from math import isfinite, sqrt
from typing import Any, NamedTuple, Protocol

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
class MeanError:
    """The mean of n independent values and its standard error, which is None for a single one."""

    mean: float
    error: float | None
    n: int

    def interval(self, level: float) -> Interval:
        """Return the mean and its t interval, which is unbounded for a single value."""
        if self.error is None:
            return Interval(self.mean, -np.inf, np.inf)
        reach = self.error * float(stats.t.ppf((1 + level) / 2, self.n - 1))
        return Interval(self.mean, self.mean - reach, self.mean + reach)


@dataclass(frozen=True)
class SeedMean:
    """The mean of independent values, one a seed, with Student's t interval."""

    values: Floats

    @property
    def summary(self) -> MeanError:
        """What the interval needs."""
        n = len(self.values)
        error = float(self.values.std(ddof=1)) / sqrt(n) if n > 1 else None
        return MeanError(float(self.values.mean()), error, n)

    def interval(self, level: float) -> Interval:
        """Return the mean and its t interval, which is unbounded for a single seed."""
        return self.summary.interval(level)


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


@dataclass(frozen=True)
class Stated:
    """An interval as an earlier edition states it: rounded, and of one level alone."""

    value: float
    low: float
    high: float
    level: float

    def interval(self, level: float) -> Interval:
        """Return the interval.

        Raises
        ------
        ValueError
            Another level is asked for.
        """
        if abs(level - self.level) > 1e-9:
            raise ValueError(f"stated at level {self.level}, not {level}: run it again")
        return Interval(self.value, self.low, self.high)


_STORED = {"mean": MeanError, "share": Share, "stated": Stated}


def to_json(statistic: Statistic) -> dict[str, Any]:
    """Return a statistic as what JSON can hold, enough for its interval."""
    kept = statistic.summary if isinstance(statistic, SeedMean) else statistic
    (kind,) = (name for name, stored in _STORED.items() if isinstance(kept, stored))
    return {"kind": kind, **asdict(kept)}  # type: ignore[call-overload]


def from_json(stored: dict[str, Any]) -> Statistic:
    """Return the statistic that `to_json` has stored."""
    values = dict(stored)
    statistic: Statistic = _STORED[values.pop("kind")](**values)
    return statistic
