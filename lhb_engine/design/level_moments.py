"""Moments of trajectories with levels of their own, which they integrate out (docs/model.md 10)."""

from dataclasses import dataclass

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.level_spread import LevelErrors
from lhb_engine.design.levels import kept_share
from lhb_engine.design.moment_sums import Columns, session_moments
from lhb_engine.design.square_sums import RowMoments
from lhb_engine.history import Floats, Ints

_AT_ONCE = 2**21  # floats of rows that are added up at a time


@dataclass(frozen=True)
class RowLevels:
    """The moments of rows, and the sums of each level.

    Attributes
    ----------
    rows : RowMoments
    sums : (n_levels, p) array
        Sum of c r over each level's rows r, with p as in `RowMoments`.
    sizes : (n_levels,) array
        Sum of c^2: its measured rounds.
    begun : int
        Number of levels that are a trajectory's first.
    """

    rows: RowMoments
    sums: Floats
    sizes: Floats
    begun: int

    @property
    def inexact(self) -> float:
        """By which share of itself the spread may be off."""
        return 0.0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    @property
    def n_lags(self) -> int:
        """Number of lags."""
        return self.rows.n_lags

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
            (matrix + matrix.T) / 2, self.n_rows, self.n_lags, self.rows.dim, self.rows.groups
        )

    def errors(self, of: Floats) -> LevelErrors:
        """Return what is known of errors, which are the product of a row with `of`, (p,)."""
        totals = self.sums @ of
        sizes, place = np.unique(np.rint(self.sizes), return_inverse=True)
        place = place.reshape(-1)
        counts = np.bincount(place).astype(np.float64)
        squares = np.bincount(place, totals**2) / sizes
        sums = np.bincount(place, totals).astype(np.float64)
        return LevelErrors(sizes, counts, sizes * counts, sums, squares)


def level_moments(rows: AlignedRounds, places: Ints | None = None) -> RowLevels:
    """Add up rows, and those of each level.

    Parameters
    ----------
    rows : AlignedRounds
    places : (n_chosen,) array, optional
        Places of the rows, at least one; by default all rows.
    """
    if places is None:
        places = np.flatnonzero(rows.number > 0)
    columns, level = Columns.of(rows), rows.level
    order = places[np.argsort(level[places], kind="stable")]
    numbers, starts = np.unique(level[order], return_index=True)
    sums = np.zeros((len(numbers), rows.n_lags * rows.contexts.shape[1] + columns.values.shape[1]))
    step = max(1, _AT_ONCE // sums.shape[1])
    of_row = np.repeat(np.arange(len(numbers)), np.diff(np.append(starts, len(order))))
    for start in range(0, len(order), step):
        here = order[start : start + step]
        both = columns.rows(here) * rows.intercept[here, None]
        at = of_row[start : start + step]
        first = np.flatnonzero(np.diff(at, prepend=-1))
        sums[at[first]] += np.add.reduceat(both, first, axis=0)
    sizes = np.add.reduceat(rows.intercept[order] ** 2, starts)
    begun = int(np.count_nonzero(rows.stretch[order[starts]] == 0))
    return RowLevels(session_moments(rows, places=places).rows, sums, sizes, begun)
