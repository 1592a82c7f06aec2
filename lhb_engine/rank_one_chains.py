"""Gibbs chains on the rank-one model, several side by side.

y = b + sum_k w_k <xi_{-k}, theta> + eps: a spike at zero and a half-normal slab for every lag
weight (w >= 0), a normal theta, a spike and a wide normal for the baseline b. How many lags are
active, the slab's width, the noise and whether there is a baseline are drawn along with w and
theta, so nothing is left to tune: averages over the draws shrink where data are few and only there.

Given theta the design of w is one signal, shifted; nothing larger than a few sequences is held.
"""

import math

import numpy as np
from scipy import fft
from scipy.special import betaln, entr, expit, log_ndtr, ndtr, ndtri

from lhb_engine.aligned_rounds import AlignedRounds
from lhb_engine.history import Floats, Ints
from lhb_engine.spike_and_slab import gain, score_for

# Before any data a fifth of the rewards' variance is noise, believed as firmly as 30 rows: with
# fewer rows than unknowns every reward can be explained, and nothing else says that none should be.
NOISE_ROWS, NOISE_SHARE = 30.0, 0.2
SLAB_SHARE = 0.1
_MARGIN = 2.0  # nats; a lag that is off and further than this from coming on is passed over
_AT_ONCE = 2**22  # numbers of shifted signals behind an evidence
_BLOCK = 2**15  # ... and behind some steps of a sweep, where they should stay in cache
_FLOOR = 1e-10  # of the rewards' variance: what noise may fall to
_STATE = ("theta", "w", "noise2", "slab2", "density", "baseline", "error", "level")


