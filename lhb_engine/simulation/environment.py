"""Simulated worlds: contexts and rewards of the model (docs/model.md (1.1)).

A world is immutable and does not depend on who plays it. Contexts and noise come from separate
streams with random access: rounds may be read one by one or in chunks, repeatedly and in any
order, with the same bits, and several agents can play the same world.
"""

import math
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from lhb_engine.history import Floats

_PROFILES = 8  # number of the stream of what the plain world has not
PATTERNS = ("flat", "spiking", "random", "single", "early_mass", "late_mass")
SPIKE_SHARE, SPIKE_SIZE = 0.2, 20.0
EARLY_SHARE, LATE_SHARE = 0.3, 0.6
# One stream for each purpose: adding one leaves the others unchanged.
_TRUTH, _CONTEXTS, _NOISE, _WEATHER = 0, 1, 2, 6


def lag_weights(pattern: str, horizon: int, sparsity: int, rng: np.random.Generator) -> Floats:
    """Draw lag weights w >= 0 with sum 1, a (horizon,) array with s = `sparsity` nonzeros.

    Patterns: "flat": equal. "spiking": ceil(0.2 s) of them are 20 times the rest. "random": uniform
    on (0, 1). "single": one nonzero, whatever `sparsity`. "early_mass", "late_mass": equal, all
    within the first 0.3 h or the last 0.6 h lags. The support is uniform over the allowed lags.

    Raises ValueError for an unknown pattern, or more nonzeros than lags allowed.
    """
    if pattern not in PATTERNS:
        raise ValueError(f"pattern: {pattern!r} is none of {', '.join(PATTERNS)}")
    n_active = 1 if pattern == "single" else sparsity
    start, stop = 0, horizon
    if pattern == "early_mass":
        stop = math.ceil(EARLY_SHARE * horizon)
    elif pattern == "late_mass":
        start = horizon - math.floor(LATE_SHARE * horizon)
    if not 1 <= n_active <= stop - start:
        raise ValueError(f"sparsity: {pattern} takes 1 to {stop - start} nonzeros")
    support = rng.choice(np.arange(start, stop), size=n_active, replace=False)
    sizes = np.ones(n_active)
    if pattern == "spiking":
        sizes[: math.ceil(SPIKE_SHARE * n_active)] = SPIKE_SIZE
    elif pattern == "random":
        sizes = 1.0 - rng.random(n_active)  # never exactly zero
    weights = np.zeros(horizon)
    weights[support] = sizes / sizes.sum()
    return weights


