"""Sums of the squares and products of a regression's rows [X, Z, y] (docs/model.md 10)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from lhb_engine.history import Floats


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
        check_alike(self, other)
        return replace(self, matrix=self.matrix + other.matrix, n_rows=self.n_rows + other.n_rows)

    def scaled(self, contexts: Floats, rewards: float) -> "RowMoments":
        """Return the moments of contexts times `contexts`, (dim,), and of y times `rewards`."""
        factors = _factors(self, contexts, rewards)
        return replace(self, matrix=self.matrix * factors * factors[:, None])

    def mixed(self, share: Floats) -> "RowMoments":
        """Return the moments of contexts with the last feature's `share`, (dim - 1,), added.

        Feature j of each context becomes x_j + share_j x_dim.
        """
        out = self.matrix
        for _ in range(2):  # the columns, and then the rows
            out = out.T.copy()
            contexts = out[:, : self.n_lagged].reshape(len(out), self.n_lags, self.dim)
            contexts[..., :-1] += contexts[..., -1:] * share
            out[:, : self.n_lagged] = contexts.reshape(len(out), -1)
        return replace(self, matrix=out)

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
class SquareSums(ABC):
    """Sums of squares and products of rows [X, Z, y], which add up.

    Attributes
    ----------
    sums : (k, p, p) array
        Symmetric matrices. The first is R'R of the rows, as in `RowMoments`.
    n_rows : int
    n_lags, dim : int
    groups : tuple of int
        As in `RowMoments`.
    """

    sums: Floats
    n_rows: int
    n_lags: int
    dim: int
    groups: tuple[int, ...] = ()

    @property
    def n_covariates(self) -> int:
        """Number of covariates, the constant included."""
        return int(self.sums.shape[1]) - self.n_lags * self.dim - 1

    @property
    def are_finite(self) -> bool:
        """Whether all of them are numbers."""
        return bool(np.isfinite(self.sums).all())

    @property
    def rows(self) -> RowMoments:
        """The moments of the rows alone."""
        return RowMoments(self.sums[0], self.n_rows, self.n_lags, self.dim, self.groups)

    @abstractmethod
    def __add__(self, other: Self) -> Self: ...

    @abstractmethod
    def __sub__(self, other: Self) -> Self:
        """Return the sums without some rows that are in them."""

    @abstractmethod
    def whitened(self, rho: float) -> RowMoments:
        """Return the moments of rows with independent noise, where `rho` is that of theirs."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return a header with a version, and the sums."""

    def scaled(self, contexts: Floats, rewards: float) -> Self:
        """Return the sums of contexts times `contexts`, (dim,), and of y times `rewards`."""
        factors = _factors(self, contexts, rewards)
        return replace(self, sums=self.sums * factors * factors[:, None])

    def widened(self, n_lags: int) -> Self:
        """Return the sums of the same rows with more lags, in which they have no contexts."""
        if n_lags == self.n_lags:
            return self
        old, more = self.n_lags * self.dim, n_lags * self.dim
        p = self.sums.shape[1]
        at = np.append(np.arange(old), np.arange(more, more + p - old))
        sums = np.zeros((len(self.sums), p + more - old, p + more - old))
        sums[:, at[:, None], at] = self.sums
        return replace(self, sums=sums, n_lags=n_lags)


def check_alike(one: RowMoments | SquareSums, other: RowMoments | SquareSums) -> None:
    """Raise a ValueError if moments have other columns than others."""
    ours = (one.n_lags, one.dim, one.n_covariates, one.groups)
    if ours != (other.n_lags, other.dim, other.n_covariates, other.groups):
        raise ValueError("moments of other lags, features or covariates cannot be added")


def _factors(moments: RowMoments | SquareSums, contexts: Floats, rewards: float) -> Floats:
    """Return the factor of each column, (p,)."""
    lagged = np.tile(contexts, moments.n_lags)
    return np.concatenate([lagged, np.ones(moments.n_covariates), [rewards]])
