"""The data of a fit in the form that costs less: rows, or their moments (docs/model.md 10)."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import (
    autocorrelation,
    innovations,
    moment_autocorrelation,
    whitened,
)
from lhb_engine.design.level_sums import LevelSums, RowLevels, level_correlation, level_moments
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.moments import Moments, RowMoments, SquareSums
from lhb_engine.history import Floats
from lhb_engine.posterior.later_moments import LaterMoments, coefficients
from lhb_engine.posterior.prediction_check import LaterRows, Predictor, residuals

# Measured (docs/performance.md, Fits): fewer rows, or more unknowns, cost less as rows.
LEAST_ROWS = 250
SQUARES_A_ROW = 125  # rows pay back the square of the unknowns over this
MOST_UNKNOWNS = 1000
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class RowData:
    """The rows of a fit."""

    rows: AlignedRounds

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_lags(self) -> int:
        """Number of lags that at least one row can see."""
        return self.rows.n_lags

    def whitened(self, rho: float) -> AlignedRounds:
        """Return the rows (7.16)."""
        return whitened(self.rows, rho)

    def autocorrelation(self, theta: Floats, weights: Floats, effects: Floats) -> float:
        """Return rho of (7.15), from the errors that these parameters leave."""
        return autocorrelation(self.rows, residuals(self.rows, theta, weights, effects))

    @property
    def n_alone(self) -> int:
        """Number of rows that follow no other."""
        return self.n_rows - len(self.rows.followers())

    def square(self, theta: Floats, weights: Floats, effects: Floats, rho: float) -> float:
        """Return the sum of the squares of u_t (7.15) that these parameters leave."""
        left = innovations(self.rows, residuals(self.rows, theta, weights, effects), rho)
        return max(float(left @ left), TINY)


@dataclass(frozen=True)
class MomentData:
    """The moments of a fit's rows."""

    moments: SquareSums | RowLevels

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.moments.n_rows

    @property
    def n_lags(self) -> int:
        """Number of lags that at least one row can see."""
        return self.moments.n_lags

    def whitened(self, rho: float) -> RowMoments:
        """Return the moments of the rows (7.16), by (10.3)."""
        return self.moments.whitened(rho)

    def autocorrelation(self, theta: Floats, weights: Floats, effects: Floats) -> float:
        """Return rho of (7.15), from the errors that these parameters leave."""
        by = coefficients(theta, weights, effects, self.moments.n_lags)
        if isinstance(self.moments, LevelSums | RowLevels):
            return level_correlation(self.moments, by)
        assert isinstance(self.moments, Moments)
        return moment_autocorrelation(self.moments, by)

    @property
    def n_alone(self) -> int:
        """Number of rows that follow no other."""
        assert isinstance(self.moments, Moments)
        return self.n_rows - self.moments.n_pairs

    def square(self, theta: Floats, weights: Floats, effects: Floats, rho: float) -> float:
        """Return the sum of the squares of u_t (7.15) that these parameters leave."""
        by = coefficients(theta, weights, effects, self.moments.n_lags)
        return max(float(self.whitened(rho).residual_products(by[None])[0, 0]), TINY)


FitData = RowData | MomentData


def moments_pay(rows: AlignedRounds) -> bool:
    """Whether a fit costs less from the moments of these rows."""
    unknowns = rows.n_lags * rows.contexts.shape[1]
    least = max(LEAST_ROWS, unknowns**2 // SQUARES_A_ROW)
    return bool(unknowns <= MOST_UNKNOWNS and rows.n_rows >= least)


def fit_data(rows: AlignedRounds) -> FitData:
    """Return the rows, or their moments if these pay; always moments where there are levels."""
    if rows.levels:
        return MomentData(level_moments(rows))
    return MomentData(session_moments(rows)) if moments_pay(rows) else RowData(rows)


def of_moments(data: FitData) -> MomentData:
    """Return the moments of a fit's rows, whatever costs less."""
    return MomentData(session_moments(data.rows)) if isinstance(data, RowData) else data


def later_rows(old: Predictor, rows: AlignedRounds) -> LaterRows | LaterMoments | None:
    """Return the rows after those of an installed estimate; None if there are none."""
    if not rows.levels and not moments_pay(rows):
        return old.since(rows)
    places = np.flatnonzero(rows.number > old.last_round)
    if rows.levels:
        return LaterMoments(old, level_moments(rows, places)) if len(places) else None
    return LaterMoments(old, session_moments(rows, places=places)) if len(places) else None
