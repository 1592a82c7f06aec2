"""Standard errors of theta and active lag weights, after a rank-one refit (docs/model.md (5.9)).

They assume that the active lags are the true ones and were not selected on these rewards, one
theta for all lags, independent noise of equal variance in every row, and enough rows for the
linearisation. A lag that was selected only just has an interval that is too narrow and too high,
so nothing is said beside one.
"""

from typing import Any

import numpy as np
from scipy.special import stdtrit

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.active_lags import least_ratio
from lhb_engine.lasso.gram_lasso import GramLasso
from lhb_engine.lasso.least_squares import LeastSquares
from lhb_engine.lasso.rank_one import RankOne

MAX_STEPS = 50
CLEAR = 1.0  # of (5.11)
WIDER = 1.1  # for what linearisation and lags that are not active leave out
LEVEL = 0.95
LEAST_SQUARE = 1e-12  # of the largest eigenvalue: moments tell no smaller one from 0


def rank_one_errors(
    design: LaggedDesign,
    y: Floats,
    lags: tuple[int, ...],
    start: RankOne,
) -> dict[str, Any] | None:
    """Refit y = sum_k w_k X_k theta + baseline on `lags` by alternating least squares.

    A baseline is fitted wherever the rows can show one: it takes up what lags that are not among
    `lags` earn on average.

    Parameters
    ----------
    design : LaggedDesign
    y : (n_rows,) array
    lags : tuple of int
        Active lags.
    start : RankOne
        Start of the alternation.

    Returns
    -------
    dict or None
        "lags"; "theta" and "theta_error", (dim,), of the unit vector; "lag_weights" and
        "lag_weights_error", (len(lags),); "sigma", the noise of a row; "freedom", rows less
        parameters. None without active lags or with no more rows than parameters.
    """
    n, dim, m = design.n_rows, design.dim, len(lags)
    column = design.intercept
    baseline = column[:, None] if column.any() else np.zeros((n, 0))
    n_parameters = m + dim - 1 + baseline.shape[1]
    if m == 0 or n <= n_parameters:
        return None
    blocks = design.blocks(np.array(lags))
    theta, weights, constant = start.theta, start.weights[list(lags)], np.zeros(baseline.shape[1])
    for _ in range(MAX_STEPS):
        left = np.concatenate([blocks @ theta, baseline], axis=1)
        solution = np.linalg.lstsq(left, y, rcond=None)[0]
        weights, constant = solution[:m], solution[m:]
        right = np.concatenate([np.einsum("nkd,k->nd", blocks, weights), baseline], axis=1)
        solution = np.linalg.lstsq(right, y, rcond=None)[0]
        following, constant = solution[:dim], solution[dim:]
        norm = float(np.sqrt(following @ following))
        if norm == 0.0:
            return None
        moved = float(np.abs(following / norm - theta).max())
        theta, weights = following / norm, weights * norm
        if moved <= 1e-10:
            break
    filtered = np.einsum("nkd,k->nd", blocks, weights)
    tangent = _complement(theta)
    jacobian = np.concatenate([blocks @ theta, filtered @ tangent, baseline], axis=1)
    residual = y - filtered @ theta - baseline @ constant
    variance = float(residual @ residual) / (n - n_parameters)
    inverse = np.linalg.pinv(jacobian)
    covariance = variance * (inverse @ inverse.T)
    turn = covariance[m : m + dim - 1, m : m + dim - 1]
    theta_variance = np.einsum("ij,jk,ik->i", tangent, turn, tangent)
    return {
        "lags": list(lags),
        "theta": theta.tolist(),
        "theta_error": np.sqrt(np.maximum(theta_variance, 0.0)).tolist(),
        "lag_weights": weights.tolist(),
        "lag_weights_error": np.sqrt(np.diag(covariance)[:m]).tolist(),
        "sigma": float(np.sqrt(variance)),
        "freedom": n - n_parameters,
    }


