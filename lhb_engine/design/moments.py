"""Moments: the sums of squares and products of a regression's rows (docs/model.md 10).

They are all that a Gaussian likelihood knows of the data. They add up over rows, trajectories and
machines, and their size does not depend on the number of rows.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from lhb_engine.design.square_sums import RowMoments, SquareSums, check_alike
from lhb_engine.design.sum_bytes import Header, from_triangles, to_triangles

HEADER = Header(b"LHBM", 1, "moments", n_counts=2)  # n_rows, n_pairs


@dataclass(frozen=True)
class Moments(SquareSums):
    """Moments of rows and of pairs of consecutive rows of a trajectory: docs/model.md (10.2).

    A pair is a row and the row directly before it, of the same span length. Each pair is counted
    once, when the later of its two measurements is.

    Attributes
    ----------
    sums : (3, p, p) array
        Sums of r r' over rows; of r_t r_{t-1}' + r_{t-1} r_t' over pairs; and of r_t r_t' +
        r_{t-1} r_{t-1}' over pairs. A row r is [X, Z, y] as in `RowMoments`.
    n_rows, n_pairs : int
    n_lags, dim : int
    groups : tuple of int
        Numbers of columns of the groups of covariates, besides the constant.
    """

    n_pairs: int = field(kw_only=True)

    @classmethod
    def zero(cls, n_lags: int, dim: int, groups: tuple[int, ...] = ()) -> Self:
        """Return the moments of no rows."""
        p = n_lags * dim + sum(groups) + 2
        return cls(np.zeros((3, p, p)), 0, n_lags, dim, groups, n_pairs=0)

    def __add__(self, other: Self) -> Self:
        check_alike(self, other)
        return replace(
            self,
            sums=self.sums + other.sums,
            n_rows=self.n_rows + other.n_rows,
            n_pairs=self.n_pairs + other.n_pairs,
        )

    def __sub__(self, other: Self) -> Self:
        """Return the moments without some rows that are in them, and without their pairs."""
        check_alike(self, other)
        return replace(
            self,
            sums=self.sums - other.sums,
            n_rows=self.n_rows - other.n_rows,
            n_pairs=self.n_pairs - other.n_pairs,
        )

    def whitened(self, rho: float, other: float | None = None) -> RowMoments:
        """Return the moments of the quasi-differenced rows docs/model.md (7.16), by (10.3).

        With `other`, products of the rows under two values of rho, by (10.7).
        """
        mixed = rho if other is None else other
        if rho == mixed == 0.0:
            return self.rows
        rows, pairs, ends = self.sums
        alone = np.sqrt((1.0 - rho**2) * (1.0 - mixed**2)) if rho != mixed else 1.0 - rho**2
        matrix = alone * rows + (1.0 + rho * mixed - alone) / 2 * ends - (rho + mixed) / 2 * pairs
        return RowMoments(matrix, self.n_rows, self.n_lags, self.dim, self.groups)

    def to_bytes(self) -> bytes:
        """Return a header and the upper triangles of the sums, as little-endian float64."""
        shape = (self.n_lags, self.dim, self.n_covariates)
        return HEADER.to_bytes(*shape, self.n_rows, self.n_pairs) + to_triangles(self.sums)

    @classmethod
    def from_bytes(cls, data: bytes, groups: tuple[int, ...] = ()) -> Self:
        """Return the moments that `to_bytes` wrote, equal to the bit.

        Parameters
        ----------
        data : bytes
        groups : tuple of int
            Those of the moments, which the bytes leave out.

        Raises
        ------
        ValueError
            The bytes are no moments, of another version, of other covariates, or not of the length
            that they say.
        """
        n_lags, dim, (n_rows, n_pairs), rest = HEADER.read(data, groups)
        sums = from_triangles(rest, 3, n_lags * dim + sum(groups) + 2)
        return cls(sums, n_rows, n_lags, dim, groups, n_pairs=n_pairs)
