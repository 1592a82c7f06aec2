"""Ratios of sums over dependent rounds, with confidence intervals from batches of rounds."""

from dataclasses import dataclass, field
from math import inf, nan, sqrt

import numpy as np

from lhb_engine.history import Floats, Ints

CONFIDENCE = 0.95


class Refusal(str):
    """The reason why a number is not given, in place of the number."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95% confidence interval, and its effective sample size, in rounds."""

    value: float
    low: float
    high: float
    effective: float


@dataclass
class BatchRatio:
    """Sums of a numerator and a denominator over batches of rounds.

    Neighbouring rounds of a trajectory are dependent, batches of them nearly independent.
    """

    top: Floats = field(default_factory=lambda: np.zeros(0))
    bottom: Floats = field(default_factory=lambda: np.zeros(0))
    squares: float = 0.0

    def add(self, top: Floats, bottom: Floats, batches: Ints) -> None:
        """Add one number per round to each sum; (n,) arrays, with the number of its batch."""
        if not len(batches):
            return
        more = int(batches.max()) + 1 - len(self.top)
        if more > 0:
            room = max(more, len(self.top))  # doubled, so that adding stays cheap
            self.top = np.concatenate([self.top, np.zeros(room)])
            self.bottom = np.concatenate([self.bottom, np.zeros(room)])
        np.add.at(self.top, batches, top)
        np.add.at(self.bottom, batches, bottom)
        self.squares += float((bottom**2).sum())

    def interval(self) -> Interval:
        """Return the ratio of the sums with its interval.

        The standard error is that of the jackknife over batches, and the quantile Student's: the
        delta method's intervals are too narrow where few batches hold most of the denominator.
        """
        top, bottom = self.top, self.bottom
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
        half = float(t.ppf(0.5 + CONFIDENCE / 2, n - 1)) * sqrt(float(off @ off) * (n - 1) / n)
        return Interval(value, value - half, value + half, effective)

    def against(self, other: "BatchRatio") -> Interval:
        """Return the ratio of this numerator to another's, paired by batch."""
        return BatchRatio(self.top, _as_long(other.top, self.top), squares=1.0).interval()

    def less(self, other: "BatchRatio") -> Interval:
        """Return the difference of two ratios with the same denominators, paired by batch."""
        difference = self.top - _as_long(other.top, self.top)
        return BatchRatio(difference, self.bottom, self.squares).interval()


def _as_long(sums: Floats, others: Floats) -> Floats:
    """Return sums with as many batches as others have; batches without rounds are 0."""
    out = np.zeros(len(others))
    n = min(len(sums), len(others))
    out[:n] = sums[:n]
    return out
