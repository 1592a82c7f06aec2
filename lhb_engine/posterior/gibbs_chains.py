"""A Gibbs sampler of the rank-one model: several chains, swept together (docs/model.md 7).

The model is y = b + sum_k w_k <xi_{t-k}, theta> + eps with the prior (7.2): spike and slab for each
lag weight (half-normal slab, w >= 0), normal theta, spike and wide normal slab for the baseline b.
The hyperparameters (density of active lags, slab variance, noise variance) are drawn as well, so
there is nothing to tune.

Given theta, column k of the design of w is the signal <xi_t, theta> shifted by k rounds. Columns
are views of that signal: no design matrix is stored for all lags.
"""

import math

import numpy as np
from scipy.linalg.lapack import dtrtri
from scipy.special import betaln, entr, expit, log_ndtr, ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.lag_shifts import ShiftedContexts
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.spike_and_slab import gain, gibbs_pass, score_for

# Noise prior of docs/model.md (7.2): a fifth of the rewards' variance, with the weight of 30 rows.
# With fewer rows than unknowns, only this prior keeps a fit from explaining every reward.
NOISE_ROWS, NOISE_SHARE = 30.0, 0.2
SLAB_SHARE = 0.1
_MARGIN = 1.5  # nats: an inactive lag further than this from becoming active is skipped
_AT_ONCE = 2**22  # floats: most columns held at a time by `evidence`
_BLOCK = 2**20  # floats: columns held at a time by `_draw_weights`, all chains
_FLOOR = 1e-10  # lower bound of variances, in units in which rewards have mean square 1
_STATE = ("theta", "w", "noise2", "slab2", "density", "baseline", "error", "level")


