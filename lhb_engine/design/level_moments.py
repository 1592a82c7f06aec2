"""Moments of trajectories with levels of their own, which they integrate out (docs/model.md 10)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.levels import kept_share
from lhb_engine.design.moment_sums import lagged_contexts, session_moments
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints

# tau that are compared: 0, and from below what 10^4 rounds could show to where levels are free
SPREADS = np.append(0.0, np.geomspace(0.01, 1000.0, 401))
WITHIN = 1.92  # nats below the largest likelihood: the 95% interval of one parameter
_EQUAL = 1e-9  # nats that do not count
_AT_ONCE = 2**21  # floats of rows that are added up at a time


class Spread(NamedTuple):
    """How far levels differ.

    Attributes
    ----------
    tau : float
        Standard deviation of the levels over that of the noise.
    value : float
        Standard deviation of the levels.
    low, high : float
        Bounds of its 95% interval.
    """

    tau: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class LevelMoments:
    """The moments of rows, and each trajectory's sums, as docs/model.md (10.9) needs them.

    Attributes
    ----------
    rows : RowMoments
    sums : (n_trajectories, p) array
        Sum of c r over each trajectory's rows r, with p as in `RowMoments`.
    sizes : (n_trajectories,) array
        Sum of c^2: its measured rounds.
    """

    rows: RowMoments
    sums: Floats
    sizes: Floats

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_lags(self) -> int:
        """Number of lags."""
        return self.rows.n_lags

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.rows.dim

    @property
    def n_covariates(self) -> int:
        """Number of columns of Z, the constant included."""
        return self.rows.n_covariates

    def whitened(self, rho: float) -> RowMoments:
        """Return the moments with levels integrated out, by docs/model.md (10.9).

        Parameters
        ----------
        rho : float
            Intraclass correlation, from 0 to below 1.
        """
        share = (1.0 - kept_share(rho, self.sizes) ** 2) / self.sizes
        weighted = self.sums * share[:, None]
        matrix = self.rows.matrix - weighted.T @ self.sums
        return RowMoments(
            (matrix + matrix.T) / 2, self.n_rows, self.n_lags, self.dim, self.rows.groups
        )

    def correlation(self, coefficients: Floats) -> float:
        """Return the rho of the largest likelihood, given the coefficients of a prediction.

        Parameters
        ----------
        coefficients : (p - 1,) array
            By which rows are predicted: phi (lag by lag), the baseline, and the other covariates.
        """
        tau = self.spread(coefficients).tau
        return tau**2 / (1.0 + tau**2)

    def spread(self, coefficients: Floats) -> Spread:
        """Return how far levels differ, by the restricted likelihood docs/model.md (7.28).

        Parameters
        ----------
        coefficients : (p - 1,) array
            As in `correlation`.
        """
        error = np.append(-coefficients, 1.0)
        square, of_levels = float(error @ self.rows.matrix @ error), self.sums @ error
        square = max(square, float(np.finfo(float).tiny))
        sizes, place = np.unique(np.rint(self.sizes), return_inverse=True)
        place = place.reshape(-1)
        counts = np.bincount(place).astype(np.float64)
        within, total = np.bincount(place, of_levels**2), np.bincount(place, of_levels)
        tau2 = SPREADS[:, None] ** 2
        kept = 1.0 / (1.0 + tau2 * sizes)
        known = kept @ (sizes * counts)
        left = square - (1.0 - kept) @ (within / sizes) - (kept @ total) ** 2 / known
        left = np.maximum(left, 1e-12 * square)
        free = max(self.n_rows - 1, 1)
        cost = 0.5 * (free * np.log(left) - np.log(kept) @ counts + np.log(known))
        best = int(np.argmax(cost <= cost.min() + _EQUAL))
        credible = np.flatnonzero(cost <= cost[best] + WITHIN)
        value = SPREADS * np.sqrt(left / free)
        ends = (float(value[credible[0]]), float(value[credible[-1]]))
        return Spread(float(SPREADS[best]), float(value[best]), *ends)


def level_moments(rows: AlignedRounds, places: Ints | None = None) -> LevelMoments:
    """Add up rows, and each trajectory's.

    Parameters
    ----------
    rows : AlignedRounds
    places : (n_chosen,) array, optional
        Places of the rows, at least one; by default all rows.
    """
    if places is None:
        places = np.flatnonzero(rows.number > 0)
    order = places[np.argsort(rows.owner[places], kind="stable")]
    found, starts = np.unique(rows.owner[order], return_index=True)
    sums = np.zeros((len(found), rows.n_lags * rows.contexts.shape[1] + rows.beside.shape[1] + 1))
    values = np.column_stack([rows.beside, rows.y])
    step = max(1, _AT_ONCE // sums.shape[1])
    of_row = np.repeat(np.arange(len(found)), np.diff(np.append(starts, len(order))))
    for start in range(0, len(order), step):
        here = order[start : start + step]
        both = np.concatenate([lagged_contexts(rows, here), values[here]], axis=1)
        both *= rows.intercept[here, None]
        trajectory = of_row[start : start + step]
        first = np.flatnonzero(np.diff(trajectory, prepend=-1))
        sums[trajectory[first]] += np.add.reduceat(both, first, axis=0)
    sizes = np.add.reduceat(rows.intercept[order] ** 2, starts)
    return LevelMoments(session_moments(rows, places=places).rows, sums, sizes)
