"""A Gibbs sampler of the rank-one model: several chains, swept together (docs/model.md 7).

What a sweep needs of the data are products of columns, from rows or from moments
(`sweep_products`); the chains draw the same numbers either way.
"""

import math

import numpy as np
from scipy.linalg.lapack import dtrtri
from scipy.special import betaln, entr, expit, log_ndtr, ndtr, ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.covariate_effects import CovariateEffects
from lhb_engine.posterior.sweep_products import MomentProducts, RowProducts

# Table of the inverse of `gain` on an even grid; linear interpolation has relative error 1e-3.
_LEAST, _SPACING = -4.5, 0.02
_Z = np.concatenate([-np.geomspace(37.0, 8.0, 400), np.linspace(-7.9, 12.0, 4000)])
_SCORES = np.interp(np.arange(_LEAST, 60.0, _SPACING), 0.5 * _Z**2 + log_ndtr(_Z), _Z)


def gain(score: Floats, signed: bool) -> Floats:
    """Return the terms of docs/model.md (7.4) that depend on the z-score zeta of (7.3), in nats.

    These are zeta^2 / 2 + log Phi(zeta); or, where the slab is a whole normal (`signed`), zeta^2 /
    2.
    """
    half = 0.5 * score * score
    return half if signed else np.asarray(half + log_ndtr(score))


def score_for(needed: Floats, signed: bool) -> Floats:
    """Invert `gain`: return the z-score (if `signed`, its absolute value) with gain `needed`."""
    if signed:
        return np.sqrt(np.maximum(2.0 * needed, 0.0))
    place = np.clip((needed - _LEAST) / _SPACING, 0.0, len(_SCORES) - 2.0)
    index = place.astype(np.intp)
    below = _SCORES[index]
    return np.asarray(below + (place - index) * (_SCORES[index + 1] - below))


def gibbs_pass(products: Floats, before: Floats, bar: Floats, at: Floats, signed: bool) -> Floats:
    """Draw some weights of each chain one after the other, each by docs/model.md (7.5).

    Everything is in units in which the noise and a weight's conditional variance are 1. `products`
    (n_chains, n_steps, 1 + n_steps) are inner products of each weight's column: with the present
    error, and with minus each column; they are overwritten. The other arrays are (n_chains,
    n_steps): the present weights; `bar`, the z-score above which a weight is active, its random
    draw already made; `at`, the draw of an active weight, made beforehand: a uniform number on (0,
    1) that is mapped to the truncated normal, or, if `signed`, a standard normal number.
    """
    c, n_steps = before.shape
    products[:, :, 0] -= (products[:, :, 1:] @ before[:, :, None])[:, :, 0]
    products.reshape(c, -1)[:, 1 :: n_steps + 2] = 0.0  # a column with itself
    drawn = np.empty((c, 1 + n_steps))
    drawn[:, 0], drawn[:, 1:] = 1.0, before
    steps = zip(products.transpose(1, 0, 2), drawn.T[1:], bar.T, at.T, strict=True)
    for others, new, least, place in steps:
        score = np.vecdot(others, drawn)
        new.fill(0.0)
        if signed:
            np.add(score, place, out=new, where=np.abs(score) > least)
        else:
            tail = ndtr(score)
            tail *= place
            np.subtract(score, ndtri(tail), out=new, where=score > least)
    return drawn[:, 1:]


# Noise prior of docs/model.md (7.2): a fifth of the rewards' variance, with the weight of 30 rows.
# With fewer rows than unknowns, only this prior keeps a fit from explaining every reward.
NOISE_ROWS, NOISE_SHARE = 30.0, 0.2
SLAB_SHARE = 0.1
_MARGIN = 1.5  # nats: an inactive lag further than this from becoming active is skipped
_FLOOR = 1e-10  # lower bound of variances, in units in which rewards have mean square 1
_ROUNDING = 1e-11  # of products of columns: what is left of them beside the covariates may be less
_STATE = ("theta", "outside", "w", "noise2", "slab2", "density", "rest")


