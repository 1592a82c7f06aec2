"""Moments: the sums of squares and products of a regression's rows (docs/model.md 10).

Moments are all that a Gaussian likelihood knows of the data. Moments add up over rows, trajectories
and machines, and their size does not depend on the number of rows.
"""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np

from lhb_engine.design import coloured_noise
from lhb_engine.history import Flags, Floats, Ints

TINY = float(np.finfo(float).tiny)
N_SHAPE = 3  # lags, dim, covariates: the numbers that every header begins with


@dataclass(frozen=True)
class Header:
    """The header of one kind of sums: a sign of four bytes, a version, and whole numbers.

    `kind` is what messages call the sums; `n_counts` numbers follow the lags, dim and covariates.
    """

    sign: bytes
    version: int
    kind: str
    n_counts: int

    @property
    def _layout(self) -> struct.Struct:
        return struct.Struct(f"<4sHxx{N_SHAPE + self.n_counts}q")

    def to_bytes(self, n_lags: int, dim: int, n_covariates: int, *counts: int) -> bytes:
        """Return the header."""
        return self._layout.pack(self.sign, self.version, n_lags, dim, n_covariates, *counts)

    def read(self, data: bytes, groups: tuple[int, ...]) -> tuple[int, int, list[int], bytes]:
        """Return n_lags, dim, the counts, and the bytes that follow; the bytes leave groups out.

        Raises ValueError: the bytes are no such sums, of another version, of an impossible size or
        of other covariates.
        """
        layout = self._layout
        if len(data) < layout.size or data[:4] != self.sign:
            raise ValueError(f"these bytes are no {self.kind}")
        _, version, n_lags, dim, n_covariates, *counts = layout.unpack_from(data)
        if version != self.version:
            only = f"only of {self.version}"
            raise ValueError(f"{self.kind} of version {version} cannot be read, {only}")
        if min(n_lags, dim) < 1 or min(n_covariates, *counts) < 0:
            raise ValueError(f"{self.kind} of an impossible size")
        if n_covariates != 1 + sum(groups):
            raise ValueError(f"{self.kind} of {n_covariates} covariates, not of {1 + sum(groups)}")
        return n_lags, dim, counts, data[layout.size :]


def to_triangles(sums: Floats) -> bytes:
    """Return the upper triangles of symmetric matrices, (k, p, p), as little-endian float64."""
    upper = np.triu_indices(sums.shape[1])
    return np.ascontiguousarray(sums[:, *upper], dtype="<f8").tobytes()


def from_triangles(data: bytes, k: int, p: int) -> Floats:
    """Return the k matrices that `to_triangles` wrote, (k, p, p); ValueError by another length."""
    n = p * (p + 1) // 2
    if len(data) != k * 8 * n:
        raise ValueError(f"moments of {len(data)} bytes: their header says otherwise")
    triangles = np.frombuffer(data, "<f8").reshape(k, n)
    upper, sums = np.triu_indices(p), np.empty((k, p, p))
    sums[:, *upper] = triangles
    sums.transpose(0, 2, 1)[:, *upper] = triangles
    return sums


