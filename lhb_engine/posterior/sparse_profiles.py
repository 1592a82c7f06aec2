"""The posterior where each feature pays at lags of its own, few of them: docs/model.md 14.

With every lag of every feature as one column, its sampler is that of lag weights (7.3) to (7.5)
with a theta that is 1, a density and a slab for each feature, and weights of either sign.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from lhb_engine.design.moments import RowMoments
from lhb_engine.estimate import LagForm
from lhb_engine.history import Floats
from lhb_engine.posterior.gibbs_sampler import Chains
from lhb_engine.posterior.rank_one_posterior import Posterior, context_scale
from lhb_engine.posterior.smooth_profiles import SmoothProfiles
from lhb_engine.posterior.sweep_products import MomentProducts


class _Columns(MomentProducts):
    """Products of fixed columns, the same for all chains."""

    def columns(self, theta: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
        """Return products of each column with Z, itself and the error; theta is 1."""
        c, p = w.shape
        gram = self.gram = self._pairs.reshape(p, p)
        self._apart = 0
        self.right = np.broadcast_to(self._target[:, 0], (c, p))
        self.along = np.broadcast_to(self._by_lag, (c, *self._by_lag.shape))
        self._now = self.right - w @ gram
        return self.along, np.broadcast_to(np.diag(gram), (c, p)), self._now.copy()

    def left(self, w: Floats) -> Floats:
        """Return e'e without any effect of covariates, (n_chains,)."""
        gram, right = self._pairs.reshape(w.shape[1], -1), self._target[:, 0]
        return np.asarray(self.square - w @ (2.0 * right) + np.vecdot(w @ gram, w))


class SparseProfiles(Chains):
    """Chains over phi, (n_lags, dim), with a spike at 0 and a normal slab for each number.

    Contexts and rewards are scaled to a mean square of about 1. The first half of the chains starts
    from the profiles `start`, the others from 0.
    """

    def __init__(
        self,
        moments: RowMoments,
        n_chains: int,
        rng: np.random.Generator,
        start: Floats | None = None,
    ) -> None:
        self._shape = moments.n_lags, moments.dim
        single = replace(moments, n_lags=moments.n_lagged, dim=1)
        super().__init__(single, np.ones((n_chains, 1)), rng, signed=True)
        self.data = self._columns = _Columns(single)
        self._slab /= moments.dim
        self.slab2 = np.full((n_chains, moments.dim), 2.0 * self._slab)
        self.density = np.full((n_chains, moments.dim), 0.2)
        if start is not None:
            self.w[: n_chains // 2] = start.ravel()
            self.data.columns(self.theta, self.w)
            self.rest = self.data.rest(self.w)
            self._draw_density_and_slab()
            self._draw_theta_and_noise()

    @property
    def profiles(self) -> Floats:
        """The present phi of each chain, (n_chains, n_lags, dim)."""
        return self.w.reshape(len(self.w), *self._shape)

    def _each(self, values: Floats) -> Floats:
        return np.tile(values, self._shape[0])

    def _draw_theta_and_noise(self) -> None:
        """Draw the noise variance alone: theta is 1."""
        self._draw_noise(self._columns.left(self.w), self.covariates.root(self.noise2))


CHAINS = 4  # of sparse profiles
# before, those from profiles found with fewer rows, and kept
SWEEPS: dict[LagForm, tuple[int, int, int]] = {"sparse": (5, 3, 8), "smooth": (6, 3, 18)}


def profile_posterior(
    rows: RowMoments,
    seed: list[int],
    form: LagForm,
    n_features: int,
    start: Floats | None = None,
    *,
    baseline: bool = False,
    groups: Sequence[Sequence[int]] = (),
) -> Posterior:
    """Sample the posterior of lag profiles phi, and average the draws.

    The result's `weights` are phi, (n_lags, dim), and its `theta` is the direction of what phi adds
    up to. An arm has `n_features`; one more of the rows is that of the presample. `start`
    are profiles found before. With `baseline` all draws have one. `groups` are features that share
    a smooth profile.
    """
    scale = context_scale(rows)
    size = float(np.sqrt(rows.square / rows.n_rows))
    scaled = rows.divided(scale, size)
    rng = np.random.Generator(np.random.PCG64([*seed, 1 + list(SWEEPS).index(form)]))
    if start is not None:
        padded = np.zeros((rows.n_lags, rows.dim))
        padded[: len(start)] = start[: rows.n_lags] * scale / size
        start = padded
    chain = (
        SparseProfiles(scaled, CHAINS, rng, start)
        if form == "sparse"
        else SmoothProfiles(scaled, rng, start, groups)
    )
    if baseline:
        chain.covariates.have_baseline()
    first, later, kept = SWEEPS[form]
    for _ in range(first if start is None else later):
        chain.sweep()
    phis = []
    effects, included, noise2 = np.zeros(1), np.zeros(1), 0.0
    for _ in range(kept):
        chain.sweep()
        phis.append(chain.profiles.copy())
        effects = effects + chain.effects().mean(axis=0) / kept
        included = included + chain.covariates.included.mean(axis=0) / kept
        noise2 += float(chain.noise2.mean()) / kept
    posterior = _posterior(np.concatenate(phis), effects, included, noise2, scale, size, n_features)
    return replace(posterior, form=form)


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
        sign=abs(float(np.sign(of_arms @ value).mean())),
        effects=effects * size,
        included=included,
        noise=float(np.sqrt(noise2)) * size,
        draws=(totals, phis),
        n_features=n_features,
    )
