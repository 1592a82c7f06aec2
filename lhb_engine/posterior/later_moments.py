"""The guard (7.11) and the alarm (7.12), from moments of the rows since the installed estimate.

Equation numbers are those of docs/model.md.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lhb_engine.design.moments import Statistics
from lhb_engine.history import Floats
from lhb_engine.posterior.prediction_check import HeldOut, Predictor


@dataclass(frozen=True)
class LaterMoments(HeldOut):
    """The moments of the rows after those that the installed estimate was fitted on.

    They are of the later rows, and of their pairs with the rows before them.
    """

    old: Predictor
    moments: Statistics

    @property
    def n_rows(self) -> int:
        """Number of later rows."""
        return self.moments.n_rows

    @property
    def has_levels(self) -> bool:
        """Whether trajectories have levels."""
        return self.moments.has_levels

    @cached_property
    def mean_square(self) -> float:
        """Mean square of the installed estimate's errors."""
        return max(self.product(self.old, self.old), 0.0)

    def excess(self, new: Predictor) -> tuple[float, float]:
        """Return the mean of e_new^2 - e_old^2 and its standard error, by docs/model.md (10.8)."""
        known, least = self.comparable(self.old, new), float(np.finfo(float).tiny)
        old = max(self.product(known, known), 0.0)
        ours, both = self.product(new, new), self.product(new, known)
        square = 2.0 * (ours**2 + old**2 - 2.0 * both**2) / self.n_rows
        return ours - old, float(np.sqrt(max(square, least)))

    def product(self, one: Predictor, other: Predictor) -> float:
        """Return the mean product of the one-step errors of two predictions."""
        by = [self.moments.coefficients(p.theta, p.lag_weights, p.beside) for p in (one, other)]
        rows = self.moments.whitened(one.autocorrelation, other.autocorrelation)
        return float(rows.residual_products(np.array(by))[0, 1]) / self.n_rows

    def doubt(self, thetas: Floats, weights: Floats) -> float:
        """Return D of (7.12), in units of the noise variance."""
        nothing = np.zeros(self.moments.n_covariates)
        pairs = zip(thetas, weights, strict=True)
        by = np.array([self.moments.coefficients(theta, w, nothing) for theta, w in pairs])
        change = by - by.mean(axis=0)
        rows = self.moments.whitened(self.old.autocorrelation)
        phi = change[:, : rows.n_lagged]
        squares = np.vecdot(phi @ rows.gram, phi)
        return max(float(squares.max()), 0.0) / self.n_rows / self.old.noise**2
