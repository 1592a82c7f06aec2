"""A Gibbs sampler where features, or groups of them, have smooth lag profiles (docs/model.md 14).

A profile fades over L lags and bends over l of them: it is a draw of a normal distribution with the
covariance (14.2), whose size and shape are drawn for each. Features of a group share one, each
times a number of its own.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs
from scipy.special import logsumexp, ndtr

from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.covariate_effects import CovariateEffects
from lhb_engine.posterior.gibbs_sampler import NOISE_ROWS, NOISE_SHARE, Chains
from lhb_engine.posterior.sweep_products import MomentProducts

FADES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # lags
BENDS = (0.5, 1.0, 2.0, 4.0, 8.0)  # lags
STEP = 0.7  # standard deviation of a proposed change of log tau
WIDTH = 1.5  # prior standard deviation of log tau
SHARE = 0.1  # of the rewards' variance over the contexts', prior median of tau^2 times dim
KEPT = 1e-5  # eigenvalues over the largest: smaller ones are left out
_FLOOR = 1e-10


@lru_cache(maxsize=256)
def kernel_root(n_lags: int, fade: float, bend: float) -> Floats:
    """Return R with R R' = C of (14.2) but for small eigenvalues, (n_lags, rank)."""
    lags = np.arange(n_lags)
    kernel = np.exp(-0.5 * ((lags[:, None] - lags) / bend) ** 2 - (lags[:, None] + lags) / fade)
    values, axes = np.linalg.eigh(kernel)
    large = values > KEPT * values[-1]
    root = axes[:, large] * np.sqrt(values[large])
    root.setflags(write=False)
    return np.asarray(root)


Shape = tuple[float, int, int]  # log tau, and the places of L and l
Solved = tuple[float, Floats, Floats, Floats]  # a shape's log evidence, and what a draw needs


def solved(shape: Shape, middle: float, a: Floats, v: Floats) -> Solved:
    """Return the log evidence (14.3) of a shape with its prior, whose median of log tau is given.

    After it come the Cholesky factor of B, its inverse times R'v, and R.
    """
    size, fade, bend = shape
    spread = np.exp(size) * kernel_root(len(v), FADES[fade], BENDS[bend])
    across = spread.T
    precision = across @ a @ spread
    precision.ravel()[:: len(precision) + 1] += 1.0
    lower = dpotrf(precision, lower=1, overwrite_a=1)[0]
    half = dtrtrs(lower, across @ v, lower=1)[0]
    mass = 0.5 * float(half.dot(half)) - float(np.log(lower.diagonal()).sum())
    return mass - 0.5 * ((size - middle) / WIDTH) ** 2, lower, half, spread


def drawn(
    shape: Shape, moves: int, middle: float, a: Floats, v: Floats, rng: np.random.Generator
) -> tuple[Shape, Floats]:
    """Move a shape by its evidence, some times, and draw the profile; see `solved`."""
    now = solved(shape, middle, a, v)
    for _ in range(moves):
        size, fade, bend = shape
        fade = min(max(fade + int(rng.integers(-1, 2)), 0), len(FADES) - 1)
        bend = min(max(bend + int(rng.integers(-1, 2)), 0), len(BENDS) - 1)
        tried = (size + STEP * rng.standard_normal(), fade, bend)
        new = solved(tried, middle, a, v)
        if np.log(rng.random()) < new[0] - now[0]:
            shape, now = tried, new
    _, lower, half, spread = now
    z = half + rng.standard_normal(len(half))
    return shape, spread @ dtrtrs(lower, z, lower=1, trans=1)[0]


