"""Which lags stand out, and standard errors of theta and of their weights (docs/model.md 5).

They take it that the active lags are the true ones, and not selected on these rewards. A lag that
was selected only just has an interval that is too narrow and too high, so nothing is said beside.
"""

from math import log, sqrt
from typing import Any

import numpy as np
import scipy

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import GroupLasso
from lhb_engine.lasso.least_squares import LeastSquares
from lhb_engine.lasso.rank_one import MAX_ENTRIES, RankOne, columns_along
from lhb_engine.lasso.regularization import ALTERNATIONS, FALSE_LAG_RATE, entry_rms

LEAST_SIGMA = 1e-6  # of the rewards' root mean square: rewards without noise are no evidence
MAX_STEPS = 50
CLEAR = 1.0  # of (5.11)
WIDER = 1.1  # for what linearisation and lags that are not active leave out
CONFIDENCE = 0.95


def active_lags(design: LaggedDesign, y: Floats, theta: Floats) -> tuple[int, ...]:
    """Return the lags with weight; with probability 1 - FALSE_LAG_RATE none of them is false.

    With at least 1.5 times as many rows as lags, by tests of the least-squares weights along theta,
    an intercept beside them, at level FALSE_LAG_RATE / n_lags each. With fewer rows, by a block
    Lasso with an intercept at a lam that noise of the size of its own residuals rarely reaches.
    """
    n, h = design.n_rows, design.n_lags
    if 2 * n >= 3 * (h + 1) and n * h <= MAX_ENTRIES:
        active = _tested_along(design, y, theta)
        if active is not None:
            return tuple(active.tolist())
    return tuple(_strict_lasso(design, y).tolist())


def _tested_along(design: LaggedDesign, y: Floats, theta: Floats) -> Ints | None:
    """Lags whose weight is significant; None where the columns are dependent."""
    h = design.n_lags
    baseline = design.intercept[:, None] if design.intercept.any() else np.zeros((len(y), 0))
    columns = np.concatenate([columns_along(design, np.arange(h), theta), baseline], axis=1)
    try:
        factor = np.linalg.inv(np.linalg.cholesky(columns.T @ columns))
    except np.linalg.LinAlgError:
        return None
    inverse = factor.T @ factor
    weights = inverse @ (columns.T @ y)
    residual = y - columns @ weights
    freedom = len(y) - columns.shape[1]
    variance = max(float(residual @ residual) / freedom, LEAST_SIGMA**2 * float(y @ y) / len(y))
    error = np.sqrt(variance * np.diag(inverse)[:h])
    return np.flatnonzero(weights[:h] > least_ratio(design.dim, freedom, h) * error)


def least_ratio(dim: int, freedom: int, n_lags: int) -> float:
    """Return how many standard errors a lag's weight must exceed to be called active.

    The limit is Scheffe's quantile, because theta was found on the same rewards and may follow one
    lag's noise.
    """
    return sqrt(dim * float(scipy.special.fdtri(dim, freedom, 1 - FALSE_LAG_RATE / n_lags)))


def _strict_lasso(design: LaggedDesign, y: Floats) -> Ints:
    """Lags that stay at the lam that follows from the residuals of the same lam's fit."""
    lasso = GroupLasso(design, y, fit_intercept=bool(design.intercept.any()))
    n, h, d = design.n_rows, design.n_lags, design.dim
    rms = entry_rms(design, True)
    unit = rms * (sqrt(d) + sqrt(2 * log(h / FALSE_LAG_RATE))) / sqrt(n)
    sigma, phi = sqrt(lasso.problem.square), np.zeros((h, d))
    for _ in range(ALTERNATIONS):
        lam = max(sigma * unit, float(np.finfo(float).tiny))
        phi = lasso.solve(lam, tol=1e-4, warm_start=phi).phi
        following = sqrt(lasso.residual_square(phi) / n)
        settled = abs(following - sigma) <= 1e-3 * sigma
        sigma = following
        if settled:
            break
    return np.flatnonzero(block_norms(phi))


def rank_one_errors(
    design: LaggedDesign, y: Floats, lags: tuple[int, ...], start: RankOne
) -> dict[str, Any] | None:
    """Refit y = sum_k w_k X_k theta + baseline on `lags` by alternating least squares from `start`.

    A baseline is fitted wherever the rows can show one: it takes up what lags that are not among
    `lags` earn on average.

    Returns "lags"; "theta" and "theta_error", (dim,), of the unit vector; "lag_weights" and
    "lag_weights_error", (len(lags),); "sigma", the noise of a row; "freedom", rows less parameters.
    None without active lags or with no more rows than parameters.
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
    # an orthonormal basis of the tangent space of the unit sphere at theta, (dim, dim - 1)
    tangent = np.linalg.qr(np.column_stack([theta, np.eye(dim)]))[0][:, 1:dim]
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
    """Return the standard errors as they are said, or why none are, by docs/model.md (5.11)."""
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


def intervals(refit: dict[str, Any]) -> dict[str, Any]:
    """Return 95% intervals from what `said_of` says, in the form of `Estimate.intervals`."""
    half = scipy.special.stdtrit(refit["freedom"], 0.5 + CONFIDENCE / 2) * np.array([-1.0, 1.0])
    theta, weights = (
        np.array(refit[name])[:, None] + np.array(refit[f"{name}_error"])[:, None] * half
        for name in ("theta", "lag_weights")
    )
    return {
        "theta": np.clip(theta, -1.0, 1.0).tolist(),
        "lags": refit["lags"],
        "lag_weights": np.maximum(weights, 0.0).tolist(),
    }


def least_squares_refit(
    design: LaggedDesign,
    y: Floats,
    lags: Ints,
    fit_intercept: bool,
    controls: Floats | None,
    n: int | None = None,
) -> tuple[Floats, Floats, int]:
    """Regress y on the columns of some lags, beside the unpenalised ones.

    The rows may be fewer that stand for `n`, with the same mean squares and products.
    Returns coefficients and standard errors, (len(lags), dim), NaN without degrees of freedom; and
    these: rows less the rank of all columns, 0 where there are none left.
    """
    problem = LeastSquares(design, y, fit_intercept, controls)
    columns = np.empty((len(lags) * design.dim, problem.n))
    problem.columns(lags, columns)
    inverse = np.linalg.pinv(columns.T)
    freedom = (n or problem.n) - len(problem.basis) - int(np.linalg.matrix_rank(columns))
    shape = (len(lags), design.dim)
    if freedom < 1:
        return np.full(shape, np.nan), np.full(shape, np.nan), 0
    coef = inverse @ problem.y
    residual = problem.y - coef @ columns
    variance = float(residual @ residual) / freedom
    error = np.sqrt(variance * np.einsum("ij,ij->i", inverse, inverse))
    return coef.reshape(shape), error.reshape(shape), freedom
