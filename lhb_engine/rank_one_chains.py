"""Gibbs chains on the rank-one model, several side by side.

y = b + sum_k w_k <xi_{-k}, theta> + eps: a spike at zero and a half-normal slab for every lag
weight (w >= 0), a normal theta, a spike and a wide normal for the baseline b. How many lags are
active, the slab's width, the noise and whether there is a baseline are drawn along with w and
theta, so nothing is left to tune: averages over the draws shrink where data are few and only there.

Given theta the design of w is one signal, shifted; nothing larger than a few sequences is held.
"""

import numpy as np
from scipy import fft
from scipy.special import betaln, entr, expit, log_ndtr, ndtr, ndtri

from lhb_engine.aligned_rounds import AlignedRounds
from lhb_engine.history import Floats, Ints

# Before any data a fifth of the rewards' variance is noise, believed as firmly as 30 rows: with
# fewer rows than unknowns every reward can be explained, and nothing else says that none should be.
NOISE_ROWS, NOISE_SHARE = 30.0, 0.2
SLAB_SHARE = 0.1
_MARGIN = 3.0  # nats; a lag that is off and further than this from coming on is passed over
_FLOOR = 1e-10  # of the rewards' variance: what noise may fall to
# z-scores and their gains, for the way back by interpolation
_SCORES = np.concatenate([-np.geomspace(1e4, 8.0, 200), np.linspace(-7.9, 12.0, 2000), [1e3]])
_GAINS = 0.5 * _SCORES**2 + log_ndtr(_SCORES)
_STATE = ("theta", "w", "noise2", "slab2", "density", "baseline", "error", "level", "entropy")