class SmoothProfiles:
    """One chain over phi, (n_lags, dim); see `SparseProfiles` for the arguments.

    `groups` are features that share a profile; the others have their own. `rest` (1, q) is Z'e of
    the error without any effect of covariates.
    """

    def __init__(
        self,
        moments: RowMoments,
        rng: np.random.Generator,
        start: Floats | None = None,
        groups: Sequence[Sequence[int]] = (),
    ) -> None:
        h, d, n = moments.n_lags, moments.dim, moments.n_rows
        self._moments, self._rng, self.n_rows = moments, rng, n
        self.moves = 1  # of a profile's shape, a sweep
        gram = moments.gram.reshape(h, d, h, d).transpose(1, 0, 3, 2)
        self._gram = np.ascontiguousarray(gram.reshape(d, h, d * h))
        self._target = moments.target.T.copy()
        square = moments.square / n
        self.covariates = CovariateEffects(moments.covariates, square, n, moments.groups, 1)
        total = moments.covariate_target
        variance = self.covariates.variance(total)
        self._noise_prior = NOISE_ROWS * NOISE_SHARE * variance
        self.noise2 = np.array([variance])
        size = max(float(np.trace(moments.gram[:d, :d])) / (n * d), _FLOOR)
        self._middle = 0.5 * np.log(SHARE * variance / size / d)
        self.phi = np.zeros((d, h)) if start is None else start.T.copy()
        alone = set(range(d)).difference(*groups)
        self._groups = sorted([*map(list, groups), *([j] for j in alone)])
        self._flat = moments.cross.transpose(1, 0, 2).reshape(d * h, -1)
        self._own = {group[0]: self._terms(group) for group in self._groups}
        self._shape = [(self._middle, 3, 2)] * d  # log tau, and places of L and l
        self._shares = np.ones(d)  # what each feature has of its profile: alone 1
        for group in (one for one in self._groups if len(one) > 1):
            left, sizes, _ = np.linalg.svd(self.phi[group], full_matrices=False)
            drawn = rng.standard_normal(len(group))
            self._shares[group] = left[:, 0] * np.sqrt(len(group)) if sizes[0] > 0.0 else drawn
        self.rest: Floats = np.zeros(0)
        self._look()

    @property
    def profiles(self) -> Floats:
        """The present phi, (1, n_lags, dim)."""
        return self.phi.T[None]

    def sweep(self) -> None:
        """Run one Gibbs sweep: covariates, each feature's shape and profile, and the noise."""
        self.covariates.draw(self.rest, self.noise2, self._rng)
        root = self.covariates.root(self.noise2)[0]
        for group in self._groups:
            self._draw_profile(group, root)
        self._look()
        left = self._moments.square - 2.0 * float(np.sum(self.phi * self._target))
        left += float(np.sum((self._gram @ self.phi.ravel()) * self.phi))
        left -= float(np.sum((self.rest[0] @ root) ** 2))
        gamma = self._rng.standard_gamma(0.5 * (self.n_rows + NOISE_ROWS))
        self.noise2 = np.array([0.5 * (max(left, 0.0) + self._noise_prior) / gamma])

    def effects(self) -> Floats:
        """Return the effects b, (1, q), that of the baseline first."""
        return self.covariates.effects(self.rest, self.noise2)

    def _look(self) -> None:
        self.rest = (self._moments.covariate_target - self.phi.ravel() @ self._flat)[None]

    def _terms(self, group: list[int]) -> tuple[slice | list[int], Floats, Floats, Floats, Floats]:
        """Return a group's places, and products of its columns: with all, its own, with Z and y."""
        n, (d, h) = len(group), self.phi.shape
        at = slice(group[0], group[0] + 1) if n == 1 else group  # a slice is no copy
        rows = self._gram[at]
        own = rows.reshape(n, h, d, h)[:, :, group].reshape(n * h, n * h)
        return at, rows, own, self._flat.reshape(d, h, -1)[at], self._target[at]

    def _draw_profile(self, group: list[int], root: Floats) -> None:
        """Draw the shape of a group's profile by its evidence, and the profile, by (14.3).

        Then what each feature has of the profile is drawn, by (14.7).
        """
        n, s2, rng, first = len(group), float(self.noise2[0]), self._rng, group[0]
        at, rows, own, cross, target = self._own[first]
        phi, beside, share = self.phi[at].reshape(-1), cross.reshape(len(own), -1), self._shares[at]
        rest = self.rest[0] + phi @ beside
        target = target - rows @ self.phi.ravel() + (own @ phi).reshape(n, -1)

        def products(by: Floats, axis: int) -> tuple[Floats, Floats]:
            """Return A and v of columns that are sums over an axis, features or lags, by these."""
            if n == 1:  # of its profile a feature alone has 1
                along, a, v = beside @ root, own, target[0]
            else:
                along, v = (np.tensordot(by, of, (0, axis)) for of in (cross, target))
                along = along @ root
                a = np.tensordot(by, own.reshape(2 * (n, len(own) // n)), (0, axis))
                a = np.tensordot(a, by, (1 + axis, 0))
            return (a - along @ along.T) / s2, (v - along @ (rest @ root)) / s2

        arguments = self.moves, self._middle, *products(share, 0), rng
        self._shape[first], profile = drawn(self._shape[first], *arguments)
        if n > 1:
            a, v = products(profile, 1)
            lower = dpotrf(a + np.eye(n), lower=1)[0]
            z = dtrtrs(lower, v, lower=1)[0] + rng.standard_normal(n)
            share = self._shares[at] = dtrtrs(lower, z, lower=1, trans=1)[0]
        self.phi[at] = share[:, None] * profile
        self.rest = rest[None] - self.phi[at].reshape(-1) @ beside


class SmoothChains(Chains):
    """Chains of the rank-one model whose lag weights are smooth, of either sign; see `Chains`.

    Lag weights are a draw of a normal distribution with the covariance (14.2). The other draws are
    those of the chains with spikes and slabs.
    """

    smooth = 1.0
    moves = 3  # of a chain's shape, a sweep

    def __init__(self, moments: RowMoments, theta: Floats, rng: np.random.Generator) -> None:
        super().__init__(moments, theta, rng, signed=True)
        self._middle = 0.5 * float(np.log(self._slab))
        n, m = len(FADES), len(BENDS)
        drawn = ((rng.standard_normal(), rng.integers(n), rng.integers(m)) for _ in theta)
        self._shapes = [(self._middle + WIDTH * z, int(i), int(j)) for z, i, j in drawn]

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        super().keep(chosen)
        self._shapes = [self._shapes[i] for i in chosen]

    def _draw_density_and_slab(self) -> None:
        """Nothing: smooth lag weights have neither."""

    def _products(self) -> tuple[Floats, Floats, Floats]:
        """Return A and v of (14.3) of each chain's lags, and y'y.

        Covariates are taken out of all of them, by (7.23).
        """
        data = self.data
        assert isinstance(data, MomentProducts)
        data.columns(self.theta, self.w)
        root = self.covariates.root(self.noise2)
        beside, rest = data.along @ root, data.total @ root
        gram = data.gram - beside @ beside.transpose(0, 2, 1)
        right = data.right - (beside @ rest[:, :, None])[:, :, 0]
        gram /= self.noise2[:, None, None]
        right /= self.noise2[:, None]
        return gram, right, data.square - np.vecdot(rest, rest)

    def _draw_weights(self) -> None:
        """Draw each chain's shape by its evidence, and the lag weights, by (14.3)."""
        shapes, middle, (a, v, _) = self._shapes, self._middle, self._products()
        for c in range(self.n_chains):
            arguments = self.moves, middle, a[c], v[c], self.rng
            shapes[c], self.w[c] = drawn(shapes[c], *arguments)

    def evidence(self) -> Floats:
        """Return E_c of docs/model.md (7.8) of each chain's shape and of those around it.

        As in that of spikes and slabs, the lag weights and the noise are integrated out.
        """
        a, v, square = self._products()
        log_masses, rows = [], self.data.n_rows + NOISE_ROWS
        for c, (size, fade, bend) in enumerate(self._shapes):
            around = [
                solved((size, at, by), self._middle, a[c], v[c])
                for at in range(max(0, fade - 1), min(len(FADES), fade + 2))
                for by in range(max(0, bend - 1), min(len(BENDS), bend + 2))
            ]
            explained = np.array([half @ half for _, _, half, _ in around])
            left = np.maximum(square[c] - self.noise2[c] * explained, 0.0) + self._noise_prior
            mass = np.array([one[0] for one in around]) - 0.5 * explained
            log_masses.append(logsumexp(mass - 0.5 * rows * np.log(left)))
        shapes = np.log(len(FADES) * len(BENDS))
        return np.asarray(log_masses - shapes - self.covariates.log_prior_cost(self.noise2))

    @staticmethod
    def active_lags(thetas: Floats, w: Floats) -> Floats:
        """Return how surely each lag pays by draws without zeros.

        The answer is 1 less the probability that any lag is so far from 0 by chance. What a lag
        pays is taken along the mean effect: a draw's theta and lag weights are known up to a common
        factor and sign.
        """
        pays = w * (thetas @ (w.sum(axis=1) @ thetas))[:, None]
        size, error = np.abs(pays.mean(axis=0)), np.maximum(pays.std(axis=0), 1e-300)
        return np.asarray(np.maximum(1.0 - 2.0 * w.shape[1] * ndtr(-size / error), 0.0))
