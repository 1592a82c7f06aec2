"""Worlds whose contexts have a mean, in which the application may have run before round 1."""

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment

_BEFORE = 7  # number of their stream


class ContextsAbove(LongHorizonEnvironment):
    """All contexts are `above` higher than plain ones."""

    above = 3.0

    def contexts(self, first: int, last: int) -> Floats:
        """Return the contexts of all arms in rounds first..last, (n, K, dim)."""
        return super().contexts(first, last) + self.above


class Running(ContextsAbove):
    """The application ran for at least h rounds before the first; it chose arms at random."""

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards, and what the rounds before the first still pay."""
        contexts = 2.0 * self._uniform(_BEFORE, 1, (self.horizon, self.dim)) - 1.0 + self.above
        before = super().signals(contexts)  # the last one is that of round 0
        paid = np.convolve(before, self.weights)[self.horizon :]
        out = super().rewards(signals, first)
        n = max(0, min(len(paid) - first + 1, len(out)))
        out[:n] += paid[first - 1 : first - 1 + n]
        return out


class RunningAboutZero(Running):
    """The same where contexts have no mean."""

    above = 0.0