class LongHorizonEnvironment:
    """r_t = sum_k w_k <xi_{t-k}, theta> + eps_t, with contexts uniform on [-1, 1]^d.

    Parameters
    ----------
    theta, weights : (dim,) and (horizon,) arrays
        The truth: arm parameter, and lag weights w.
    n_arms : int
        Arms K per round; at least 1.
    noise : float
        Standard deviation of the Gaussian noise eps, in units of reward; not negative.
    seed : int
        Seed of the context and noise streams.
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
        """Draw a world: theta uniform on the unit sphere, w by `lag_weights`.

        The truth depends only on `seed`, `dim`, `horizon`, `pattern` and `sparsity`, not on the
        noise or the number of arms. Raises ValueError as `lag_weights` does.
        """
        rng = np.random.Generator(_stream(seed, _TRUTH))
        direction = rng.standard_normal(dim)
        theta = direction / np.linalg.norm(direction)
        weights = lag_weights(pattern, horizon, sparsity, rng)
        return cls(theta, weights, n_arms=n_arms, noise=noise, seed=seed)

    @property
    def dim(self) -> int:
        """Number of features in a context."""
        return len(self.theta)

    @property
    def horizon(self) -> int:
        """Number of lags h."""
        return len(self.weights)

    def contexts(self, first: int, last: int) -> Floats:
        """Return the contexts of all arms in rounds first..last, (n, K, dim)."""
        shape = (last - first + 1, self.n_arms, self.dim)
        return 2.0 * self._uniform(_CONTEXTS, first, shape) - 1.0

    def signals(self, contexts: Floats, first: int = 1) -> Floats:
        """Compute <x, theta>, (..., dim) -> (...), in one fixed order of additions.

        So a chunk of rounds gives the same bits as its rounds one by one. `first` is the round
        of contexts[0]; theta does not depend on it here.
        """
        out = contexts[..., 0] * self.theta[0]
        for i in range(1, self.dim):
            out = out + contexts[..., i] * self.theta[i]
        return np.asarray(out)

    def carried(self, contexts: Floats, signals: Floats) -> Floats:
        """Return what later rewards need of selected contexts, (n, dim) -> (n, ...).

        This world's rewards need the contexts' `signals`, (n,).
        """
        return signals

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Compute the rewards of rounds first..last, (last,) -> (last - first + 1,).

        `signals` are <xi_t, theta> of the selected contexts of rounds 1..last: what is `carried`.
        """
        last = len(signals)
        out = np.zeros(last - first + 1)
        for lag, pays, carried in self.paying(signals):
            skip = max(0, lag + 1 - first)  # xi_j = 0 for j <= 0
            if skip < len(out):
                out[skip:] += pays * carried[first - 1 + skip - lag : last - lag]
        return out + self.errors(first, last)

    def paying(self, carried: Floats) -> Iterator[tuple[int, float, Floats]]:
        """Yield lags, what each pays, and the numbers of rounds 1..last that it pays for."""
        for lag in np.flatnonzero(self.weights).tolist():
            yield lag, self.weights[lag], carried

    def errors(self, first: int, last: int) -> Floats:
        """Return the noise eps of rounds first..last, (last - first + 1,)."""
        # the quantile function takes one uniform per value, which gives random access
        uniform = self._uniform(_NOISE, first, (last - first + 1,))
        return np.asarray(self.noise * ndtri(uniform + 2.0**-54))

    def covariates(self, first: int, last: int) -> Floats | None:
        """Return what is told of rounds first..last beside contexts, (n, n_covariates), or None."""
        return None

    def _uniform(self, purpose: int, first: int, shape: tuple[int, ...]) -> Floats:
        bits = _stream(self.seed, purpose)
        bits.advance((first - 1) * int(np.prod(shape[1:])))  # one step per double
        return np.random.Generator(bits).random(shape)


def _stream(seed: int, purpose: int) -> np.random.PCG64:
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose,)))


class Weather(LongHorizonEnvironment):
    """Rewards grow by `effect` times a number from -1 to 1 that is drawn anew for each round."""

    effect = 1.0  # in units of the reward; the largest effect of an arm is 1

    def covariates(self, first: int, last: int) -> Floats:
        """Return the numbers of rounds first..last, (n, 1)."""
        return 2.0 * self._uniform(_WEATHER, first, (last - first + 1, 1)) - 1.0

    def rewards(self, signals: Floats, first: int = 1) -> Floats:
        """Plain rewards, and what the weather adds."""
        numbers = self.covariates(first, len(signals))[:, 0]
        return np.asarray(super().rewards(signals, first) + self.effect * numbers)


def with_weather(effect: float, kind: type[LongHorizonEnvironment]) -> type[Weather]:
    """Return a kind of world with weather of this effect."""
    return type("Weather", (Weather, kind), {"effect": effect})


class ProfileEnvironment(LongHorizonEnvironment):
    """A world by its lag profiles: r_t = sum_k <xi_{t-k}, phi_k> + eps_t.

    What an arm is worth is its product with the total sum_k phi_k. So theta is the direction of the
    total, and the lag weights are the profile of theta's direction, which sums to the total's
    length.

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

    def paying(self, carried: Floats) -> Iterator[tuple[int, float, Floats]]:
        """Yield each feature's numbers for themselves."""
        for lag in np.flatnonzero(self.profiles.any(axis=1)).tolist():
            for pays, feature in zip(self.profiles[lag].tolist(), carried.T, strict=True):
                yield lag, pays, feature


class OwnLags(ProfileEnvironment):
    """Each feature pays at lags of its own, as many as the plain world has."""

    @classmethod
    def profiles_of(cls, theta: Floats, weights: Floats, rng: np.random.Generator) -> Floats:
        """Return profiles whose lags are drawn for each feature."""
        return np.column_stack([theta_j * rng.permutation(weights) for theta_j in theta])