@dataclass(frozen=True)
class RowMoments:
    """R'R of the rows R = [X, Z, y], scaled as in docs/model.md (1.5): docs/model.md (10.1).

    `matrix` is (p, p), p = n_lags * dim + n_covariates + 1: the lagged contexts (lag by lag), the
    covariates, and y. `groups` are the numbers of columns of the groups of covariates, besides the
    constant.
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

    @property
    def context_sums(self) -> tuple[Floats, Floats, float]:
        """As those of `AlignedRounds`: of squares and of c x, (dim,), and of c^2."""
        squares = np.diagonal(self.gram)[: self.dim].copy()
        return squares, self.cross[0, :, 0], float(self.covariates[0, 0])

    @property
    def covariance(self) -> Floats:
        """The covariance of the contexts at lag 0, (dim, dim)."""
        sums, gram = self.cross[0, :, 0], self.gram[: self.dim, : self.dim]
        return np.asarray((gram - np.outer(sums, sums) / self.covariates[0, 0]) / self.n_rows)

    def divided(self, contexts: Floats, rewards: float) -> "RowMoments":
        """Return the moments of contexts over `contexts`, (dim,), and of y over `rewards`."""
        factors = _factors(self, 1.0 / contexts, 1.0 / rewards)
        return replace(self, matrix=self.matrix * factors * factors[:, None])

    def without(self, covariates: Ints) -> "RowMoments":
        """Return the moments without some covariates, by number after the constant."""
        kept = np.delete(np.arange(len(self.matrix)), self.n_lagged + 1 + covariates)
        return replace(self, matrix=self.matrix[np.ix_(kept, kept)])

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
        """Return E'E of the residuals E = y - X phi - Z b of predictions, (n_predictions,) * 2.

        `coefficients` (n_predictions, p - 1) are phi (lag by lag) and b of each.
        """
        ends = np.concatenate([-coefficients, np.ones((len(coefficients), 1))], axis=1)
        return np.asarray(ends @ self.matrix @ ends.T)


class Statistics(ABC):
    """All that a Gaussian likelihood knows of a fit's rows, whose noise may be correlated.

    Errors are those of predictions by theta, lag weights and effects; lag weights beyond `n_lags`
    are ignored, and may be profiles as in `residuals`.
    """

    n_rows: int
    n_lags: int
    # whether the correlation is that of levels, which two predictions are given alike
    has_levels: ClassVar[bool] = False

    @property
    @abstractmethod
    def rows(self) -> RowMoments:
        """The moments of the rows alone."""

    @property
    def seen(self) -> Flags:
        """Whether a feature is other than 0 in some context that the rows see, (dim,)."""
        return np.asarray(np.diagonal(self.rows.gram).reshape(-1, self.rows.dim).any(axis=0))

    @property
    def n_covariates(self) -> int:
        """Number of covariates, the constant included."""
        return self.rows.n_covariates

    @property
    def n_alone(self) -> int:
        """Number of rows that follow no other."""
        return self.n_rows

    @property
    def statistics(self) -> "Statistics":
        """These, as of any data of a fit."""
        return self

    def summed(self) -> "Statistics":
        """Return these, as of any data of a fit."""
        return self

    @abstractmethod
    def whitened(self, rho: float, other: float | None = None) -> RowMoments:
        """Return the moments of rows with independent noise, where `rho` is that of theirs.

        With `other`, products of the rows under two values of rho, by docs/model.md (10.7).
        """

    @abstractmethod
    def correlation(self, by: Floats) -> float:
        """Return the rho of the errors that `coefficients` leave."""

    def spread(self, by: Floats) -> "Spread | None":
        """Return how far levels differ in what `coefficients` leave; None where there are none."""
        return None

    def coefficients(self, theta: Floats, weights: Floats, effects: Floats) -> Floats:
        """Return the coefficients of [X, Z] in a prediction, (n_lags * dim + n_covariates,)."""
        by = coefficients(theta, weights, effects, self.n_lags)
        return np.append(by, np.zeros(self.n_covariates - len(effects)))

    def autocorrelation(self, theta: Floats, weights: Floats, effects: Floats) -> float:
        """Return rho of (7.15), or with levels of (7.28), from the errors."""
        return self.correlation(self.coefficients(theta, weights, effects))

    def square(self, theta: Floats, weights: Floats, effects: Floats, rho: float) -> float:
        """Return the sum of the squares of u_t (7.15)."""
        by = self.coefficients(theta, weights, effects)
        return max(float(self.whitened(rho).residual_products(by[None])[0, 0]), TINY)


class Spread(NamedTuple):
    """How far levels differ: their standard deviation, and its 95% interval.

    `tau` is the deviation over that of the noise.
    """

    tau: float
    value: float
    low: float
    high: float


def coefficients(theta: Floats, weights: Floats, effects: Floats, n_lags: int) -> Floats:
    """Return the coefficients of [X, Z] in a prediction, as `Statistics.coefficients`."""
    profiles = weights[:n_lags] if weights.ndim == 2 else np.outer(weights[:n_lags], theta)
    return np.append(np.pad(profiles, ((0, n_lags - len(profiles)), (0, 0))), effects)


@dataclass(frozen=True)
class SquareSums(Statistics):
    """Sums (k, p, p) of squares and products of rows [X, Z, y], which add up.

    The matrices are symmetric. The first is R'R of the rows, as in `RowMoments`.
    """

    adds_up: ClassVar[tuple[str, ...]]  # the members that do
    sums: Floats
    n_rows: int
    n_lags: int
    dim: int
    groups: tuple[int, ...] = ()

    @property
    def are_finite(self) -> bool:
        """Whether all of them are numbers."""
        return bool(np.isfinite(self.sums).all())

    @property
    def rows(self) -> RowMoments:
        """The moments of the rows alone."""
        return RowMoments(self.sums[0], self.n_rows, self.n_lags, self.dim, self.groups)

    def __add__(self, other: Self) -> Self:
        """Return the sums of both, at the lags that either sees; ValueError for other columns."""
        return self._with(other, 1)

    def __sub__(self, other: Self) -> Self:
        """Return the sums without some rows that are in them, given the others; see `+`."""
        return self._with(other, -1)

    def _with(self, other: Self, sign: int) -> Self:
        """Add the sums of other rows, or take them away."""
        n_lags = max(self.n_lags, other.n_lags)
        one, other = self.widened(n_lags), other.widened(n_lags)
        check_alike(one, other)
        added = {name: getattr(one, name) + sign * getattr(other, name) for name in self.adds_up}
        return replace(one, **added)

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Return a header with a version, and the sums."""

    def divided(self, contexts: Floats, rewards: float) -> Self:
        """Return the sums of contexts over `contexts`, (dim,), and of y over `rewards`."""
        factors = _factors(self, 1.0 / contexts, 1.0 / rewards)
        return replace(self, sums=self.sums * factors * factors[:, None])

    def silencing(self, covariates: Ints) -> Self:
        """Return the sums of rows with some covariates at 0, by number after the constant."""
        at, sums = self.n_lags * self.dim + 1 + covariates, self.sums.copy()
        sums[:, at], sums[:, :, at] = 0.0, 0.0
        return replace(self, sums=sums)

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


