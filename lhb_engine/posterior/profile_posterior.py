"""The posterior where each feature has a lag profile of its own: docs/model.md 14."""

from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from lhb_engine.design.moments import RowMoments
from lhb_engine.estimate import LagForm
from lhb_engine.history import Floats
from lhb_engine.posterior.lag_profiles import SparseProfiles
from lhb_engine.posterior.rank_one_posterior import Posterior, context_scale
from lhb_engine.posterior.smooth_profiles import SmoothProfiles

CHAINS = 4  # of sparse profiles
SWEEPS: dict[LagForm, tuple[int, int]] = {"sparse": (5, 8), "smooth": (6, 18)}  # before, and kept


def profile_posterior(
    rows: RowMoments,
    seed: list[int],
    form: LagForm,
    n_features: int,
    start: Floats | None = None,
    *,
    baseline: bool = False,
) -> Posterior:
    """Sample the posterior of lag profiles phi, and average the draws.

    The result's `weights` are phi, (n_lags, dim), and its `theta` is the direction of what phi adds
    up to. An arm has `n_features`; one more of the rows is that of a past before round 1. `start`
    are profiles found before. With `baseline` all draws have one.
    """
    scale = context_scale(rows)
    size = float(np.sqrt(rows.square / rows.n_rows))
    scaled = rows.divided(scale, size)
    rng = np.random.Generator(np.random.PCG64([*seed, 1 + list(SWEEPS).index(form)]))
    if start is not None:
        known = np.zeros((rows.n_lags, rows.dim))
        known[: len(start)] = start[: rows.n_lags] * scale / size
        start = known
    chain = (
        SparseProfiles(scaled, CHAINS, rng, start)
        if form == "sparse"
        else SmoothProfiles(scaled, rng, start)
    )
    if baseline:
        chain.covariates.have_baseline()
    first, kept = SWEEPS[form]
    for _ in range(first):
        chain.sweep()
    phis = []
    effects, included, noise2 = np.zeros(1), np.zeros(1), 0.0
    for _ in range(kept):
        chain.sweep()
        phis.append(chain.profiles.copy())
        effects = effects + chain.effects().mean(axis=0) / kept
        included = included + chain.covariates.included.mean(axis=0) / kept
        noise2 += float(chain.noise2.mean()) / kept
    found = _posterior(np.concatenate(phis), effects, included, noise2, scale, size, n_features)
    return replace(found, form=form)


def _posterior(
    drawn: Floats,
    effects: Floats,
    included: Floats,
    noise2: float,
    scale: Floats,
    size: float,
    n_features: int,
) -> Posterior:
    """Average draws of phi, (n_draws, n_lags, dim), in units of `scale` and `size`."""
    of_arms = drawn[:, :, :n_features].sum(axis=1)
    value = of_arms.mean(axis=0)
    lengths, length = np.linalg.norm(of_arms, axis=1), float(np.linalg.norm(value))
    cosines = of_arms @ value / np.maximum(lengths * length, 1e-300)
    phis = drawn * (size / scale)
    totals = phis[:, :, :n_features].sum(axis=1)
    phi, error = phis.mean(axis=0), phis.std(axis=0)
    theta = np.zeros(drawn.shape[2])
    theta[:n_features] = totals.mean(axis=0)
    theta /= max(float(np.linalg.norm(theta)), 1e-300)
    least = 2.0 * ndtr(-np.abs(phi) / np.maximum(error, 1e-300)).min(axis=1)
    return Posterior(
        theta=theta,
        concentration=min(length / max(float(lengths.mean()), 1e-300), 1.0),
        weights=phi,
        inclusion=np.maximum(1.0 - least * drawn.shape[2], 0.0) * phi.any(axis=1),
        sign=abs(float(np.sign(cosines).mean())),
        effects=effects * size,
        included=included,
        noise=float(np.sqrt(noise2)) * size,
        spread=float(np.sqrt(np.mean(np.arccos(np.clip(cosines, -1.0, 1.0)) ** 2))),
        draws=(totals, phis),
        n_sweeps=len(drawn),
        n_features=n_features,
    )
