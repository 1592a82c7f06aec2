"""Worlds in which features have lag profiles of their own: r_t = sum_k <xi_{t-k}, phi_k> + eps_t.

What an arm is worth is its product with the total sum_k phi_k. So theta is the direction of the
total, and the lag weights are the profile of theta's direction, which sums to the total's length.
"""

from typing import Any, Self

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.simulation.environment import LongHorizonEnvironment

_PROFILES = 8  # number of the stream of what the plain world has not


class ProfileEnvironment(LongHorizonEnvironment):
    """A world by its lag profiles.

    Parameters
    ----------
    profiles : (horizon, dim) array
        What each feature pays at each lag.
    **others
        `n_arms`, `noise` and `seed` of the plain world.
    """

    def __init__(self, profiles: Floats, **others: Any) -> None:
        total = profiles.sum(axis=0)
        theta = total / np.linalg.norm(total)
        super().__init__(theta, profiles @ theta, **others)
        self.profiles = np.array(profiles, dtype=np.float64)
        self._paying = np.flatnonzero(self.profiles.any(axis=1))

    @classmethod
    def draw(cls, *, seed: int = 0, **truth: Any) -> Self:
        """Draw the plain world, and from its theta and lag weights the profiles."""
        world = LongHorizonEnvironment.draw(seed=seed, **truth)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PROFILES,)))
        profiles = cls.profiles_of(world.theta, world.weights, rng)
        return cls(profiles, n_arms=world.n_arms, noise=world.noise, seed=seed)

    @classmethod
    def profiles_of(cls, theta: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
        """Return the profiles, (horizon, dim), by default those of the plain world."""
        return np.outer(weights, theta)

    def carried(self, contexts: Floats, signals: Floats) -> Floats:
        """Return the selected contexts, (n, dim): signals do not tell when a feature pays."""
        return contexts

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Compute the rewards of rounds first..last from the selected contexts, (last, dim)."""
        last = len(signals)
        out = np.zeros(last - first + 1)
        for lag in self._paying.tolist():
            skip = max(0, lag + 1 - first)
            if skip < len(out):
                paying = signals[first - 1 + skip - lag : last - lag]
                for i, pays in enumerate(self.profiles[lag].tolist()):
                    out[skip:] += paying[:, i] * pays
        return out + self.errors(first, last)


class OwnLags(ProfileEnvironment):
    """Each feature pays at lags of its own, as many as the plain world has."""

    @classmethod
    def profiles_of(cls, theta: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
        """Return profiles whose lags are drawn for each feature."""
        return np.column_stack([theta_j * rng.permutation(weights) for theta_j in theta])
