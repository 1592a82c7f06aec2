"""The draws of chains of several kinds, each with the share that its evidence gives it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.posterior.gibbs_chains import Chains
from lhb_engine.posterior.smooth_profiles import SmoothChains, sure_lags

LEAST_SHARE = 0.02  # of the draws: chains of a kind that would have less are left out


@dataclass(frozen=True)
class Draws:
    """Draws of chains, and means of what goes with them."""

    thetas: Floats  # (n_draws, dim)
    w: Floats  # (n_draws, n_lags)
    inclusion: Floats  # (n_lags,): how surely each lag is active, by the group with the most draws
    effects: Floats  # mean of b
    included: Floats  # how often each group of covariates is in the model
    noise2: float  # mean of the noise variance
    smooth: float  # share of the draws whose lag weights are smooth


def draws_of(groups: Sequence[Chains], n_sweeps: int, temper: float) -> Draws:
    """Resample chains by their evidence over `temper`, (7.8), sweep on, and pool their draws.

    Chains of one kind are a group; they are resampled among each other, and draws of all groups
    are pooled by the sums of their chances.
    """
    evidence = [chains.evidence() for chains in groups]
    largest = max(float(of.max()) for of in evidence)
    chances = [np.exp((of - largest) / temper) for of in evidence]
    total = float(sum(chance.sum() for chance in chances))
    drawn, shares = [], []
    for chains, chance in zip(groups, chances, strict=True):
        if chance.sum() > LEAST_SHARE * total:
            n, places = chains.n_chains, np.cumsum(chance / chance.sum())
            chosen = np.searchsorted(places, (np.arange(n) + chains.rng.random()) / n)
            chains.keep(np.minimum(chosen, n - 1))
            drawn.append(_drawn(chains, n_sweeps))
            shares.append(float(chance.sum()))
    return _pooled(drawn, np.array(shares) / sum(shares))


def _drawn(chains: Chains, n_sweeps: int) -> Draws:
    """Run the last sweeps."""
    thetas, w, effects, included, noise2 = [], [], [], [], 0.0
    for _ in range(n_sweeps):
        chains.sweep()
        thetas.append(chains.data.span.whole(chains.theta, chains.outside))
        w.append(chains.w.copy())
        effects.append(chains.effects().mean(axis=0))
        included.append(chains.covariates.included.mean(axis=0))
        noise2 += float(chains.noise2.mean()) / n_sweeps
    directions, weights = np.concatenate(thetas), np.concatenate(w)
    is_smooth = isinstance(chains, SmoothChains)
    active = sure_lags(directions, weights) if is_smooth else (weights != 0).mean(axis=0)
    means = np.mean(effects, axis=0), np.mean(included, axis=0)
    return Draws(directions, weights, active, *means, noise2, float(is_smooth))


def _pooled(parts: Sequence[Draws], shares: Floats) -> Draws:
    """Return draws of which each part has its share, as many as the first part has."""
    if len(parts) == 1:
        return parts[0]
    n, first = len(parts[0].w), 0
    thetas, w = [], []
    for part, end in zip(parts, np.round(np.cumsum(shares) * n).astype(int).tolist(), strict=True):
        at = np.linspace(0, len(part.w), end - first, endpoint=False).astype(int)
        thetas.append(part.thetas[at])
        w.append(part.w[at])
        first = end

    def mean(values: Sequence[Floats]) -> Floats:
        return np.asarray(np.tensordot(shares, np.array(values), 1))

    return Draws(
        np.concatenate(thetas),
        np.concatenate(w),
        parts[int(shares.argmax())].inclusion,
        mean([part.effects for part in parts]),
        mean([part.included for part in parts]),
        float(shares @ [part.noise2 for part in parts]),
        float(shares @ [part.smooth for part in parts]),
    )
