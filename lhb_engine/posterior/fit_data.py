"""The data of a fit in the form that costs less: rows, or their moments (docs/model.md 10)."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import autocorrelation, innovations, whitened
from lhb_engine.design.level_sums import level_moments
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.moments import TINY, Moments, Statistics
from lhb_engine.history import Flags, Floats, Ints
from lhb_engine.posterior.acceptance_and_alarm import LaterMoments, LaterRows
from lhb_engine.posterior.predictor import Predictor, residuals

# Measured (docs/performance.md, Fits): fewer rows, or more unknowns, cost less as rows.
LEAST_ROWS = 250
SQUARES_A_ROW = 125  # rows pay back the square of the unknowns over this
MOST_UNKNOWNS = 1000


@dataclass(frozen=True)
class RowData:
    """The rows of a fit; its calls are those of `Statistics`."""

    rows: AlignedRounds
    statistics: ClassVar[None] = None  # which cost more
    has_levels: ClassVar[bool] = False  # else there are statistics

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_lags(self) -> int:
        """Number of lags that at least one row can see."""
        return self.rows.n_lags

    @property
    def seen(self) -> Flags:
        """Whether a feature is other than 0 in some context, (dim,)."""
        return np.asarray(self.rows.contexts.any(axis=0))

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

    def summed(self) -> Moments:
        """Return the moments of the rows."""
        return self._moments

    @cached_property
    def _moments(self) -> Moments:
        return session_moments(self.rows)


FitData = RowData | Statistics


def moments_pay(rows: AlignedRounds) -> bool:
    """Whether a fit is of these rows' moments: these cost it less, or there are levels."""
    unknowns = rows.n_lags * rows.contexts.shape[1]
    least = max(LEAST_ROWS, unknowns**2 // SQUARES_A_ROW)
    return bool(rows.levels or (unknowns <= MOST_UNKNOWNS and rows.n_rows >= least))


def summed(rows: AlignedRounds, places: Ints | None = None) -> Statistics:
    """Return what is to be known of rows, all or those at some places."""
    return (level_moments if rows.levels else session_moments)(rows, places)


def fit_data(rows: AlignedRounds) -> FitData:
    """Return the rows, or their statistics if these pay."""
    return summed(rows) if moments_pay(rows) else RowData(rows)


def later_rows(old: Predictor, rows: AlignedRounds) -> LaterRows | LaterMoments | None:
    """Return the rows after those of an installed estimate; None if there are none."""
    if not moments_pay(rows):
        return LaterRows.after(old, rows)
    places = np.flatnonzero(rows.number > old.last_round)
    return LaterMoments(old, summed(rows, places)) if len(places) else None
