"""Rules for lam: the paper's formulas, and one that measures the noise instead."""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import GroupLasso, GroupLassoResult

LEVEL = 0.5
FALSE_LAG_RATE = 0.1
ALTERNATIONS = 8
LEAST_FREEDOM = 0.25  # of the rows: no correction of sigma_hat by more than a factor of two


def theory_doubling(quarter: int, dim: int, gamma: float, c: float) -> float:
    """lam_i = c d sqrt(2 log(2^i d L / gamma) / (2^(i-1) L)), with q = 2^(i-1) L."""
    return c * dim * sqrt(2 * log(2 * quarter * dim / gamma) / quarter)


def theory_full(n_rows: int, dim: int, gamma: float, c: float) -> float:
    """lam_j = 2 c sqrt(2 d log(2^j h / gamma) / (2^(j-1) h)), with n = 2^(j-1) h."""
    return 2 * c * sqrt(2 * dim * log(2 * n_rows / gamma) / n_rows)


@dataclass(frozen=True)
class NoiseAdaptive:
    """A lam that follows the measured noise, and the fit that measured it.

    Attributes
    ----------
    lam : LEVEL * sigma_hat * unit_noise
    strict_lam : above what noise alone reaches, with probability 1 - FALSE_LAG_RATE
    sigma_hat : noise of one row
    result : the last fit made on the way, a warm start
    """

    lam: float
    strict_lam: float
    sigma_hat: float
    result: GroupLassoResult


def entry_rms(design: LaggedDesign, fit_intercept: bool) -> float:
    """sd_x: root mean square of the design's entries, about their baseline where one is fitted."""
    total = design.square_sum
    column = design.intercept
    square = float(column @ column)
    if fit_intercept and square > 0:
        along = design.rmatvec(column)
        total -= float(np.vdot(along, along)) / square
    return sqrt(max(total, 0.0) / (design.n_rows * design.n_lags * design.dim))


def noise_adaptive(
    design: LaggedDesign, y: Floats, *, fit_intercept: bool = False, level: float = LEVEL
) -> NoiseAdaptive:
    """lam = a sigma_hat sd_x (sqrt(d) + sqrt(2 log k)) / sqrt(n), for k lags and n rows.

    Fit and residual norm alternate, at most eight times and to 1e-3. sigma_hat is never below
    0.02 sd(y), nor below the residual corrected for the fit's degrees of freedom: without a floor
    it collapses to zero wherever unknowns exceed rows.

    The degrees of freedom are the rank-one model's: a weight for each active lag and a direction,
    none where no lag is active, and a fitted baseline. What they leave of n counts as n / 4 at
    least (`LEAST_FREEDOM`): the early alternations keep lags by the dozen, and the remainder
    would pass through zero and below where rows are few.
    """
    lasso = GroupLasso(design, y, fit_intercept=fit_intercept)
    target = lasso.problem
    n, k, d = target.n, design.n_lags, design.dim
    sd_x = entry_rms(design, fit_intercept)
    unit = sd_x * (sqrt(d) + sqrt(2 * log(k))) / sqrt(n)
    floor = 0.02 * float(np.std(target.y))
    sigma = sqrt(target.square)
    result: GroupLassoResult | None = None
    for _ in range(ALTERNATIONS):
        result = lasso.solve(
            max(level * sigma * unit, float(np.finfo(float).tiny)),
            tol=1e-4,
            warm_start=None if result is None else result.phi,
        )
        residual = target.y - target.predict(result.phi)
        n_active = int((block_norms(result.phi) > 0).sum())
        n_fitted = (n_active + d - 1 if n_active else 0) + (target.baseline is not None)
        freedom = max(n - n_fitted, LEAST_FREEDOM * n)
        following = max(floor, sqrt(float(residual @ residual) / freedom))
        settled = abs(following - sigma) <= 1e-3 * sigma
        sigma = following
        if settled:
            break
    assert result is not None
    strict = sd_x * (sqrt(d) + sqrt(2 * log(k / FALSE_LAG_RATE))) / sqrt(n)
    return NoiseAdaptive(level * sigma * unit, sigma * strict, sigma, result)