HEADER = Header(b"LHBM", 1, "moments", n_counts=2)  # n_rows, n_pairs


@dataclass(frozen=True)
class Moments(SquareSums):
    """Moments of rows and of pairs of consecutive rows of a trajectory: docs/model.md (10.2).

    A pair is a row and the row directly before it, of the same span length. Each pair is counted
    once, when the later of its two measurements is. `sums` (3, p, p) are those of r r' over rows;
    of r_t r_{t-1}' + r_{t-1} r_t' over pairs; and of r_t r_t' + r_{t-1} r_{t-1}' over pairs. A row
    r is [X, Z, y] as in `RowMoments`.
    """

    adds_up: ClassVar[tuple[str, ...]] = ("sums", "n_rows", "n_pairs")
    n_pairs: int = field(kw_only=True)

    @classmethod
    def zero(cls, n_lags: int, dim: int, groups: tuple[int, ...] = ()) -> Self:
        """Return the moments of no rows."""
        p = n_lags * dim + sum(groups) + 2
        return cls(np.zeros((3, p, p)), 0, n_lags, dim, groups, n_pairs=0)

    def whitened(self, rho: float, other: float | None = None) -> RowMoments:
        """Return the moments of the quasi-differenced rows docs/model.md (7.16), by (10.3)."""
        mixed = rho if other is None else other
        if rho == mixed == 0.0:
            return self.rows
        rows, pairs, ends = self.sums
        alone = np.sqrt((1.0 - rho**2) * (1.0 - mixed**2)) if rho != mixed else 1.0 - rho**2
        matrix = alone * rows + (1.0 + rho * mixed - alone) / 2 * ends - (rho + mixed) / 2 * pairs
        return RowMoments(matrix, self.n_rows, self.n_lags, self.dim, self.groups)

    @property
    def n_alone(self) -> int:
        """Number of rows that follow no other."""
        return self.n_rows - self.n_pairs

    def correlation(self, by: Floats) -> float:
        """Return what `coloured_noise.autocorrelation` does."""
        if self.n_pairs < coloured_noise.FEWEST:
            return 0.0
        error = np.append(-by, 1.0)
        rows, pairs, ends = self.sums
        one = self.n_lags * self.dim
        error[one] -= float(rows[one] @ error) / float(rows[one, one])  # about their mean
        product, size = float(error @ pairs @ error) / 2, float(error @ ends @ error) / 2
        return coloured_noise.credible(product, size, self.n_pairs)

    def to_bytes(self) -> bytes:
        """Return a header and the upper triangles of the sums, as little-endian float64."""
        shape = (self.n_lags, self.dim, self.n_covariates)
        return HEADER.to_bytes(*shape, self.n_rows, self.n_pairs) + to_triangles(self.sums)

    @classmethod
    def from_bytes(cls, data: bytes, groups: tuple[int, ...] = ()) -> Self:
        """Return the moments that `to_bytes` wrote, equal to the bit; the bytes leave groups out.

        Raises ValueError: the bytes are no moments, of another version, of other covariates, or not
        of the length that they say.
        """
        n_lags, dim, (n_rows, n_pairs), rest = HEADER.read(data, groups)
        sums = from_triangles(rest, 3, n_lags * dim + sum(groups) + 2)
        return cls(sums, n_rows, n_lags, dim, groups, n_pairs=n_pairs)
