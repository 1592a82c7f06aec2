"""Simulated worlds: contexts and rewards of MODEL 1, bit for bit the same however they are read.

A world is immutable and knows nothing of who plays it. Contexts and noise come from streams of
their own with random access, so a player may read a round or a block, twice or out of order, and
several agents meet the same world.
"""

from typing import Self

import numpy as np
from scipy.special import ndtri

from lhb_engine.history import Floats, Ints
from lhb_engine.simulation.lag_patterns import lag_weights

# One stream a purpose: a further one (missing rewards, say) leaves these as they are.
_TRUTH, _CONTEXTS, _NOISE = range(3)


class LongHorizonEnvironment:
    """r_t = sum_k w_k <xi_{t-k}, theta> + eps_t, with contexts uniform on [-1, 1]^d.

    Parameters
    ----------
    theta : (dim,) array
        True arm parameter.
    weights : (horizon,) array
        True lag weights w.
    n_arms : int
        Arms K a round.
    noise : float
        Standard deviation of eps, Gaussian.
    seed : int
        Of the context and noise streams.
    """

    def __init__(
        self, theta: Floats, weights: Floats, *, n_arms: int = 10, noise: float = 0.1, seed: int = 0
    ) -> None:
        if n_arms < 1:
            raise ValueError("n_arms must be at least 1")
        if not noise >= 0:
            raise ValueError("noise must not be negative")
        self.theta: Floats = np.array(theta, dtype=np.float64)
        self.weights: Floats = np.array(weights, dtype=np.float64)
        self.n_arms = n_arms
        self.noise = noise
        self.seed = seed
        self._support: Ints = np.flatnonzero(self.weights)

    @classmethod
    def draw(
        cls,
        *,
        dim: int,
        horizon: int,
        n_arms: int = 10,
        noise: float = 0.1,
        pattern: str = "flat",
        sparsity: int = 5,
        seed: int = 0,
    ) -> Self:
        """A world at random: theta uniform on the unit sphere, w by `lag_weights`.

        The truth depends on `seed`, `dim`, and w's settings alone: other noise, or more arms,
        leave it as it is.
        """
        rng = np.random.Generator(_stream(seed, _TRUTH))
        direction = rng.standard_normal(dim)
        theta = direction / np.linalg.norm(direction)
        weights = lag_weights(pattern, horizon, sparsity, rng)
        return cls(theta, weights, n_arms=n_arms, noise=noise, seed=seed)

    @property
    def dim(self) -> int:
        """Numbers in a context."""
        return len(self.theta)

    @property
    def horizon(self) -> int:
        """Number of lags h."""
        return len(self.weights)

    def contexts(self, first: int, last: int) -> Floats:
        """The arms of rounds first..last, (n, K, dim)."""
        shape = (last - first + 1, self.n_arms, self.dim)
        return 2.0 * self._uniform(_CONTEXTS, first, shape) - 1.0

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """<x, theta>, (..., dim) -> (...); elementwise, so a block equals its rounds.

        `first` is the round of contexts[0]: here theta is the same in all rounds.
        """
        out = contexts[..., 0] * self.theta[0]
        for i in range(1, self.dim):
            out = out + contexts[..., i] * self.theta[i]
        return np.asarray(out)

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Rewards of rounds first..last.

        Parameters
        ----------
        signals : (last,) array
            <xi_t, theta> of the selected contexts of rounds 1..last.
        first : int
            First round whose reward is wanted.

        Returns
        -------
        (last - first + 1,) array
        """
        last = len(signals)
        out = np.zeros(last - first + 1)
        for lag in self._support.tolist():
            skip = max(0, lag + 1 - first)  # xi_j = 0 for j <= 0
            if skip < len(out):
                out[skip:] += self.weights[lag] * signals[first - 1 + skip - lag : last - lag]
        return out + self._errors(first, last)

    def _errors(self, first: int, last: int) -> Floats:
        # by the quantile function: one uniform a value, so the stream has random access
        uniform = self._uniform(_NOISE, first, (last - first + 1,))
        return np.asarray(self.noise * ndtri(uniform + 2.0**-54))

    def _uniform(self, purpose: int, first: int, shape: tuple[int, ...]) -> Floats:
        bits = _stream(self.seed, purpose)
        bits.advance((first - 1) * int(np.prod(shape[1:])))  # a double takes one step
        return np.random.Generator(bits).random(shape)


def _stream(seed: int, purpose: int) -> np.random.PCG64:
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose,)))
