"""Rounds as `LaggedGroupLasso` gets them, their rows, and the sums that `partial_fit` keeps."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpstrf

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.design.moment_sums import design_moments
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.least_squares import LARGEST

FLAT = 1e-12  # of a feature's largest value: a spread this small is rounding
LEAST_SQUARE = 1e-12  # of a column's: sums tell no smaller square from 0


class Rows(NamedTuple):
    """The rows of a fit: lagged design, values, unlagged columns, scales of the features.

    Rows are rounds whose reward and lags are known, or fewer that stand for `n` of these.
    """

    design: LaggedDesign
    y: Floats
    controls: Floats
    scale: Floats
    n: int


class Rounds(NamedTuple):
    """Consecutive rounds of some trajectories, `lengths` (n_trajectories,) rounds of each.

    `lagged` (n_rounds, n_lagged) are features that enter with lags, `controls` (n_rounds,
    n_controls) those that enter without, `y` (n_rounds,) rewards, NaN where missing.
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
        return Rows(design.select(used), self.y[used], self.controls[used], scale, len(used))


@dataclass(frozen=True)
class Spread:
    """Mean and scatter of the features of n rounds, and the largest of their absolute values.

    `scatter` (dim, dim) is the sum of the products of deviations from the mean.
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


@dataclass(frozen=True)
class ChunkSums:
    """Moments of rows (docs/model.md (10.1)), and what the next rounds need of those before them.

    Features and rewards are counted from an origin, about their mean: squares of numbers far from 0
    would leave little of their differences. The intercept takes it up, so there is none without.

    Covariates of `moments` are the constant and the controls. `spread` is of the lagged features as
    given; `past` are at most n_lags - 1 last rounds of the last trajectory, from the origin.
    """

    moments: RowMoments
    spread: Spread
    past: Floats
    lagged_origin: Floats
    control_origin: Floats
    reward_origin: float
    zero_start: bool
    fit_intercept: bool

    @classmethod
    def begun(
        cls, rounds: Rounds, n_lags: int, zero_start: bool, fit_intercept: bool
    ) -> "ChunkSums":
        """Return the sums of no rounds, with an origin for those to come."""
        dim, n_controls = rounds.lagged.shape[1], rounds.controls.shape[1]
        p = n_lags * dim + n_controls + 2
        rewards = rounds.y[~np.isnan(rounds.y)]
        none = np.zeros(dim)
        return cls(
            RowMoments(np.zeros((p, p)), 0, n_lags, dim, (1,) * n_controls),
            Spread(0, none, np.zeros((dim, dim)), none),
            np.zeros((0, dim)),
            # a round before the start is 0 as it is given, not at the origin
            rounds.lagged.mean(axis=0) if fit_intercept and not zero_start else none,
            rounds.controls.mean(axis=0) if fit_intercept else np.zeros(n_controls),
            float(rewards.mean()) if fit_intercept and len(rewards) else 0.0,
            zero_start,
            fit_intercept,
        )

    def with_rounds(self, rounds: Rounds, goes_on: bool) -> "ChunkSums":
        """Add rounds; with `goes_on` the first are those after the last ones of the sums.

        Raises ValueError for numbers whose products are beyond a float.
        """
        n_lags, spread = self.moments.n_lags, self.spread + Spread.of(rounds.lagged)
        rewards = rounds.y[~np.isnan(rounds.y)]
        for values in (spread.largest, rounds.controls, rewards):
            size = float(np.abs(values).max(initial=0.0))
            if size > LARGEST:
                raise ValueError(f"X and y must not be of size {size:.1e}: give other units")
        moved = Rounds(
            rounds.lagged - self.lagged_origin,
            rounds.controls - self.control_origin,
            rounds.y - self.reward_origin,
            rounds.lengths,
        )
        if goes_on:
            moved = moved.after(self.past)
        rows, moments = moved.rows(n_lags, self.zero_start), self.moments
        if len(rows.y):
            beside = np.column_stack([rows.design.intercept, rows.controls])
            sums = design_moments(rows.design, rows.y, beside)
            moments = moments + replace(sums, groups=moments.groups)
        n_open = int(moved.lengths[-1])
        past = moved.lagged[len(moved.lagged) - min(n_lags - 1, n_open) :].copy()
        return replace(self, moments=moments, spread=spread, past=past)

    def rows(self, scale: Floats) -> Rows:
        """Return rows with the same mean products, each feature divided by its `scale`.

        There are as many rows as columns, or as the columns' rank. The rows are a Cholesky factor
        of the moments, turned so that the constant is 1 in each.
        """
        moments = self.moments.divided(scale, 1.0)
        size = np.sqrt(np.diag(moments.matrix))
        size[size == 0.0] = 1.0
        upper, order, n, _ = dpstrf(moments.matrix / np.outer(size, size), tol=LEAST_SQUARE)
        rows = np.empty((n, len(size)))
        rows[:, order - 1] = np.triu(upper)[:n]
        rows *= size * np.sqrt(n / moments.n_rows)
        turn = rows[:, moments.n_lagged] - 1.0
        if turn.any():
            rows -= np.outer(turn, turn @ rows) * (2.0 / (turn @ turn))
        lagged, controls = rows[:, : moments.n_lagged], rows[:, moments.n_lagged + 1 : -1]
        # each row is a trajectory of as many rounds as lags, of which the last is measured
        contexts = lagged.reshape(n, moments.n_lags, moments.dim)[:, ::-1]
        design = LaggedDesign([*contexts], moments.n_lags)
        design = design.select(np.arange(1, n + 1) * moments.n_lags - 1)
        return Rows(design, rows[:, -1], controls, scale, moments.n_rows)

    def intercept(self, intercept: float, coef: Floats, controls: Floats) -> float:
        """Return the intercept that belongs to features and rewards as given."""
        taken = float(coef.sum(axis=0) @ self.lagged_origin + controls @ self.control_origin)
        return intercept + self.reward_origin - taken
