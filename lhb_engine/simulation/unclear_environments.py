"""Worlds in which something is the matter with what the agent is told."""

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment

_CAME = 5  # number of its stream


class FeaturesAlike(LongHorizonEnvironment):
    """The last feature is that before it, but for one part in a hundred."""

    def contexts(self, first: int, last: int) -> Floats:
        """Return plain contexts with such a feature."""
        out = super().contexts(first, last).copy()
        out[..., -1] = out[..., -2] + 0.01 * out[..., -1]
        return out


class KnownBefore(LongHorizonEnvironment):
    """A round's reward is whether somebody came, and only then can the agent act.

    All contexts of the other rounds are 0, as of rounds without an action.
    """

    def contexts(self, first: int, last: int) -> Floats:
        """Return plain contexts, 0 in rounds in which nobody came."""
        came = self._came(first, last)
        return np.where(came[:, None, None], super().contexts(first, last), 0.0)

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Return 1 in rounds in which somebody came, else 0."""
        return self._came(first, len(signals)).astype(np.float64)

    def _came(self, first: int, last: int) -> np.ndarray:
        return self._uniform(_CAME, first, (last - first + 1,)) < 0.5
