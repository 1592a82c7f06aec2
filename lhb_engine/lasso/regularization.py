"""Rules for lam: the paper's formulas, and one from the measured noise (docs/model.md, 3 to 5)."""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.group_lasso import GroupLasso, GroupLassoResult
from lhb_engine.lasso.least_squares import LeastSquares

LEVEL = 0.5
FALSE_LAG_RATE = 0.1
ALTERNATIONS = 8
LEAST_FREEDOM = 0.25  # of the rows, so that sigma_hat is corrected by at most a factor of two


def theory_doubling(quarter: int, dim: int, gamma: float, c: float) -> float:
    """Compute Doubling Lasso's lam = c d sqrt(2 log(2 q d / gamma) / q) (docs/model.md (3.4)).

    q = 2^(i-1) L are the rows of epoch i's fit, gamma the failure probability of the paper's bound.
    """
    return c * dim * sqrt(2 * log(2 * quarter * dim / gamma) / quarter)


def theory_full(n_rows: int, dim: int, gamma: float, c: float) -> float:
    """Compute AD-Lasso's lam = 2 c sqrt(2 d log(2 n / gamma) / n) (docs/model.md (4.3)).

    n = 2^(j-1) h are the rows of epoch j's fit, gamma the failure probability of the paper's bound.
    """
    return 2 * c * sqrt(2 * dim * log(2 * n_rows / gamma) / n_rows)


@dataclass(frozen=True)
class NoiseAdaptive:
    """A lam in proportion to the measured noise, and the last fit, which is a warm start.

    `sigma_hat` is the standard deviation of one row's noise.
    """

    lam: float
    sigma_hat: float
    result: GroupLassoResult


def centred_rms(problem: LeastSquares) -> float:
    """Root mean square of a problem's entries, all unpenalised columns projected out."""
    design = problem.design
    total = design.square_sum
    for direction in problem.basis:
        along = design.rmatvec(direction)
        total -= float(np.vdot(along, along))
    return sqrt(max(total, 0.0) / (design.n_rows * design.n_lags * design.dim))


def entry_rms(design: LaggedDesign, fit_intercept: bool) -> float:
    """Root mean square sd_x of the design's entries, centred where a baseline is fitted."""
    total = design.square_sum
    column = design.intercept
    square = float(column @ column)
    if fit_intercept and square > 0:
        along = design.rmatvec(column)
        total -= float(np.vdot(along, along)) / square
    return sqrt(max(total, 0.0) / (design.n_rows * design.n_lags * design.dim))


def noise_adaptive(
    design: LaggedDesign,
    y: Floats,
    *,
    fit_intercept: bool = False,
    controls: Floats | None = None,
    level: float = LEVEL,
    n: int | None = None,
) -> NoiseAdaptive:
    """Choose lam = a sigma_hat sd_x (sqrt(d) + sqrt(2 log k)) / sqrt(n) (docs/model.md (5.1)).

    n rows of k lags; a is `level`; `controls` (n, n_controls) are unpenalised columns. `n` is said
    where fewer rows stand for so many, with the same mean squares and products. Fits and
    residual norms alternate, at most ALTERNATIONS times, until sigma_hat changes by less than 1e-3.
    sigma_hat is at least 0.02 sd(y) and is the residual norm corrected for the fit's degrees of
    freedom; without both it collapses to zero where unknowns exceed rows.

    The degrees of freedom are those of the rank-one model: a weight for each active lag and a
    direction, and a fitted baseline. The rows they leave are taken as LEAST_FREEDOM n at least,
    since the first alternations may keep more lags than there are rows.
    """
    lasso = GroupLasso(design, y, fit_intercept=fit_intercept, controls=controls)
    sd_x = entry_rms(design, fit_intercept) if controls is None else centred_rms(lasso.problem)
    problem, (k, d) = lasso.problem, lasso.correlation.shape
    n = n or problem.n
    unit = sd_x * (sqrt(d) + sqrt(2 * log(k))) / sqrt(n)
    floor = 0.02 * float(np.std(problem.y))
    sigma = sqrt(problem.square)
    result: GroupLassoResult | None = None
    for _ in range(ALTERNATIONS):
        result = lasso.solve(
            max(level * sigma * unit, float(np.finfo(float).tiny)),
            tol=1e-4,
            warm_start=None if result is None else result.phi,
        )
        n_active = int((block_norms(result.phi) > 0).sum())
        n_fitted = (n_active + d - 1 if n_active else 0) + len(problem.basis)
        freedom = max(n - n_fitted, LEAST_FREEDOM * n)
        square = lasso.residual_square(result.phi) * (n / problem.n)
        following = max(floor, sqrt(square / freedom))
        settled = abs(following - sigma) <= 1e-3 * sigma
        sigma = following
        if settled:
            break
    assert result is not None
    return NoiseAdaptive(level * sigma * unit, sigma, result)
