"""The least-squares refit of the rank-one model on some lags, and its linearisation.

Equation numbers are those of docs/model.md.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, fdtrc

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.levels import without_levels
from lhb_engine.design.moments import RowMoments
from lhb_engine.estimate import lagged_sums
from lhb_engine.history import Floats, Ints

CONDITION = 1e10  # of the scaled normal equations
DRIFT_ROWS, DRIFT_CHANCE = 25, 0.01  # of (7.19)
TURN_PARTS, TURN_CHANCE = 4, 1e-3  # of (7.19b)
STEPS = 4
SHIFTS = 2  # rounds over which errors may be correlated in the robust covariance
LEVERAGE = 0.95  # a frequency of more counts as one of so much
BLOCK = 32  # columns that are transformed at once
PLACES = 2048  # that are indexed at once


@dataclass(frozen=True)
class RankOneRefit:
    """The least-squares fit of theta, some lag weights and covariates, and its linearisation.

    `effects` (q,) are the baseline and the effects of the covariates; `basis` (dim, n_turns) is an
    orthonormal basis of theta's complement, and the axis of the score before round 1, if any.
    `jacobian` (n, m + n_turns + q) is J of (5.9), in the order of the rounds, or its latest rows,
    `errors` (n,) the residuals of these; `inverse` is (J'J)^-1 and `variance` s^2 of (5.9), from
    `n_rows`.
    """

    lags: Ints
    weights: Floats
    effects: Floats
    basis: Floats
    jacobian: Floats
    inverse: Floats
    errors: Floats
    variance: float
    n_rows: int

    @classmethod
    def of(
        cls,
        rows: AlignedRounds,
        theta: Floats,
        w: Floats,
        lags: Ints,
        past: RowMoments | None = None,
        rho: float = 0.0,
        n_features: int | None = None,
    ) -> "RankOneRefit | None":
        """Take Gauss-Newton steps from (theta, w); None where J is singular.

        With `past`, on all the rows whose moments they are. Where trajectories have levels, these
        are taken out of `past`, and are here with the intraclass correlation `rho`. Theta has
        length 1 in its first `n_features` numbers, by default all; one after them is free.
        """
        order = np.flatnonzero(rows.number > 0)
        order = order[np.argsort(rows.number[order], kind="stable")]
        x, m, d = rows.contexts, len(lags), n_features or len(theta)
        columns = x if past is None else np.diag(past.gram).reshape(past.n_lags, past.dim)
        has_past = d < len(theta) and bool(columns[:, d].any())
        beside = rows.beside[order]
        weights, effects, every = w[lags], np.zeros(beside.shape[1]), np.zeros(len(w))
        for step in range(STEPS):
            basis = _basis(theta, d, has_past)
            if past is None or step == STEPS - 1:
                every[lags] = weights
                filtered = lagged_sums(x, every)
                others = np.concatenate([(filtered @ basis)[order], beside], axis=1)
                jacobian = _with_lagged(x @ theta, order, lags, others)
                errors = rows.y[order] - jacobian[:, :m] @ weights - beside @ effects
                if rows.levels:
                    both = np.column_stack([jacobian, errors])
                    both = without_levels(both, rows.level[order], rows.intercept[order], rho)
                    jacobian, errors = both[:, :-1], both[:, -1]
            if past is None:
                gram, right = jacobian.T @ jacobian, jacobian.T @ errors
                square, n_rows = float(errors @ errors), len(errors)
            else:
                gram, right, square = _products(past, theta, weights, lags, basis, effects)
                n_rows = past.n_rows
            size = np.sqrt(np.diag(gram))
            if not (size > 0).all():
                return None
            values, axes = np.linalg.eigh(gram / np.outer(size, size))
            if values[0] * CONDITION < values[-1]:
                return None
            inverse = (axes / values) @ axes.T / np.outer(size, size)
            if step == STEPS - 1:
                break
            change = inverse @ right
            n_turns = basis.shape[1]
            theta = theta + basis @ change[m : m + n_turns]
            length = float(np.linalg.norm(theta[:d]))
            theta, weights = theta / length, (weights + change[:m]) * length
            effects += change[m + n_turns :]
        variance = square / max(n_rows - jacobian.shape[1], 1)
        return cls(lags, weights, effects, basis, jacobian, inverse, errors, variance, n_rows)

    def plain(self, of: Ints) -> Floats:
        """Return the covariance (5.9) of some of the unknowns, (len(of), len(of))."""
        return np.asarray(self.variance * self.inverse[np.ix_(of, of)])

    def robust(self, of: Ints) -> Floats:
        """Return a covariance that allows errors to be correlated over two rounds (Newey-West).

        It is that of some of the unknowns, (len(of), len(of)).
        """
        moved = (self.jacobian @ self.inverse[:, of]) * self.errors[:, None]
        out = moved.T @ moved
        for shift in range(1, SHIFTS + 1):
            cross = moved[shift:].T @ moved[:-shift]
            out += (1.0 - shift / (SHIFTS + 1)) * (cross + cross.T)
        n, p = self.n_rows, self.jacobian.shape[1]
        return np.asarray(out * (n / len(self.errors)) * (n / (n - p)))

    def by_frequency(self, of: Ints) -> Floats:
        """Return a covariance that allows errors of any spectrum, by (7.25).

        It is that of some of the unknowns, (len(of), len(of)).
        """
        n, p = self.jacobian.shape
        half, leverage = np.linalg.cholesky(self.inverse), np.zeros(n // 2 + 1)
        for first in range(0, p, BLOCK):
            columns = np.fft.rfft(self.jacobian @ half[:, first : first + BLOCK], axis=0)
            leverage += np.sum(np.abs(columns) ** 2, axis=1) / n
        both = np.full(n // 2 + 1, 2.0)  # a frequency and its negative
        both[0] = 1.0
        if n % 2 == 0:
            both[-1] = 1.0
        size = np.abs(np.fft.rfft(self.errors)) / (1.0 - np.minimum(leverage, LEVERAGE)) / n
        moved = np.fft.rfft(self.jacobian @ self.inverse[:, of], axis=0)
        moved *= (np.sqrt(both) * size)[:, None]
        out = moved.real.T @ moved.real + moved.imag.T @ moved.imag
        return np.asarray(out * (self.n_rows / n))

    def drifts(self) -> bool:
        """Whether means of the errors over 25 rows vary more than noise would, by (7.19)."""
        n_parts = max(len(self.errors) // DRIFT_ROWS, 4)
        size, n_longer = divmod(len(self.errors), n_parts)
        longer, others = np.split(self.errors, [n_longer * (size + 1)])
        squares = [
            total**2 / length
            for part, length in ((longer, size + 1), (others, size))
            for total in part.reshape(-1, length).sum(axis=1).tolist()
        ]
        between = sum(squares) / (n_parts - 1)
        free = len(self.errors) - self.jacobian.shape[1]
        return bool(fdtrc(n_parts - 1, free, between / max(self.variance, 1e-300)) < DRIFT_CHANCE)

    def turns(self, horizon: int) -> bool:
        """Whether earlier rows and later ones speak for different directions, by (7.19b).

        Asked where the rows of all of the fit are here. The first `horizon` rows may see what was
        chosen before round 1.
        """
        n, first, n_turns = len(self.errors), len(self.lags), self.basis.shape[1]
        if n < self.n_rows or self.variance <= 0.0:
            return False
        of = slice(first, first + n_turns + 1)  # theta and the baseline
        parts = {horizon, *(n * part // TURN_PARTS for part in range(1, TURN_PARTS))}
        limit = float(chdtri(n_turns + 1, TURN_CHANCE / len(parts)))
        for to in parts:
            columns = self.jacobian[:to, of]
            cross = columns.T @ self.jacobian[:to]
            left = columns.T @ self.errors[:to] / np.sqrt(self.variance)
            spread = cross[:, of] - cross @ self.inverse @ cross.T
            if float(left @ np.linalg.lstsq(spread, left)[0]) > limit:
                return True
        return False


def _with_lagged(signal: Floats, places: Ints, lags: Ints, others: Floats) -> Floats:
    """Return a row a place: the signal, (n,), at some lags, and after it the other columns."""
    top, m = int(lags.max(initial=0)), len(lags)
    padded = np.concatenate([np.zeros(top), signal])
    out = np.empty((len(places), m + others.shape[1]))
    for start in range(0, len(places), PLACES):  # indices of all at once would be as large as `out`
        part = slice(start, start + PLACES)
        out[part, :m] = padded.take((places[part] + top)[:, None] - lags)
    out[:, m:] = others
    return out


def _basis(theta: Floats, d: int, has_past: bool) -> Floats:
    """Return the directions in which theta may move, (len(theta), d - 1 or d)."""
    basis = np.zeros((len(theta), d - 1 + has_past))
    basis[:d, : d - 1] = np.linalg.qr(np.column_stack([theta[:d], np.eye(d)]))[0][:, 1:d]
    if has_past:
        basis[d, -1] = 1.0
    return basis


def _products(
    past: RowMoments, theta: Floats, weights: Floats, lags: Ints, basis: Floats, effects: Floats
) -> tuple[Floats, Floats, float]:
    """Return J'J, J'e and e'e: the columns of J and e are combinations of those of [X, Z, y]."""

    def of_columns(products: Floats) -> Floats:
        """Combine products with the columns of [X, Z] to those with the columns of J."""
        lagged = products[:, : past.n_lagged].reshape(-1, past.n_lags, past.dim)[:, lags]
        turned = np.einsum("nkd,k->nd", lagged, weights) @ basis
        return np.concatenate([lagged @ theta, turned, products[:, past.n_lagged :]], axis=1)

    by = np.concatenate([weights, np.zeros(basis.shape[1]), effects])
    beside = of_columns(past.matrix[:, :-1])
    left = past.matrix[:, -1] - beside @ by
    right = of_columns(left[None, :-1])[0]
    return of_columns(beside[:-1].T), right, float(left[-1] - right @ by)
