"""Intervals for theta and the lag weights, from the rank-one model linearised at its refit.

Short Gibbs chains understate the spread of the posterior, so what an estimate says of its own error
comes from least squares instead (docs/model.md 7, Certainty). Where that would not hold, nothing is
said, with the reason.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri, fdtrc, stdtrit

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.rank_one_posterior import Posterior

LEVEL = 0.95
POSSIBLE = 0.05  # lags that are active in a larger share of the draws are refitted
LEAST_ROWS = 100
ROWS_AN_UNKNOWN = 2
MOST_UNKNOWNS = 400  # the refit costs their square a row
UNCERTAIN = 0.1  # of (7.18): error of the lag weights over their size, squares
WIDE = 0.3  # radians: beyond this angle the model is not linear enough
CONDITION = 1e10  # of the refit's scaled normal equations
DRIFT_ROWS, DRIFT_CHANCE = 25, 0.01  # of (7.19)
WIDER = 1.1  # for what linearisation and the choice of lags leave out
WIDER_AUTOCORRELATED = 1.25  # for what the autoregression of the noise leaves out too
STEPS = 4
SHIFTS = 2  # rounds over which errors may be correlated in the robust covariance


@dataclass(frozen=True)
class Certainty:
    """What an estimate says of its own error, in the units of the rows.

    Attributes
    ----------
    angle, angle_95 : float
        Root mean square and 95% bound of the angle between the estimated and the true theta,
        radians.
    theta : (dim, 2) array
        95% intervals of the numbers of theta.
    lags : (n,) array
        Active lags.
    lag_weights : (n, 2) array
        95% intervals of their weights.
    effects : (n_covariates, 2) array
        95% intervals of the covariates' effects.
    """

    angle: float
    angle_95: float
    theta: Floats
    lags: Ints
    lag_weights: Floats
    effects: Floats

    def intervals(self) -> dict[str, Any]:
        """Return the intervals as a JSON object."""
        found = {
            "theta": self.theta.tolist(),
            "lags": self.lags.tolist(),
            "lag_weights": self.lag_weights.tolist(),
        }
        return found | ({"effects": self.effects.tolist()} if len(self.effects) else {})


def certainty(
    rows: AlignedRounds,
    found: Posterior,
    active: Ints,
    rho: float,
    signed: bool = False,
    past: RowMoments | None = None,
) -> Certainty | str:
    """Return intervals by docs/model.md (7.17), or the reason why none are given.

    Parameters
    ----------
    rows : AlignedRounds
        The rows that the posterior is from, with independent noise.
    found : Posterior
    active : (n,) array
        Active lags.
    rho : float
        Autocorrelation that was taken out of the rows.
    signed : bool
        Lag weights may be negative.
    past : RowMoments, optional
        Of all rows, with independent noise. `rows` are the latest of them then: they tell how the
        errors depend on each other, and whether they drift.
    """
    lags = np.flatnonzero(found.inclusion > POSSIBLE)
    n = rows.n_rows if past is None else past.n_rows
    dim, m = rows.contexts.shape[1], len(lags)
    n_unknown = m + dim + rows.covariates.shape[1]
    if n_unknown > MOST_UNKNOWNS:
        return f"More than {MOST_UNKNOWNS} unknowns."
    if m == 0 or n < max(LEAST_ROWS, ROWS_AN_UNKNOWN * n_unknown):
        return "Too few rows for the lags that may be active."
    refit = _Refit.of(rows, found.theta, found.weights, lags, past)
    if refit is None:
        return "Some features cannot be told from each other, or from a baseline."
    covariance, basis = refit.variance * refit.inverse, refit.basis
    if np.trace(covariance[:m, :m]) > UNCERTAIN * float(refit.weights @ refit.weights):
        return "The lag weights are not known well enough yet."
    if refit.drifts():
        return "The rewards drift in a way that the model does not explain."
    robust = refit.robust()
    part, beside = slice(m, m + dim - 1), slice(m + dim, n_unknown)
    plain_turn = basis @ covariance[part, part] @ basis.T
    robust_turn = basis @ robust[part, part] @ basis.T
    wider = WIDER_AUTOCORRELATED if rho else WIDER
    quantile = wider * float(stdtrit(n - n_unknown, 0.5 + LEVEL / 2))
    total = float(np.trace(plain_turn))
    ratio = max(1.0, float(np.trace(robust_turn)) / total) if total > 0 else 1.0
    angle = float(np.sqrt(total * ratio))
    if angle > WIDE:
        return "The direction is not known well enough yet."
    turned = np.maximum(np.diag(plain_turn), np.diag(robust_turn))
    places = np.searchsorted(lags, active)
    variance = np.maximum(np.diag(covariance), np.diag(robust))[places]
    half = quantile * np.sqrt(variance)[:, None] * np.array([-1.0, 1.0])
    weights = refit.weights[places][:, None] + half
    half = quantile * np.sqrt(np.maximum(turned, 0.0))[:, None] * np.array([-1.0, 1.0])
    variance = np.maximum(np.diag(covariance), np.diag(robust))[beside]
    effects = quantile * np.sqrt(variance)[:, None] * np.array([-1.0, 1.0])
    return Certainty(
        angle=angle,
        angle_95=_bound(plain_turn * ratio) * quantile / float(stdtrit(1e9, 0.5 + LEVEL / 2)),
        theta=np.clip(found.theta[:, None] + half, -1.0, 1.0),
        lags=active,
        lag_weights=weights if signed else np.maximum(weights, 0.0),
        effects=refit.effects[1:, None] + effects,
    )


def _bound(covariance: Floats) -> float:
    """Return the 95% quantile of a normal vector's length, by Satterthwaite's approximation."""
    total, square = float(np.trace(covariance)), float(np.sum(covariance**2))
    if square == 0.0:
        return 0.0
    return float(np.sqrt(square / total * chdtri(total**2 / square, 1.0 - LEVEL)))


@dataclass(frozen=True)
class _Refit:
    """The least-squares fit of theta, some lag weights and covariates, and its linearisation.

    Attributes
    ----------
    weights : (m,) array
    effects : (q,) array
        The baseline and the effects of the covariates.
    basis : (dim, dim - 1) array
        Orthonormal basis of theta's complement.
    jacobian : (n, m + dim - 1 + q) array
        J of (5.9), in the order of the rounds, or its latest rows.
    inverse : (m + dim - 1 + q, m + dim - 1 + q) array
        (J'J)^-1.
    errors : (n,) array
        Residuals of these rows.
    variance : float
        s^2 of (5.9).
    n_rows : int
        Rows that were refitted.
    """

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
    ) -> "_Refit | None":
        """Take Gauss-Newton steps from (theta, w); None where J is singular.

        With `past`, on all the rows whose moments they are.
        """
        order = np.flatnonzero(rows.number > 0)
        order = order[np.argsort(rows.number[order], kind="stable")]
        x, m, dim = rows.contexts, len(lags), len(theta)
        beside = rows.beside[order]
        weights, effects = w[lags], np.zeros(beside.shape[1])
        for step in range(STEPS):
            basis = np.linalg.qr(np.column_stack([theta, np.eye(dim)]))[0][:, 1:dim]
            if past is None or step == STEPS - 1:
                signal, filtered = x @ theta, np.zeros_like(x)
                columns = np.zeros((len(x), m))
                for i, lag in enumerate(lags.tolist()):
                    columns[lag:, i] = signal[: len(x) - lag]
                    filtered[lag:] += weights[i] * x[: len(x) - lag]
                turned = (filtered @ basis)[order]
                jacobian = np.concatenate([columns[order], turned, beside], axis=1)
                errors = rows.y[order] - columns[order] @ weights - beside @ effects
            if past is None:
                gram, right = jacobian.T @ jacobian, jacobian.T @ errors
                square, n_rows = float(errors @ errors), len(errors)
            else:
                turns, error = _in_columns(past, theta, weights, lags, basis, effects)
                left = past.matrix @ error
                gram, right = turns.T @ past.matrix[:-1, :-1] @ turns, turns.T @ left[:-1]
                square, n_rows = float(error @ left), past.n_rows
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
            theta = theta + basis @ change[m : m + dim - 1]
            length = float(np.linalg.norm(theta))
            theta, weights = theta / length, (weights + change[:m]) * length
            effects += change[m + dim - 1 :]
        variance = square / max(n_rows - jacobian.shape[1], 1)
        return cls(weights, effects, basis, jacobian, inverse, errors, variance, n_rows)

    def robust(self) -> Floats:
        """Return a covariance that allows errors to be correlated over two rounds (Newey-West)."""
        moved = (self.jacobian @ self.inverse) * self.errors[:, None]
        out = moved.T @ moved
        for shift in range(1, SHIFTS + 1):
            cross = moved[shift:].T @ moved[:-shift]
            out += (1.0 - shift / (SHIFTS + 1)) * (cross + cross.T)
        n, p = self.n_rows, self.jacobian.shape[1]
        return np.asarray(out * (n / len(self.errors)) * (n / (n - p)))

    def drifts(self) -> bool:
        """Whether means of the errors over 25 rows vary more than noise would, by (7.19)."""
        n_parts = max(len(self.errors) // DRIFT_ROWS, 4)
        parts = np.array_split(self.errors, n_parts)
        between = sum(float(part.sum()) ** 2 / len(part) for part in parts) / (n_parts - 1)
        free = len(self.errors) - self.jacobian.shape[1]
        return bool(fdtrc(n_parts - 1, free, between / max(self.variance, 1e-300)) < DRIFT_CHANCE)


def _in_columns(
    past: RowMoments, theta: Floats, weights: Floats, lags: Ints, basis: Floats, effects: Floats
) -> tuple[Floats, Floats]:
    """Return J and the residuals as combinations of the columns of [X, Z] and of [X, Z, y].

    Returns
    -------
    turns : (p - 1, m + dim - 1 + q) array
    error : (p,) array
    """
    m, dim = len(lags), len(theta)
    turns = np.zeros((len(past.matrix) - 1, m + dim - 1 + len(effects)))
    for i, lag in enumerate(lags.tolist()):
        here = slice(lag * dim, (lag + 1) * dim)
        turns[here, i] = theta
        turns[here, m : m + dim - 1] = weights[i] * basis
    turns[past.n_lagged :, m + dim - 1 :] = np.eye(len(effects))
    by = np.concatenate([weights, np.zeros(dim - 1), effects])
    return turns, np.append(-turns @ by, 1.0)
