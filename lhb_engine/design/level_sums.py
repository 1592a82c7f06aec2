"""Moments and levels in sums that can be kept, of one size however many rows there were.

What a level of n measured rounds takes out of the moments, docs/model.md (10.9), is a smooth
function of n. So levels are shared out between a few nodes n = 1, 2, 4, ..., by (10.10).
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from lhb_engine.design.level_spread import LevelErrors
from lhb_engine.design.levels import kept_share
from lhb_engine.design.square_sums import RowMoments, SquareSums, check_alike
from lhb_engine.design.sum_bytes import Header, from_triangles, to_triangles
from lhb_engine.history import Floats

HEADER = Header(b"LHBL", 1, "sums of levels", n_counts=3)  # n_rows, n_nodes, begun
INEXACT = 0.05  # by which share the nodes may move the spread, at levels of a few rounds


@dataclass(frozen=True)
class LevelSums(SquareSums):
    """The moments of rows, and their levels, shared out.

    Attributes
    ----------
    sums : (1 + n_nodes, p, p) array
        R'R of the rows, and the matrix S_j of (10.10) of each node 2^j.
    n_rows : int
    n_lags, dim : int
    groups : tuple of int
        As in `SquareSums`.
    counts : (n_nodes,) array
        Each node's share of the number of levels.
    begun : int
        Number of levels that are a trajectory's first.
    """

    counts: Floats = field(kw_only=True)
    begun: int = field(kw_only=True)

    @classmethod
    def zero(cls, n_lags: int, dim: int, groups: tuple[int, ...] = ()) -> Self:
        """Return the sums of no rows."""
        p = n_lags * dim + sum(groups) + 2
        return cls(np.zeros((1, p, p)), 0, n_lags, dim, groups, counts=np.zeros(0), begun=0)

    @property
    def inexact(self) -> float:
        """By which share of itself the spread may be off."""
        return INEXACT

    @property
    def _nodes(self) -> Floats:
        return np.asarray(2.0 ** np.arange(len(self.counts)))

    def whitened(self, rho: float) -> RowMoments:
        """Return the moments with levels integrated out, by docs/model.md (10.10).

        Parameters
        ----------
        rho : float
            Intraclass correlation, from 0 to below 1.
        """
        share = 1.0 - kept_share(rho, self._nodes) ** 2
        matrix = self.sums[0] - np.tensordot(share, self.sums[1:], 1)
        return RowMoments(matrix, self.n_rows, self.n_lags, self.dim, self.groups)

    def errors(self, of: Floats) -> LevelErrors:
        """Return what is known of errors, which are the product of a row with `of`, (p,)."""
        constant = self.n_lags * self.dim
        totals, rounds = self.sums[1:, constant] @ of, self.sums[1:, constant, constant]
        return LevelErrors(self._nodes, self.counts, rounds, totals, (self.sums[1:] @ of) @ of)

    def __add__(self, other: Self) -> Self:
        return self._with(other, 1)

    def __sub__(self, other: Self) -> Self:
        """Return the sums less those of some rows: of the others, given these."""
        return self._with(other, -1)

    def _with(self, other: Self, sign: int) -> Self:
        check_alike(self, other)
        n = max(len(self.counts), len(other.counts))
        one, two = self._with_nodes(n), other._with_nodes(n)
        return replace(
            self,
            sums=one.sums + sign * two.sums,
            n_rows=self.n_rows + sign * other.n_rows,
            counts=one.counts + sign * two.counts,
            begun=self.begun + sign * other.begun,
        )

    def _with_nodes(self, n: int) -> Self:
        more = n - len(self.counts)
        sums = np.pad(self.sums, ((0, more), (0, 0), (0, 0)))
        return replace(self, sums=sums, counts=np.pad(self.counts, (0, more)))

    @property
    def are_finite(self) -> bool:
        """Whether all of them are numbers."""
        return super().are_finite and bool(np.isfinite(self.counts).all())

    def to_bytes(self) -> bytes:
        """Return a header, the counts and the upper triangles of the sums, as float64."""
        shape = (self.n_lags, self.dim, self.n_covariates)
        header = HEADER.to_bytes(*shape, self.n_rows, len(self.counts), self.begun)
        return header + self.counts.astype("<f8").tobytes() + to_triangles(self.sums)

    @classmethod
    def from_bytes(cls, data: bytes, groups: tuple[int, ...] = ()) -> Self:
        """Return the sums that `to_bytes` wrote, equal to the bit.

        Parameters
        ----------
        data : bytes
        groups : tuple of int
            Those of the sums, which the bytes leave out.

        Raises
        ------
        ValueError
            The bytes are no such sums, of another version, of other covariates, or not of the
            length that they say.
        """
        n_lags, dim, (n_rows, n_nodes, begun), rest = HEADER.read(data, groups)
        counts, triangles = np.split(np.frombuffer(rest, np.uint8), [8 * n_nodes])
        sums = from_triangles(triangles.tobytes(), 1 + n_nodes, n_lags * dim + sum(groups) + 2)
        sizes = counts.view("<f8").astype(np.float64)
        return cls(sums, n_rows, n_lags, dim, groups, counts=sizes, begun=begun)