def said_of(errors: dict[str, Any] | None, n_lags: int) -> dict[str, Any] | str:
    """Return the standard errors as they are said, or why none are, by docs/model.md (5.11).

    Parameters
    ----------
    errors : dict or None
        Of `rank_one_errors`.
    n_lags : int
        Number of lags from which the active ones were selected.
    """
    if errors is None:
        return "No lag is active, or rows are too few for those that are."
    weights, error = np.array(errors["lag_weights"]), np.array(errors["lag_weights_error"])
    least = least_ratio(len(errors["theta"]), errors["freedom"], n_lags) + CLEAR
    if (weights < least * error).any():
        return "An active lag only just stands out: noise in the same rewards may have chosen it."
    wider = {
        name: (WIDER * np.array(errors[name])).tolist()
        for name in ("theta_error", "lag_weights_error")
    }
    return errors | wider


def intervals(said: dict[str, Any]) -> dict[str, Any]:
    """Return 95% intervals from what `said_of` says, in the form of `Estimate.intervals`."""
    half = float(stdtrit(said["freedom"], 0.5 + LEVEL / 2)) * np.array([-1.0, 1.0])
    theta, weights = (
        np.array(said[name])[:, None] + np.array(said[f"{name}_error"])[:, None] * half
        for name in ("theta", "lag_weights")
    )
    return {
        "theta": np.clip(theta, -1.0, 1.0).tolist(),
        "lags": said["lags"],
        "lag_weights": np.maximum(weights, 0.0).tolist(),
    }


def least_squares_refit(
    design: LaggedDesign, y: Floats, lags: Ints, fit_intercept: bool, controls: Floats | None
) -> tuple[Floats, Floats, int]:
    """Regress y on the columns of some lags, beside the unpenalised ones.

    Returns
    -------
    coef, error : (len(lags), dim) arrays
        Least-squares coefficients and their standard errors; NaN without degrees of freedom.
    freedom : int
        Rows less the rank of all columns; 0 where there are none left.
    """
    problem = LeastSquares(design, y, fit_intercept, controls)
    columns = np.empty((len(lags) * design.dim, problem.n))
    problem.columns(lags, columns)
    inverse = np.linalg.pinv(columns.T)
    freedom = problem.n - len(problem.basis) - int(np.linalg.matrix_rank(columns))
    shape = (len(lags), design.dim)
    if freedom < 1:
        return np.full(shape, np.nan), np.full(shape, np.nan), 0
    coef = inverse @ problem.y
    residual = problem.y - coef @ columns
    variance = float(residual @ residual) / freedom
    error = np.sqrt(variance * np.einsum("ij,ij->i", inverse, inverse))
    return coef.reshape(shape), error.reshape(shape), freedom


def gram_refit(lasso: GramLasso, lags: Ints) -> tuple[Floats, Floats, int]:
    """Do what `least_squares_refit` does, from moments.

    A direction in which the columns vary by less than 1e-6 of the largest counts as none: moments
    hold squares.
    """
    dim = lasso.correlation.shape[1]
    columns = (lags[:, None] * dim + np.arange(dim)).ravel()
    values, vectors = np.linalg.eigh(lasso.gram[np.ix_(columns, columns)])
    kept = values > LEAST_SQUARE * values.max(initial=0.0)
    shape, freedom = (len(lags), dim), lasso.n - lasso.n_unpenalised - int(kept.sum())
    if freedom < 1:
        return np.full(shape, np.nan), np.full(shape, np.nan), 0
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    coef = inverse @ lasso.correlation[lags].ravel()
    phi = np.zeros_like(lasso.correlation)
    phi[lags] = coef.reshape(shape)
    variance = lasso.residual_square(phi) / freedom
    error = np.sqrt(variance * np.diag(inverse) / lasso.n)
    return phi[lags], error.reshape(shape), freedom


def _complement(theta: Floats) -> Floats:
    """(dim, dim - 1) orthonormal basis of the tangent space of the unit sphere at `theta`."""
    basis, _ = np.linalg.qr(np.column_stack([theta, np.eye(len(theta))]))
    return np.asarray(basis[:, 1 : len(theta)])