class Chains:
    """The state of all chains: w, theta, and the hyperparameters of docs/model.md (7.2).

    Parameters
    ----------
    rows : AlignedRounds
        Contexts and rewards scaled to a mean square of about 1.
    theta : (n_chains, dim) array
        Initial theta, of any length; it is normalised.
    rng : np.random.Generator
    signed : bool
        Lag weights may be negative.
    w : (n_chains, n_lags) array, optional
        Initial lag weights; theta and the hyperparameters are then drawn given them. 0 by default.

    Attributes
    ----------
    theta : (n_chains, dim) array
        Not normalised after the first draw.
    w : (n_chains, n_lags) array
        Lag weights.
    noise2 : (n_chains,) array
        Variance of eps.
    baseline : (n_chains,) array
        1 where the chain has a baseline, else 0.
    error : (n_chains, n_places) array
        y less the chain's prediction without its baseline.
    """

    def __init__(
        self,
        rows: AlignedRounds,
        theta: Floats,
        rng: np.random.Generator,
        signed: bool = False,
        w: Floats | None = None,
    ) -> None:
        self.rows, self.rng, self.signed = rows, rng, signed
        self.n_chains, self.dim = theta.shape
        self._sides = 0.0 if signed else float(np.log(2.0))
        self._n = len(rows.y)
        self._mask = (rows.intercept > 0).astype(np.float64)
        self._full = bool(self._mask.all())
        self._unit = float(rows.intercept @ rows.intercept)
        self._total = float(rows.y @ rows.intercept)
        self._lags = ShiftedContexts(rows.contexts, rows.n_lags)
        d, c = self.dim, self.n_chains
        self._along = self._lags.correlated(np.tile(rows.intercept, (d, 1)), np.eye(d))
        self._square = float(rows.y @ rows.y) / rows.n_rows
        # prior variance of the baseline b, per round
        self._wide = self._square / min(1.0, self._unit / rows.n_rows)
        variance = max(self._square - self._total**2 / self._unit / rows.n_rows, _FLOOR)
        spread = float(self._mask @ np.vecdot(rows.contexts, rows.contexts))
        spread /= rows.n_rows * self.dim
        self._slab = SLAB_SHARE * variance / max(spread, _FLOOR)
        self._noise_prior = NOISE_ROWS * NOISE_SHARE * variance
        self.theta = theta / np.linalg.norm(theta, axis=1, keepdims=True)
        self.w: Floats = np.zeros((c, rows.n_lags))
        padded = np.zeros((c, rows.n_lags - 1 + 2 * self._n))
        self._signal = padded[:, rows.n_lags - 1 : rows.n_lags - 1 + self._n]
        self.error = padded[:, -self._n :]
        self._windows = np.lib.stride_tricks.sliding_window_view(padded, self._n, axis=1)
        self.noise2 = np.full(c, variance)
        self.slab2 = np.full(c, 2.0 * self._slab)
        self.density = np.full(c, 0.2)
        self.baseline = np.zeros(c)
        self._predict(np.zeros((c, self._n)))
        if w is not None:
            self.w = w
            self._draw_density_and_slab()
            self._draw_theta_and_noise()

    def sweep(self) -> None:
        """Run one Gibbs sweep: baseline, lag weights, density and slab, theta and noise."""
        self._draw_baseline()
        self._draw_weights()
        self._draw_density_and_slab()
        self._draw_theta_and_noise()

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        for name in _STATE:
            value = getattr(self, name)
            value[:] = value[chosen]

    def _predict(self, predicted: Floats) -> None:
        np.subtract(self.rows.y, predicted, out=self.error)
        self.error *= self._mask
        self.level = self.error @ self.rows.intercept

    def _draw_baseline(self) -> None:
        """Draw whether each chain has a baseline, with b integrated out."""
        ratio = 1.0 + self._wide * self._unit / self.noise2
        added = 0.5 * self.level**2 / (self._unit * self.noise2) * (1.0 - 1.0 / ratio)
        chance = expit(added - 0.5 * np.log(ratio))
        self.baseline = (self.rng.random(self.n_chains) < chance).astype(np.float64)

    def _scores(self) -> tuple[Floats, ...]:
        """Return the full conditional of every lag weight given the present state.

        Returns
        -------
        score, odds, inverse, along : (n_chains, n_lags) arrays
            zeta_k of (7.3); the log odds (7.4) without its terms in zeta_k; v_k of (7.3); the inner
            product of the lag's column with the intercept column.
        """
        along = self.theta @ self._along
        signal = self._signal
        signal[:] = self.theta @ self.rows.contexts.T
        share = (self.baseline / self._unit)[:, None]
        if self._full:
            square = np.cumsum(signal**2, axis=1)[:, ::-1][:, : self.rows.n_lags]
        else:
            square = self._lags.squares(self._mask, signal)
        square = np.maximum(square - share * along**2, 0.0)
        ridge = (self.noise2 / self.slab2)[:, None]
        inverse = 1.0 / (square + ridge)
        odds = (np.log(self.density / (1.0 - self.density)) + self._sides)[:, None]
        odds = odds + 0.5 * np.log(ridge * inverse)
        now = self._lags.correlated(self.error, self.theta)
        now -= along * (self.level[:, None] * share)
        score = (now + square * self.w) * np.sqrt(inverse / self.noise2[:, None])
        return score, odds, inverse, along

    def _draw_weights(self) -> None:
        """Draw the lag weights one at a time, by (7.4) and (7.5).

        Each chain visits its own candidate lags in its own random order; step i of all chains is
        computed together. There are as many steps as a chain has candidates on average. A chain
        with more candidates leaves a random rest to the next sweep. Weights are in units in which
        the noise and a weight's conditional variance are 1.
        """
        c, m, n = self.n_chains, self.rows.n_lags, self._n
        score, odds, inverse, along = self._scores()
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
        bar = score_for(needed[chain, order], self.signed)
        bar[np.arange(order.shape[1]) >= count[:, None]] = np.inf
        at = ndtri(v[chain, order]) if self.signed else v[chain, order] + 2.0**-54
        along = along[chain, order]
        share = (self.baseline / self._unit)[:, None] * along
        sloping = bool(share.any())
        places = m - 1 - order
        error_too = np.full((c, 1), self._windows.shape[1] - 1)
        noise_too = -1.0 / np.sqrt(self.noise2)[:, None]
        after = np.empty_like(before)
        size = max(4, math.isqrt(_BLOCK // (c * n)))
        for start in range(0, order.shape[1], size):
            part = np.s_[:, start : start + size]
            columns = self._windows[chain, np.concatenate([error_too, places[part]], axis=1)]
            if not self._full:
                columns *= self._mask
            products = columns[:, 1:] @ columns.transpose(0, 2, 1)
            if sloping:
                levels = np.concatenate([self.level[:, None], along[part]], axis=1)
                products -= share[part][:, :, None] * levels[:, None, :]
            units = np.concatenate([noise_too, root[part]], axis=1)
            products *= units[:, 1:, None] * -units[:, None, :]
            after[part] = gibbs_pass(products, before[part], bar[part], at[part], self.signed)
            change = (after[part] - before[part]) * unit[part]
            self.error -= (change[:, None, :] @ columns[:, 1:])[:, 0]
            self.level -= np.vecdot(change, along[part])
        if not self.signed:
            np.maximum(after, 0.0, out=after)  # rounding can leave a weight just below 0
        self.level = self.error @ self.rows.intercept
        self.w[chain, order] = after * unit

    def _draw_density_and_slab(self) -> None:
        """Draw pi and tau^2, by (7.7)."""
        rng, active = self.rng, (self.w != 0).sum(axis=1)
        on = rng.standard_gamma(1.0 + active)
        off = rng.standard_gamma(1.0 + self.rows.n_lags - active)
        self.density = np.clip(on / (on + off), 1e-3, 0.999)
        self.slab2 = self._slab + 0.5 * np.vecdot(self.w, self.w)
        self.slab2 /= rng.standard_gamma(1.0 + 0.5 * active)

    def _draw_theta_and_noise(self) -> None:
        """Draw theta by (7.6), then the noise variance by (7.7).

        Theta is drawn by perturbation: it is the posterior mean for rewards and a prior mean that
        have fresh noise added.
        """
        rows, rng, c = self.rows, self.rng, self.n_chains
        filtered = self._lags.filtered(self.w)
        if not self._full:
            filtered *= self._mask
        noise = np.sqrt(self.noise2)[:, None]
        y = rows.y + noise * rng.standard_normal((c, self._n))
        gram = filtered @ filtered.transpose(0, 2, 1)
        right = (filtered @ y[:, :, None])[:, :, 0]
        share = self.baseline / self._unit
        if share.any():
            along = filtered @ rows.intercept
            gram -= (share[:, None] * along)[:, :, None] * along[:, None, :]
            right -= along * (share * (y @ rows.intercept))[:, None]
        precision = gram / self.noise2[:, None, None] + self.dim * np.eye(self.dim)
        right /= self.noise2[:, None]
        right += math.sqrt(self.dim) * rng.standard_normal((c, self.dim))
        theta = np.linalg.solve(precision, right[:, :, None])[:, :, 0]
        self._predict((theta[:, None, :] @ filtered)[:, 0, :])
        left = np.vecdot(self.error, self.error) - share * self.level**2
        gamma = rng.standard_gamma(0.5 * (rows.n_rows + NOISE_ROWS), c)
        self.noise2 = 0.5 * (np.maximum(left, 0.0) + self._noise_prior) / gamma
        self.theta = theta

    def intercepts(self) -> Floats:
        """Return each chain's baseline per round, (n_chains,); 0 in a chain without one."""
        return self.baseline * self.level / self._unit

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
        n_parts = math.ceil(self.n_chains * most * self._n / _AT_ONCE)
        parts = np.array_split(np.arange(self.n_chains), min(n_parts, self.n_chains))
        return np.asarray(entropy + np.concatenate([self._mass(part) for part in parts]))

    def _mass(self, of: Ints) -> Floats:
        """Return the log evidence of some chains, given by index.

        A chain with fewer active lags than the most is padded with zero columns.
        """
        rows, m = self.rows, self.rows.n_lags
        on = self.w[of] != 0
        active = on.sum(axis=1)
        most = max(1, int(active.max()))
        order = np.argsort(~on, axis=1, kind="stable")[:, :most]
        used = np.arange(most) < active[:, None]
        columns = self._windows[of[:, None], m - 1 - order]
        kept = columns * (used[:, :, None] * self._mask)
        share = (self.baseline[of] / self._unit)[:, None]
        along = kept @ rows.intercept
        ridge = self.noise2[of] / self.slab2[of]
        gram = (kept @ columns.transpose(0, 2, 1)) * used[:, None, :]
        gram -= (share * along)[:, :, None] * along[:, None]
        gram += ridge[:, None, None] * np.eye(most)
        right = kept @ rows.y - share * self._total * along
        lower = np.linalg.cholesky(gram)
        inverse = np.stack([dtrtri(one, lower=1)[0] for one in lower])
        half = (inverse @ right[:, :, None])[:, :, 0]
        y2 = float(rows.y @ rows.y) - share[:, 0] * self._total**2
        left = np.maximum(y2 - np.vecdot(half, half), 0.0) + self._noise_prior
        mass = betaln(1 + active, 1 + m - active) + active * self._sides
        mass -= 0.5 * (rows.n_rows + NOISE_ROWS) * np.log(left)
        mass += 0.5 * most * np.log(ridge)
        mass -= np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
        if not self.signed:
            sd = np.sqrt(self.noise2[of][:, None] * (inverse**2).sum(axis=1))
            above = log_ndtr((half[:, None, :] @ inverse)[:, 0] / sd)
            mass += (above * used).sum(axis=1)
        wide = np.log(1.0 + self._wide * self._unit / self.noise2[of])
        return np.asarray(mass - 0.5 * self.baseline[of] * wide)