class Chains:
    """Draws of (w, theta, noise, slab, density of active lags, baseline or none).

    Parameters
    ----------
    rows : AlignedRounds
        Contexts and rewards of order 1.
    theta : (n_chains, dim) array
        Where the chains start.
    rng : np.random.Generator
    signed : bool
        Lag weights may be negative too.
    w : (n_lags, n_chains) array, optional
        Lag weights to start from, at once with theta, noise and slab that suit them; by default 0.

    Attributes
    ----------
    theta : (n_chains, dim) arm parameters, of any length
    w : (n_lags, n_chains) lag weights
    noise2 : (n_chains,) variance of eps
    baseline : (n_chains,) 1 where the chain has a baseline
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
        self._n_fft = int(fft.next_fast_len(self._n + rows.n_lags, real=True))
        self._contexts = self._transform(rows.contexts.T)
        self._measured = self._transform(self._mask)
        self._along = self._correlate(self._transform(rows.intercept), self._contexts).T
        self._square = float(rows.y @ rows.y) / rows.n_rows
        variance = max(self._square - self._total**2 / self._unit / rows.n_rows, _FLOOR)
        spread = float(self._mask @ (rows.contexts**2).mean(axis=1)) / rows.n_rows
        self._slab = SLAB_SHARE * variance / max(spread, _FLOOR)
        self._noise_prior = NOISE_ROWS * NOISE_SHARE * variance
        c = self.n_chains
        self.theta = theta / np.linalg.norm(theta, axis=1, keepdims=True)
        self.w: Floats = np.zeros((rows.n_lags, c))
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
        """One draw of everything."""
        self._draw_baseline()
        self._draw_weights()
        self._draw_density_and_slab()
        self._draw_theta_and_noise()

    def keep(self, chosen: Ints) -> None:
        """Go on with these chains, a chain named twice twice."""
        for name in _STATE:
            value = getattr(self, name)
            setattr(self, name, value[:, chosen] if name == "w" else value[chosen])

    def _transform(self, values: Floats) -> np.ndarray:
        return np.asarray(fft.rfft(values, self._n_fft))

    def _correlate(self, left: np.ndarray, right: np.ndarray) -> Floats:
        """sum_t left_t right_{t-k} of two transforms, (n_lags, n_chains)."""
        back = fft.irfft(left * np.conj(right), self._n_fft)
        return np.ascontiguousarray(back[:, : self.rows.n_lags].T)

    def _predict(self, predicted: Floats) -> None:
        self.error = (self.rows.y - predicted) * self._mask
        self.level = self.error @ self.rows.intercept

    def _draw_baseline(self) -> None:
        """A baseline or none: b integrated out of a wide normal, against b = 0."""
        ratio = 1.0 + self._square * self._unit / self.noise2
        added = 0.5 * self.level**2 / (self._unit * self.noise2) * (1.0 - 1.0 / ratio)
        chance = expit(added - 0.5 * np.log(ratio))
        self.baseline = (self.rng.random(self.n_chains) < chance).astype(np.float64)

    def _scores(self) -> tuple[Floats, ...]:
        """Of every lag given all others: what a step of `_draw_weights` would find now.

        Returns
        -------
        score, odds, inverse, square, along : (n_lags, n_chains)
            z-score of the lag's weight; log odds of its being active, but for the gain of that
            score; its variance over the noise's; its column's squared length and level.
        signal : (n_chains, n_places)
            The columns are this, shifted.
        """
        moved = self.theta @ self._contexts
        along = (self.theta @ self._along).T
        signal = self.theta @ self.rows.contexts.T
        share = self.baseline / self._unit
        if self._full:
            square = np.cumsum(signal**2, axis=1).T[::-1][: self.rows.n_lags]
        else:
            square = self._correlate(self._measured, self._transform(signal**2))
        square = np.maximum(square - share * along**2, 0.0)
        ridge = self.noise2 / self.slab2
        inverse = 1.0 / (square + ridge)
        odds = np.log(self.density / (1.0 - self.density)) + self._sides
        odds = odds + 0.5 * np.log(ridge * inverse)
        now = self._correlate(self._transform(self.error), moved) - along * (self.level * share)
        score = (now + square * self.w) * np.sqrt(inverse / self.noise2)
        return score, odds, inverse, square, along, signal

    def _draw_weights(self) -> None:
        """w a lag at a time, spike or slab with the weight itself integrated out.

        Every chain goes through its own lags in its own order, all chains side by side: the steps
        are as many as a chain's candidates on average, however many chains there are, and a chain
        with more leaves the rest, a random part, to the next sweep. In a step everything is in
        units in which a weight's conditional variance and the noise are 1.
        """
        c, m, n = self.n_chains, self.rows.n_lags, self._n
        chain = np.arange(c)
        score, odds, inverse, square, along, signal = self._scores()
        u, v, turn = self.rng.random((3, m, c))
        needed = np.log(u / (1.0 - u)) - odds
        reach = np.abs(score) if self.signed else score
        candidate = (self.w != 0) | (reach > score_for(needed - _MARGIN, self.signed))
        count = candidate.sum(axis=0)
        order = np.where(candidate, turn, 2.0).argsort(axis=0)[: math.ceil(count.mean())]

        def ordered(values: Floats) -> Floats:
            return np.asarray(values[order, chain])

        root = np.sqrt(ordered(inverse))
        noise = np.sqrt(self.noise2)
        before = ordered(self.w) / (noise * root)
        own = ordered(square) * before * root**2
        bar = score_for(ordered(needed), self.signed)
        bar[np.arange(len(order))[:, None] >= count] = np.inf
        at = ndtri(ordered(v)) if self.signed else ordered(v) + 2.0**-54
        projected = (self.baseline / self._unit)[:, None] * self.rows.intercept
        after = np.empty_like(before)
        error = self.error / noise[:, None]
        padded = np.concatenate([np.zeros((c, m - 1)), signal], axis=1)
        shifts = np.lib.stride_tricks.sliding_window_view(padded, n, axis=1)
        block = max(1, _BLOCK // (c * n))
        sloping = bool(self.baseline.any())
        for start in range(0, len(order), block):
            part = slice(start, start + block)
            columns = shifts[chain, m - 1 - order[part]]
            if not self._full:
                columns *= self._mask
            if sloping:
                columns -= along[order[part], chain][:, :, None] * projected
            columns *= root[part][:, :, None]
            for column, old, size, least, s, new in zip(
                columns, before[part], own[part], bar[part], at[part], after[part], strict=True
            ):
                q = np.vecdot(column, error)
                q += size
                if self.signed:
                    drawn = q + s
                    drawn *= np.abs(q) > least
                else:
                    np.maximum(q, -37.0, out=q)
                    drawn = q - ndtri(s * ndtr(q))
                    drawn *= q > least
                new[:] = drawn
                drawn -= old
                column *= drawn[:, None]
                error -= column
        if not self.signed:
            np.maximum(after, 0.0, out=after)  # rounding
        change = (after - before) * (noise * root)
        drift = (change * ordered(along)).sum(axis=0)
        self.error = error * noise[:, None] - drift[:, None] * projected
        self.level = self.error @ self.rows.intercept
        self.w[order, chain] = after * (noise * root)

    def _draw_density_and_slab(self) -> None:
        c, rng = self.n_chains, self.rng
        active = (self.w != 0).sum(axis=0)
        shapes = np.stack([1.0 + active, 1.0 + self.rows.n_lags - active, 1.0 + 0.5 * active])
        on, off, width = rng.standard_gamma(shapes, (3, c))
        self.density = np.clip(on / (on + off), 1e-3, 0.999)
        self.slab2 = (self._slab + 0.5 * (self.w**2).sum(axis=0)) / width

    def _draw_theta_and_noise(self) -> None:
        """theta given w, of expected length 1 beforehand, and the noise."""
        rows, c = self.rows, self.n_chains
        product = self._transform(self.w.T)[:, None, :] * self._contexts
        filtered = fft.irfft(product, self._n_fft)[:, :, : self._n] * self._mask
        along = filtered @ rows.intercept
        share = self.baseline / self._unit
        gram = filtered @ filtered.transpose(0, 2, 1)
        gram -= share[:, None, None] * along[:, :, None] * along[:, None, :]
        right = filtered @ rows.y - along * (share * self._total)[:, None]
        precision = gram / self.noise2[:, None, None] + self.dim * np.eye(self.dim)
        lower = np.linalg.cholesky(precision)
        normal = self.rng.standard_normal((c, self.dim, 1))
        right = (right / self.noise2[:, None])[:, :, None] + lower @ normal
        theta = np.linalg.solve(precision, right)[:, :, 0]
        self._predict((theta[:, None, :] @ filtered)[:, 0, :])
        left = np.vecdot(self.error, self.error) - share * self.level**2
        gamma = self.rng.standard_gamma(0.5 * (rows.n_rows + NOISE_ROWS), c)
        self.noise2 = 0.5 * (np.maximum(left, 0.0) + self._noise_prior) / gamma
        self.theta = theta

    def intercepts(self) -> Floats:
        """(n_chains,) the baseline a round, 0 in a chain without one."""
        return self.baseline * self.level / self._unit

    def evidence(self) -> Floats:
        """Log of the posterior mass about each chain, up to one constant.

        Of its active lags at its theta, w and the noise integrated out; plus the entropy of which
        lags are active, since many sets that explain the data equally well count together.
        """
        score, odds = self._scores()[:2]
        chance = expit(gain(score, self.signed) + odds)
        entropy = (entr(chance) + entr(1.0 - chance)).sum(axis=0)
        most = max(1, int((self.w != 0).sum(axis=0).max()))
        n_parts = math.ceil(self.n_chains * most * self._n / _AT_ONCE)
        parts = np.array_split(np.arange(self.n_chains), min(n_parts, self.n_chains))
        return np.asarray(entropy + np.concatenate([self._mass(part) for part in parts]))

    def _mass(self, of: Ints) -> Floats:
        """Without the entropy. Chains with fewer active lags have zero columns in their place."""
        rows, m, c = self.rows, self.rows.n_lags, len(of)
        on = self.w[:, of] != 0
        active = on.sum(axis=0)
        most = max(1, int(active.max()))
        order = np.argsort(~on, axis=0, kind="stable")[:most]
        used = (np.arange(most)[:, None] < active).T
        padded = np.concatenate([np.zeros((c, m - 1)), self.theta[of] @ rows.contexts.T], axis=1)
        shifts = np.lib.stride_tricks.sliding_window_view(padded, self._n, axis=1)
        columns = shifts[np.arange(c), m - 1 - order].transpose(1, 0, 2)
        columns = columns * (used[:, :, None] * self._mask)
        share = (self.baseline[of] / self._unit)[:, None]
        along = columns @ rows.intercept
        ridge = self.noise2[of] / self.slab2[of]
        gram = columns @ columns.transpose(0, 2, 1) - (share * along)[:, :, None] * along[:, None]
        gram += ridge[:, None, None] * np.eye(most)
        right = columns @ rows.y - share * self._total * along
        lower = np.linalg.cholesky(gram)
        inverse = np.linalg.inv(lower)
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
        wide = np.log(1.0 + self._square * self._unit / self.noise2[of])
        return np.asarray(mass - 0.5 * self.baseline[of] * wide)
