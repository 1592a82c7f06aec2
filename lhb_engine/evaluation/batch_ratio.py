"""Ratios of sums over dependent rounds, with confidence intervals from batches of rounds."""

from dataclasses import dataclass, field
from math import inf, nan, sqrt

import numpy as np

from lhb_engine.history import Floats, Ints

LEVEL = 0.95


class Refusal(str):
    """The reason why a number is not given, in place of the number."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95% confidence interval.

    Attributes
    ----------
    value, low, high : float
    effective : float
        Effective sample size, in rounds.
    """

    value: float
    low: float
    high: float
    effective: float


@dataclass
class BatchRatio:
    """Sums of a numerator and a denominator over batches of neighbouring rounds.

    Neighbouring rounds are dependent, batches nearly independent.

    Parameters
    ----------
    length : int
        Rounds of a batch.
    """

    length: int
    top: list[float] = field(default_factory=lambda: [0.0])
    bottom: list[float] = field(default_factory=lambda: [0.0])
    squares: float = 0.0
    _filled: int = 0

    def add(self, top: Floats, bottom: Floats, rounds: Ints) -> None:
        """Add one number per round to each sum; (n,) arrays, rounds in order."""
        for batch in np.unique(rounds // self.length).tolist():
            inside = rounds // self.length == batch
            if batch != self._filled:
                self.top.append(0.0)
                self.bottom.append(0.0)
                self._filled = batch
            self.top[-1] += float(top[inside].sum())
            self.bottom[-1] += float(bottom[inside].sum())
        self.squares += float((bottom**2).sum())

    def interval(self) -> Interval:
        """Return the ratio of the sums with its interval.

        The standard error is that of the jackknife over batches, and the quantile Student's: the
        delta method's intervals are too narrow where few batches hold most of the denominator.
        """
        top, bottom = np.array(self.top), np.array(self.bottom)
        total = float(bottom.sum())
        if total == 0.0:
            return Interval(nan, -inf, inf, 0.0)
        value = float(top.sum()) / total
        n = int((bottom != 0).sum())
        effective = total**2 / self.squares
        others = total - bottom  # of all batches but one
        if n < 2 or (others <= 0).any():
            return Interval(value, -inf, inf, effective)
        from scipy.stats import t  # here: it takes long to load

        off = (top.sum() - top) / others - value
        half = float(t.ppf(0.5 + LEVEL / 2, n - 1)) * sqrt(float(off @ off) * (n - 1) / n)
        return Interval(value, value - half, value + half, effective)

    def against(self, other: "BatchRatio") -> Interval:
        """Return the ratio of this numerator to another's, paired by batch."""
        ratio = BatchRatio(self.length, list(self.top), list(other.top), squares=1.0)
        return ratio.interval()