class Chains:
    """Draws of (w, theta, noise, slab, density of active lags, baseline or none).

    Parameters
    ----------
    rows : AlignedRounds
        Contexts and rewards of order 1.
    theta : (n_chains, dim) array
        Where the chains start; their lag weights start at zero.
    rng : np.random.Generator
    signed : bool
        Lag weights may be negative too.

    Attributes
    ----------
    theta : (n_chains, dim) arm parameters, of any length
    w : (n_lags, n_chains) lag weights
    noise2 : (n_chains,) variance of eps
    baseline : (n_chains,) 1 where the chain has a baseline
    """

    def __init__(
        self, rows: AlignedRounds, theta: Floats, rng: np.random.Generator, signed: bool = False
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
        self._measured = self._transform(np.stack([self._mask, rows.intercept]))
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
        self.entropy = np.zeros(c)
        self._predict(np.zeros((c, self._n)))

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
        gain = 0.5 * self.level**2 / (self._unit * self.noise2) * (1.0 - 1.0 / ratio)
        chance = expit(gain - 0.5 * np.log(ratio))
        self.baseline = (self.rng.random(self.n_chains) < chance).astype(np.float64)

    def _draw_weights(self) -> None:
        """w a lag at a time, spike or slab with the weight itself integrated out.

        Every chain goes through its own lags in its own order, all chains side by side: the steps
        are as many as one chain's candidates, however many chains there are.
        """
        c, m, n = self.n_chains, self.rows.n_lags, self._n
        signal = np.zeros((c, m - 1 + n))
        signal[:, m - 1 :] = self.theta @ self.rows.contexts.T
        moved = self._transform(signal[:, m - 1 :])
        along = self._correlate(self._measured[1], moved)
        square = self._correlate(self._measured[0], self._transform(signal[:, m - 1 :] ** 2))
        share = self.baseline / self._unit
        square = np.maximum(square - share * along**2, 0.0)
        ridge = self.noise2 / self.slab2
        inverse = 1.0 / (square + ridge)
        sd = np.sqrt(self.noise2 * inverse)
        odds = np.log(self.density / (1.0 - self.density)) + self._sides
        odds = odds + 0.5 * np.log(ridge * inverse)
        u, v, turn = self.rng.random((3, m, c))
        needed = np.log(u) - np.log1p(-u) - odds
        w, error, level = self.w, self.error, self.level
        now = self._correlate(self._transform(error), moved) - along * (level * share)
        gain = self._gain((now + square * w) * inverse / sd)
        chance = expit(gain + odds)
        self.entropy = (entr(chance) + entr(1.0 - chance)).sum(axis=0)
        candidate = (w != 0) | (gain + _MARGIN > needed)
        order = np.where(candidate, turn, 2.0).argsort(axis=0)[: candidate.sum(axis=0).max()]
        bar = np.where(candidate, self._bar(needed), np.inf)
        chain = np.arange(c)
        shifts = np.lib.stride_tricks.sliding_window_view(signal, n, axis=1)
        held = level * share
        steps = [order, m - 1 - order] + [
            np.take_along_axis(a, order, axis=0)
            for a in (w, square, along, along * share, inverse / sd, sd, bar, v)
        ]
        for k, place, old, size, across, lift, inv, s, least, at in zip(*steps, strict=True):
            shifted = shifts[chain, place]
            q = (np.vecdot(shifted, error) - across * held + size * old) * inv
            if self.signed:
                new = s * (q + ndtri(at))
            else:
                new = np.maximum(s * (q - ndtri(np.maximum(at * ndtr(q), 1e-300))), 0.0)
            new *= (np.abs(q) if self.signed else q) > least
            change = new - old
            w[k, chain] = new
            shifted *= change[:, None]
            if not self._full:
                shifted *= self._mask
            error -= shifted
            held -= change * lift
        self.level = error @ self.rows.intercept

    def _gain(self, q: Floats) -> Floats:
        """Log odds that data with z-score q add to a lag's being active."""
        half = 0.5 * q * q
        return half if self.signed else half + log_ndtr(q)

    def _bar(self, needed: Floats) -> Floats:
        """The z-score from which the gain is more than what is needed."""
        if self.signed:
            return np.sqrt(np.maximum(2.0 * needed, 0.0))
        return np.asarray(np.interp(needed, _GAINS, _SCORES))

    def _draw_density_and_slab(self) -> None:
        c, rng = self.n_chains, self.rng
        active = (self.w != 0).sum(axis=0)
        drawn = rng.beta(1.0 + active, 1.0 + self.rows.n_lags - active)
        self.density = np.clip(drawn, 1e-3, 0.999)
        size = self._slab + 0.5 * (self.w**2).sum(axis=0)
        self.slab2 = size / rng.standard_gamma(1.0 + 0.5 * active, c)

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
        mean = np.linalg.solve(precision, (right / self.noise2[:, None])[:, :, None])
        normal = self.rng.standard_normal((c, self.dim, 1))
        theta = (mean + np.linalg.solve(lower.transpose(0, 2, 1), normal))[:, :, 0]
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
        return np.array([self._mass(i) for i in range(self.n_chains)])

    def _mass(self, i: int) -> float:
        rows, m = self.rows, self.rows.n_lags
        active = np.flatnonzero(self.w[:, i])
        signal = np.concatenate([np.zeros(m - 1), rows.contexts @ self.theta[i]])
        shifted = np.lib.stride_tricks.sliding_window_view(signal, self._n)
        columns = shifted[m - 1 - active] * self._mask
        share = self.baseline[i] / self._unit
        along = columns @ rows.intercept
        ridge = self.noise2[i] / self.slab2[i]
        gram = columns @ columns.T - share * np.outer(along, along) + ridge * np.eye(len(active))
        right = columns @ rows.y - share * self._total * along
        lower = np.linalg.cholesky(gram)
        inverse = np.linalg.inv(lower)
        half = inverse @ right
        y2 = float(rows.y @ rows.y) - share * self._total**2
        left = max(y2 - float(half @ half), 0.0) + self._noise_prior
        mass = betaln(1 + len(active), 1 + m - len(active)) + self.entropy[i]
        mass -= 0.5 * (rows.n_rows + NOISE_ROWS) * np.log(left) + np.log(np.diag(lower)).sum()
        mass += len(active) * (0.5 * np.log(ridge) + self._sides)
        if not self.signed:
            sd = np.sqrt(self.noise2[i] * (inverse**2).sum(axis=0))
            mass += log_ndtr(inverse.T @ half / sd).sum()
        if self.baseline[i]:
            mass -= 0.5 * np.log(1.0 + self._square * self._unit / self.noise2[i])
        return float(mass)