class Chains:
    """The state of all chains: w, theta, and the hyperparameters of docs/model.md (7.2).

    Contexts and rewards of `data` are scaled to a mean square of about 1. The chains start at theta
    (n_chains, dim), of any length, and lag weights w, by default 0; else theta and the
    hyperparameters are drawn given them.

    `theta` (n_chains, rank) are coordinates in the span of the contexts, not normalised after the
    first draw; `outside` (n_chains, dim) vectors whose parts outside the span are those of theta.
    `rest` (n_chains, q) are products of the error, without any effect of covariates, and their
    columns, of which the first is the baseline's.
    """

    smooth = 0.0  # share of their lag weights that are smooth

    def __init__(
        self,
        data: AlignedRounds | RowMoments,
        theta: Floats,
        rng: np.random.Generator,
        signed: bool = False,
        w: Floats | None = None,
    ) -> None:
        self.n_chains, self.dim = theta.shape
        self.data: RowProducts | MomentProducts = (
            RowProducts(data, len(theta))
            if isinstance(data, AlignedRounds)
            else MomentProducts(data)
        )
        self.rng, self.signed, self.n_lags = rng, signed, data.n_lags
        # a half-normal slab has twice the density of a normal one
        self._log_sides = 0.0 if signed else float(np.log(2.0))
        c, n, unit = self.n_chains, self.data.n_rows, self.data.unit
        self._square = self.data.square / n
        self.covariates = CovariateEffects(unit, self._square, n, self.data.groups, c)
        variance = self.covariates.variance(self.data.total)
        self._slab = SLAB_SHARE * variance / max(self.data.spread / (n * self.dim), _FLOOR)
        self._noise_prior = NOISE_ROWS * NOISE_SHARE * variance
        self.outside = theta / np.linalg.norm(theta, axis=1, keepdims=True)
        self.theta = self.data.span.inside(self.outside)
        self.w: Floats = np.zeros((c, data.n_lags))
        self.noise2 = np.full(c, variance)
        self.slab2 = np.full(c, 2.0 * self._slab)
        self.density = np.full(c, 0.2)
        self.rest = np.tile(self.data.total, (c, 1))
        if w is not None:
            self.w = w
            self._draw_density_and_slab()
            self._draw_theta_and_noise()

    def sweep(self) -> None:
        """Run one Gibbs sweep: covariates, lag weights, density and slab, theta and noise."""
        self.covariates.draw(self.rest, self.noise2, self.rng)
        self._draw_weights()
        self._draw_density_and_slab()
        self._draw_theta_and_noise()

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        for name in _STATE:
            value = getattr(self, name)
            value[:] = value[chosen]
        self.covariates.keep(chosen)
        self.data.keep(chosen)

    def _scores(self) -> tuple[Floats, ...]:
        """Return the full conditional of every lag weight given the present state.

        These are zeta_k of (7.3), the log odds (7.4) without their terms in zeta_k, and v_k of
        (7.3), each (n_chains, n_lags); the products of the lags' columns and the covariates,
        reduced by L of (7.23), (n_chains, n_lags, q); and those of the error.
        """
        along, square, now = self.data.columns(self.theta, self.w)
        root = self.covariates.root(self.noise2)
        along, rest = along @ root, (self.rest[:, None, :] @ root)[:, 0]
        square = np.maximum(square - np.vecdot(along, along), 0.0)
        ridge = self.noise2[:, None] / self._each(self.slab2)
        inverse = 1.0 / (square + ridge)
        odds = self._each(np.log(self.density / (1.0 - self.density)) + self._log_sides)
        odds = odds + 0.5 * np.log(ridge * inverse)
        now -= (along @ rest[:, :, None])[:, :, 0]
        score = (now + square * self.w) * np.sqrt(inverse / self.noise2[:, None])
        return score, odds, inverse, along, rest

    def _each(self, values: Floats) -> Floats:
        """Return what holds for each lag, (n_chains, 1 or n_lags), from numbers of the chains."""
        return values[:, None]

    def _draw_weights(self) -> None:
        """Draw the lag weights one at a time, by (7.4) and (7.5).

        Each chain visits its own candidate lags in its own random order, as many as a chain has on
        average; the rest is left to the next sweep. Step i of all chains is computed together.
        Weights are in units in which the noise and a weight's conditional variance are 1.
        """
        c, m = self.n_chains, self.n_lags
        score, odds, inverse, along, rest = self._scores()
        u, v, turn = self.rng.random((3, c, m))
        needed = np.log(u / (1.0 - u)) - odds
        reach = np.abs(score) if self.signed else np.maximum(score, 0.0)
        candidate = (self.w != 0) | (0.5 * reach * reach > needed - _MARGIN)
        count = candidate.sum(axis=1)
        order = np.where(candidate, turn, 2.0).argsort(axis=1)[:, : math.ceil(count.mean())]
        chain = np.arange(c)[:, None]
        root = np.sqrt(inverse[chain, order])
        unit = root * np.sqrt(self.noise2)[:, None]
        before = self.w[chain, order] / unit
        threshold = score_for(needed[chain, order], self.signed)
        threshold[np.arange(order.shape[1]) >= count[:, None]] = np.inf
        quantile = ndtri(v[chain, order]) if self.signed else v[chain, order] + 2.0**-54
        along = along[chain, order]
        # column 0 of `products` is the error's, the others are the columns'; `gibbs_pass` wants the
        # error as it is and the columns with a minus, all in units of the noise
        of_error = -1.0 / np.sqrt(self.noise2)[:, None]
        after = np.empty_like(before)
        for steps, products in self.data.parts(order):
            part = np.s_[:, steps]
            beside = along[:, steps]
            products -= beside @ np.concatenate([rest[:, None], beside], axis=1).transpose(0, 2, 1)
            units = np.concatenate([of_error, root[part]], axis=1)
            products *= units[:, 1:, None] * -units[:, None, :]
            after[part] = gibbs_pass(
                products, before[part], threshold[part], quantile[part], self.signed
            )
            change = (after[part] - before[part]) * unit[part]
            self.data.move(change)
            rest = rest - (change[:, None, :] @ beside)[:, 0]
        if not self.signed:
            np.maximum(after, 0.0, out=after)  # rounding can leave a weight just below 0
        self.w[chain, order] = after * unit
        self.rest = self.data.rest(self.w)

    def _draw_density_and_slab(self) -> None:
        """Draw pi and tau^2, or those of each feature, by (7.7)."""
        w = self.w.reshape(self.n_chains, -1, *self.density.shape[1:])
        rng, active = self.rng, (w != 0).sum(axis=1)
        on = rng.standard_gamma(1.0 + active)
        off = rng.standard_gamma(1.0 + w.shape[1] - active)
        self.density = np.minimum(np.maximum(on / (on + off), 1e-3), 0.999)
        self.slab2 = self._slab + 0.5 * (w**2).sum(axis=1)
        self.slab2 /= rng.standard_gamma(1.0 + 0.5 * active)

    def _draw_theta_and_noise(self) -> None:
        """Draw theta by (7.6), then the noise variance by (7.7).

        With fewer rows than features theta is the posterior mean for rewards and a prior mean that
        have fresh noise added; else the mean plus noise of the posterior's covariance.
        """
        data, rng, c = self.data, self.rng, self.n_chains
        root = self.covariates.root(self.noise2)
        noise = data.fresh_noise(self.noise2, rng)
        fresh = rng.standard_normal((c, self.dim))
        self.outside = fresh / math.sqrt(self.dim)
        inside = data.span.inside(fresh)

        def solve(part: slice, gram: Floats, right: Floats, along: Floats, total: Floats) -> Floats:
            beside, rest = along @ root[part], total[:, None, :] @ root[part]
            least = _ROUNDING * np.einsum("nii->n", gram) / self.noise2[part]
            gram -= beside @ beside.transpose(0, 2, 1)
            right -= (beside @ rest.transpose(0, 2, 1))[:, :, 0]
            gram /= self.noise2[part, None, None]
            gram += np.maximum(self.dim, least)[:, None, None] * np.eye(gram.shape[1])
            right /= self.noise2[part, None]
            if noise is not None:
                right += math.sqrt(self.dim) * inside[part]
                return np.asarray(np.linalg.solve(gram, right[:, :, None])[:, :, 0])
            lower = np.linalg.cholesky(gram)
            half = np.linalg.solve(lower, right[:, :, None])[:, :, 0] + inside[part]
            upper = lower.transpose(0, 2, 1)
            return np.asarray(np.linalg.solve(upper, half[:, :, None])[:, :, 0])

        self.theta, left = data.theta_drawn(self.w, noise, solve)
        self.rest = data.rest(self.w)
        self._draw_noise(left, root)

    def _draw_noise(self, left: Floats, root: Floats) -> None:
        """Draw the noise variance from e'e without any effect of covariates, (n_chains,)."""
        left = left - ((self.rest[:, None, :] @ root)[:, 0] ** 2).sum(axis=1)
        gamma = self.rng.standard_gamma(0.5 * (self.data.n_rows + NOISE_ROWS), self.n_chains)
        self.noise2 = 0.5 * (np.maximum(left, 0.0) + self._noise_prior) / gamma

    @staticmethod
    def active_lags(thetas: Floats, w: Floats) -> Floats:
        """Return how surely each lag pays by draws (n_draws, dim) and (n_draws, n_lags)."""
        return np.asarray((w != 0).mean(axis=0))

    def effects(self) -> Floats:
        """Return each chain's effects b, (n_chains, q), that of the baseline first."""
        return self.covariates.effects(self.rest, self.noise2)

    def evidence(self) -> Floats:
        """Return E_c of docs/model.md (7.8) for each chain, (n_chains,), up to a common constant.

        E_c is the log evidence of the chain's active lags at its theta, with w and the noise
        integrated out, plus the entropy of the lags' activity. The entropy counts other sets of
        lags that explain the rewards equally well.
        """
        score, odds = self._scores()[:2]
        chance = expit(gain(score, self.signed) + odds)
        entropy = (entr(chance) + entr(1.0 - chance)).sum(axis=1)
        most = max(1, int((self.w != 0).sum(axis=1).max()))
        n_parts = min(self.data.n_parts(self.n_chains, most), self.n_chains)
        parts = np.array_split(np.arange(self.n_chains), n_parts)
        return np.asarray(entropy + np.concatenate([self._mass(part) for part in parts]))

    def _mass(self, of: Ints) -> Floats:
        """Return the log evidence of some chains, given by index.

        A chain with fewer active lags than the most is padded with zero columns.
        """
        data, m = self.data, self.n_lags
        on = self.w[of] != 0
        active = on.sum(axis=1)
        most = max(1, int(active.max()))
        order = np.argsort(~on, axis=1, kind="stable")[:, :most]
        used = np.arange(most) < active[:, None]
        gram, right, along = data.active(of, order)
        root = self.covariates.root(self.noise2, of)
        gram *= used[:, :, None] * used[:, None, :]
        right, beside = right * used, (along * used[:, :, None]) @ root
        rest = data.total @ root
        ridge = self.noise2[of] / self.slab2[of]
        gram -= beside @ beside.transpose(0, 2, 1)
        gram += ridge[:, None, None] * np.eye(most)
        right = right - (beside @ rest[:, :, None])[:, :, 0]
        lower = np.linalg.cholesky(gram)
        inverse = np.stack([dtrtri(one, lower=1)[0] for one in lower])
        half = (inverse @ right[:, :, None])[:, :, 0]
        y2 = data.square - np.vecdot(rest, rest)
        left = np.maximum(y2 - np.vecdot(half, half), 0.0) + self._noise_prior
        mass = betaln(1 + active, 1 + m - active) + active * self._log_sides
        mass -= 0.5 * (data.n_rows + NOISE_ROWS) * np.log(left)
        mass += 0.5 * most * np.log(ridge)
        mass -= np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        if not self.signed:
            sd = np.sqrt(self.noise2[of][:, None] * (inverse**2).sum(axis=1))
            above = log_ndtr((half[:, None, :] @ inverse)[:, 0] / sd)
            mass += (above * used).sum(axis=1)
        return np.asarray(mass - self.covariates.log_prior_cost(self.noise2, of))
