"""Moments: the sums of squares and products of a regression's rows (docs/model.md 10).

They are all that a Gaussian likelihood knows of the data. They add up over rows, trajectories and
machines, and their size does not depend on the number of rows.
"""

import struct
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from lhb_engine.history import Floats

_HEAD = struct.Struct("<4sHxx5q")  # magic, version, n_lags, dim, n_covariates, n_rows, n_pairs
_MAGIC, _VERSION = b"LHBM", 1


@dataclass(frozen=True)
class RowMoments:
    """R'R of the rows R = [X, Z, y]: docs/model.md (10.1).

    A row is scaled as in docs/model.md (1.5).

    Attributes
    ----------
    matrix : (p, p) array
        Symmetric, with p = n_lags * dim + n_covariates + 1: the lagged contexts (lag by lag), the
        covariates, and y.
    n_rows : int
    n_lags, dim : int
    groups : tuple of int
        Numbers of columns of the groups of covariates, besides the constant.
    """

    matrix: Floats
    n_rows: int
    n_lags: int
    dim: int
    groups: tuple[int, ...] = ()

    @property
    def n_lagged(self) -> int:
        """Number of columns of X, n_lags * dim."""
        return self.n_lags * self.dim

    @property
    def n_covariates(self) -> int:
        """Number of columns of Z, the constant included."""
        return len(self.matrix) - self.n_lagged - 1

    @property
    def gram(self) -> Floats:
        """(n_lags * dim, n_lags * dim) X'X."""
        return self.matrix[: self.n_lagged, : self.n_lagged]

    @property
    def cross(self) -> Floats:
        """(n_lags, dim, n_covariates) X'Z."""
        cross = self.matrix[: self.n_lagged, self.n_lagged : -1]
        return cross.reshape(self.n_lags, self.dim, -1)

    @property
    def target(self) -> Floats:
        """(n_lags, dim) X'y."""
        return self.matrix[: self.n_lagged, -1].reshape(self.n_lags, self.dim)

    @property
    def covariates(self) -> Floats:
        """(n_covariates, n_covariates) Z'Z."""
        return self.matrix[self.n_lagged : -1, self.n_lagged : -1]

    @property
    def covariate_target(self) -> Floats:
        """(n_covariates,) Z'y."""
        return self.matrix[self.n_lagged : -1, -1]

    @property
    def square(self) -> float:
        """Sum of y^2."""
        return float(self.matrix[-1, -1])

    def __add__(self, other: "RowMoments") -> "RowMoments":
        _check_alike(self, other)
        return replace(self, matrix=self.matrix + other.matrix, n_rows=self.n_rows + other.n_rows)

    def scaled(self, contexts: Floats, rewards: float) -> "RowMoments":
        """Return the moments of contexts times `contexts`, (dim,), and of y times `rewards`."""
        factors = _factors(self, contexts, rewards)
        return replace(self, matrix=self.matrix * factors * factors[:, None])

    def residual_products(self, coefficients: Floats) -> Floats:
        """Return E'E of the residuals E = y - X phi - Z b of several predictions.

        Parameters
        ----------
        coefficients : (n_predictions, p - 1) array
            phi (lag by lag) and b of each.

        Returns
        -------
        (n_predictions, n_predictions) array
        """
        ends = np.concatenate([-coefficients, np.ones((len(coefficients), 1))], axis=1)
        return np.asarray(ends @ self.matrix @ ends.T)


@dataclass(frozen=True)
class Moments:
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

    sums: Floats
    n_rows: int
    n_pairs: int
    n_lags: int
    dim: int
    groups: tuple[int, ...] = ()

    @classmethod
    def zero(cls, n_lags: int, dim: int, groups: tuple[int, ...] = ()) -> Self:
        """Return the moments of no rows."""
        p = n_lags * dim + sum(groups) + 2
        return cls(np.zeros((3, p, p)), 0, 0, n_lags, dim, groups)

    @property
    def n_covariates(self) -> int:
        """Number of covariates, the constant included."""
        return int(self.sums.shape[1]) - self.n_lags * self.dim - 1

    @property
    def rows(self) -> RowMoments:
        """The moments of the rows alone."""
        return RowMoments(self.sums[0], self.n_rows, self.n_lags, self.dim, self.groups)

    def __add__(self, other: "Moments") -> "Moments":
        _check_alike(self, other)
        return replace(
            self,
            sums=self.sums + other.sums,
            n_rows=self.n_rows + other.n_rows,
            n_pairs=self.n_pairs + other.n_pairs,
        )

    def __sub__(self, other: "Moments") -> "Moments":
        """Return the moments without some rows that are in them, and without their pairs."""
        _check_alike(self, other)
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

    def scaled(self, contexts: Floats, rewards: float) -> "Moments":
        """Return the moments of contexts times `contexts`, (dim,), and of y times `rewards`."""
        factors = _factors(self, contexts, rewards)
        return replace(self, sums=self.sums * factors * factors[:, None])

    def widened(self, n_lags: int) -> "Moments":
        """Return the moments of the same rows with more lags, in which they have no contexts."""
        if n_lags == self.n_lags:
            return self
        old, more = self.n_lags * self.dim, n_lags * self.dim
        p = self.sums.shape[1]
        at = np.append(np.arange(old), np.arange(more, more + p - old))
        sums = np.zeros((3, p + more - old, p + more - old))
        sums[:, at[:, None], at] = self.sums
        return replace(self, sums=sums, n_lags=n_lags)

    def to_bytes(self) -> bytes:
        """Return a header and the upper triangles of the sums, as little-endian float64."""
        head = (self.n_lags, self.dim, self.n_covariates, self.n_rows, self.n_pairs)
        upper = np.triu_indices(self.sums.shape[1])
        triangles = np.ascontiguousarray(self.sums[:, *upper], dtype="<f8")
        return _HEAD.pack(_MAGIC, _VERSION, *head) + triangles.tobytes()

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
        if len(data) < _HEAD.size or data[:4] != _MAGIC:
            raise ValueError("these bytes are no moments")
        _, version, n_lags, dim, n_covariates, n_rows, n_pairs = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise ValueError(f"moments of version {version} cannot be read, only of {_VERSION}")
        if min(n_lags, dim) < 1 or min(n_covariates, n_rows, n_pairs) < 0:
            raise ValueError("moments of an impossible size")
        if n_covariates != 1 + sum(groups):
            raise ValueError(f"moments of {n_covariates} covariates, not of {1 + sum(groups)}")
        p = n_lags * dim + n_covariates + 1
        n = p * (p + 1) // 2
        if len(data) != _HEAD.size + 3 * 8 * n:
            raise ValueError(f"moments of {len(data)} bytes: their header says otherwise")
        triangles = np.frombuffer(data, "<f8", offset=_HEAD.size).reshape(3, n)
        upper = np.triu_indices(p)
        sums = np.empty((3, p, p))
        sums[:, *upper] = triangles
        sums.transpose(0, 2, 1)[:, *upper] = triangles
        return cls(sums, n_rows, n_pairs, n_lags, dim, groups)


def _check_alike(one: RowMoments | Moments, other: RowMoments | Moments) -> None:
    ours = (one.n_lags, one.dim, one.n_covariates, one.groups)
    if ours != (other.n_lags, other.dim, other.n_covariates, other.groups):
        raise ValueError("moments of other lags, features or covariates cannot be added")


def _factors(moments: RowMoments | Moments, contexts: Floats, rewards: float) -> Floats:
    """Return the factor of each column, (p,)."""
    lagged = np.tile(contexts, moments.n_lags)
    return np.concatenate([lagged, np.ones(moments.n_covariates), [rewards]])
