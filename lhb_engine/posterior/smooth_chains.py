"""A Gibbs sampler of the rank-one model with smooth lag weights (docs/model.md 7).

Lag weights are a draw of a normal distribution whose covariance fades and bends, (14.2), of either
sign. The other draws are those of the chains with spikes and slabs.
"""

import numpy as np
from scipy.linalg.lapack import dtrtrs
from scipy.special import logsumexp, ndtr

from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.gibbs_chains import NOISE_ROWS, Chains
from lhb_engine.posterior.smooth_profiles import (
    BENDS,
    FADES,
    WIDTH,
    Shape,
    Solved,
    drawn_shape,
    solved,
)

MOVES = 3  # of a chain's shape, a sweep


class SmoothChains(Chains):
    """Chains whose lag weights are smooth; see `Chains`."""

    def __init__(self, moments: RowMoments, theta: Floats, rng: np.random.Generator) -> None:
        super().__init__(moments, theta, rng, signed=True)
        self._middle = 0.5 * float(np.log(self._slab))
        self._shapes: list[Shape] = [
            (
                self._middle + WIDTH * rng.standard_normal(),
                int(rng.integers(len(FADES))),
                int(rng.integers(len(BENDS))),
            )
            for _ in theta
        ]

    def keep(self, chosen: Ints) -> None:
        """Resample chains by index, with repetition."""
        super().keep(chosen)
        self._shapes = [self._shapes[i] for i in chosen]

    def _draw_density_and_slab(self) -> None:
        """Nothing: smooth lag weights have neither."""

    def _products(self) -> tuple[Floats, Floats, Floats]:
        """Return of each chain the lags' products with each other and with y, and y'y.

        Covariates are taken out of all of them, by (7.23).
        """
        data, every = self.data, np.arange(self.n_chains)
        data.columns(self.theta, self.w)
        gram, right, along = data.active(every, np.tile(np.arange(self.n_lags), (len(every), 1)))
        root = self.covariates.root(self.noise2)
        beside, level = along @ root, data.total @ root
        gram = gram - beside @ beside.transpose(0, 2, 1)
        right = right - (beside @ level[:, :, None])[:, :, 0]
        return gram, right, data.square - np.vecdot(level, level)

    def _draw_weights(self) -> None:
        """Draw each chain's shape by its evidence, and the lag weights, by (14.3)."""
        gram, right, _ = self._products()
        for c, s2 in enumerate(self.noise2.tolist()):
            a, v = gram[c] / s2, right[c] / s2
            for _ in range(MOVES):
                self._shapes[c], now = drawn_shape(self._shapes[c], self._middle, a, v, self.rng)
            _, lower, half, spread = now
            z = half + self.rng.standard_normal(len(half))
            self.w[c] = spread @ dtrtrs(lower, z, lower=1, trans=1)[0]

    def evidence(self) -> Floats:
        """Return E_c of docs/model.md (7.8) of each chain's shape and of those around it.

        As in that of spikes and slabs, the lag weights and the noise are integrated out.
        """
        gram, right, square = self._products()
        found = []
        for c, (size, fade, bend) in enumerate(self._shapes):
            s2 = float(self.noise2[c])
            around = [
                solved((size, at, by), self._middle, gram[c] / s2, right[c] / s2)
                for at in range(max(0, fade - 1), min(len(FADES), fade + 2))
                for by in range(max(0, bend - 1), min(len(BENDS), bend + 2))
            ]
            found.append(logsumexp([self._mass_of(one, s2, float(square[c])) for one in around]))
        shapes = np.log(len(FADES) * len(BENDS))
        return np.asarray(found - shapes - self.covariates.log_prior_cost(self.noise2))

    def _mass_of(self, one: Solved, noise2: float, square: float) -> float:
        """Return a shape's log evidence with the noise integrated out; y'y is `square`."""
        explained = float(one[2] @ one[2])
        left = max(square - noise2 * explained, 0.0) + self._noise_prior
        rows = self.data.n_rows + NOISE_ROWS
        return one[0] - 0.5 * explained - 0.5 * rows * float(np.log(left))


def sure_lags(thetas: Floats, w: Floats) -> Floats:
    """Return how surely each lag pays by draws (n_draws, dim) and (n_draws, n_lags) without zeros.

    It is 1 less the chance that any lag is so far from 0 by chance. What a lag pays is taken along
    the mean effect: a draw's theta and lag weights are known up to a common factor and sign.
    """
    pays = w * (thetas @ (w.sum(axis=1) @ thetas))[:, None]
    size, error = np.abs(pays.mean(axis=0)), np.maximum(pays.std(axis=0), 1e-300)
    return np.asarray(np.maximum(1.0 - 2.0 * w.shape[1] * ndtr(-size / error), 0.0))
