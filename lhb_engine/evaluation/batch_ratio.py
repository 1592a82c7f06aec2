"""Ratios of sums over dependent rounds, with intervals from batches of neighbours."""

from dataclasses import dataclass, field
from math import inf, nan, sqrt

import numpy as np

from lhb_engine.history import Floats, Ints

Z = 1.96  # of a 95% interval


class Refusal(str):
    """Why a number is not given."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval; `effective` is the number of rounds it rests on."""

    value: float
    low: float
    high: float
    effective: float


@dataclass
class BatchRatio:
    """Sums of numerator and denominator, batch by batch: neighbouring rounds are dependent."""

    length: int
    top: list[float] = field(default_factory=lambda: [0.0])
    bottom: list[float] = field(default_factory=lambda: [0.0])
    squares: float = 0.0
    _filled: int = 0

    def add(self, top: Floats, bottom: Floats, rounds: Ints) -> None:
        """One number a round each; `rounds` decides the batch."""
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
        """Ratio of the sums, its delta-method interval over batches, effective sample size."""
        top, bottom = np.array(self.top), np.array(self.bottom)
        total = float(bottom.sum())
        if total == 0.0:
            return Interval(nan, -inf, inf, 0.0)
        value = float(top.sum()) / total
        n = int((bottom != 0).sum())
        off = top - value * bottom
        spread = sqrt(float(off @ off) * n / max(n - 1, 1)) / total if n > 1 else inf
        effective = total**2 / self.squares
        return Interval(value, value - Z * spread, value + Z * spread, effective)

    def against(self, other: "BatchRatio") -> Interval:
        """The ratio of this numerator to another's, paired by batch."""
        ratio = BatchRatio(self.length, list(self.top), list(other.top), squares=1.0)
        return ratio.interval()
