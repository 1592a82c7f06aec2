"""Which lags a fit reports as active (docs/model.md (5.4)).

The fit itself keeps too many: without an intercept any lag can stand for the mean reward, and its
lam is chosen for theta's direction. So lags are tested in a second fit, with an intercept, at a
rate of false reports that is said beforehand.
"""

from math import log, sqrt

import numpy as np
from scipy.special import fdtri

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import GroupLasso
from lhb_engine.lasso.refit import MAX_ENTRIES, columns_along
from lhb_engine.lasso.regularization import ALTERNATIONS, FALSE_LAG_RATE, entry_rms

LEAST_SIGMA = 1e-6  # of the rewards' root mean square: rewards without noise are no evidence


def active_lags(design: LaggedDesign, y: Floats, theta: Floats) -> tuple[int, ...]:
    """Return the lags with weight; with probability 1 - FALSE_LAG_RATE none of them is false.

    With at least 1.5 times as many rows as lags, by tests of the least-squares weights along theta,
    an intercept beside them, at level FALSE_LAG_RATE / n_lags each. With fewer rows, by a block
    Lasso with an intercept at a lam that noise of the size of its own residuals rarely reaches.

    Parameters
    ----------
    design : LaggedDesign
    y : (n_rows,) array
    theta : (dim,) array
        The direction that the fit has found, a unit vector.
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

    It is Scheffe's quantile, because theta was found on the same rewards and may follow one lag's
    noise.
    """
    return sqrt(dim * float(fdtri(dim, freedom, 1 - FALSE_LAG_RATE / n_lags)))


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
        residual = lasso.problem.y - lasso.problem.predict(phi)
        following = sqrt(float(residual @ residual) / n)
        settled = abs(following - sigma) <= 1e-3 * sigma
        sigma = following
        if settled:
            break
    return np.flatnonzero(block_norms(phi))
