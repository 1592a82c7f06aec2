"""Rounds as `LaggedGroupLasso` gets them, the rows they make, and their features' spread."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints

FLAT = 1e-12  # of a feature's largest value: a spread this small is rounding


class Rows(NamedTuple):
    """The rows of a fit: lagged design, values, unlagged columns, scales of the features.

    Rows are rounds whose reward and lags are known.
    """

    design: LaggedDesign
    y: Floats
    controls: Floats
    scale: Floats


class Rounds(NamedTuple):
    """Consecutive rounds of some trajectories.

    Attributes
    ----------
    lagged : (n_rounds, n_lagged) array
        Features that enter with lags.
    controls : (n_rounds, n_controls) array
        Those that enter without.
    y : (n_rounds,) array
        Rewards, NaN where missing.
    lengths : (n_trajectories,) array
        Rounds of each trajectory.
    """

    lagged: Floats
    controls: Floats
    y: Floats
    lengths: Ints

    def after(self, past: Floats) -> "Rounds":
        """Return the same after earlier rounds, (n_past, n_lagged), which have no reward."""
        n = len(past)
        lengths = self.lengths.copy()
        lengths[0] += n
        return Rounds(
            np.concatenate([past, self.lagged]),
            np.concatenate([np.zeros((n, self.controls.shape[1])), self.controls]),
            np.concatenate([np.full(n, np.nan), self.y]),
            lengths,
        )

    def rows(self, n_lags: int, zero_start: bool) -> Rows:
        """Lay out the rows; `n_lags` and `zero_start` are those of `LaggedGroupLasso`."""
        design = LaggedDesign(np.split(self.lagged, np.cumsum(self.lengths)[:-1]), n_lags)
        measured = ~np.isnan(self.y)
        if not zero_start:
            measured &= np.concatenate([np.arange(n) for n in self.lengths]) >= n_lags - 1
        used = np.flatnonzero(measured)
        scale = np.ones(self.lagged.shape[1])
        return Rows(design.select(used), self.y[used], self.controls[used], scale)


@dataclass(frozen=True)
class Spread:
    """Mean and scatter of features.

    Attributes
    ----------
    n : int
        Number of rounds.
    mean : (dim,) array
    scatter : (dim, dim) array
        Sum of the products of deviations from the mean.
    largest : (dim,) array
        Of the absolute values.
    """

    n: int
    mean: Floats
    scatter: Floats
    largest: Floats

    @classmethod
    def of(cls, lagged: Floats) -> "Spread":
        """Return that of the rows of `lagged`, (n, dim)."""
        mean = lagged.mean(axis=0)
        away = lagged - mean
        return cls(len(lagged), mean, away.T @ away, np.abs(lagged).max(axis=0))

    def __add__(self, other: "Spread") -> "Spread":
        n, apart = self.n + other.n, other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter = scatter + np.outer(apart, apart) * (self.n * other.n / n)
        mean = self.mean + apart * (other.n / n)
        return Spread(n, mean, scatter, np.maximum(self.largest, other.largest))

    @property
    def covariance(self) -> Floats:
        """(dim, dim), divided by the number of rounds."""
        return self.scatter / self.n

    def scale(self, fit_intercept: bool) -> Floats:
        """Return what `standardize` divides each feature by, (dim,)."""
        square = np.diag(self.covariance) + (0.0 if fit_intercept else self.mean**2)
        spread = np.sqrt(square)
        return np.where(spread <= FLAT * self.largest, 1.0, spread)


def checked_lengths(lengths: Any, n_rows: int) -> Ints:
    """Check trajectory lengths; None is one trajectory."""
    if lengths is None:
        return np.array([n_rows])
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise ValueError("lengths must be whole numbers, one for each trajectory")
    if lengths.sum() != n_rows:
        raise ValueError("lengths must sum to the number of rows")
    return np.asarray(lengths, dtype=np.int64)


def missing_of(y: Any) -> tuple[Any, np.ndarray | None]:
    """Return y with zeros where it is NaN, and where that is; None where nothing is missing."""
    values = np.asarray(y)
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return y, None
    missing = np.isnan(values)
    return np.where(missing, 0.0, values), missing.ravel()
