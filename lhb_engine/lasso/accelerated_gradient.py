"""FISTA (accelerated proximal gradient) with backtracking and restarts, matrix-free.

An iteration takes one convolution and one correlation, or, where the Gram matrix of all unknowns
is known (`NormalEquations`), one product with it.
"""

from math import sqrt

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.lasso.block_norms import TINY, block_norms, dual_value, relative_gap, shrink
from lhb_engine.lasso.least_squares import LeastSquares
from lhb_engine.lasso.normal_equations import NormalEquations

# Backtracking: the curvature estimate decays before every step and grows while the majorisation
# fails. On sparse iterates it stays well below that of the whole design.
DECAY = 0.97
GROWTH = 1.2


# The smooth part |X phi - y|^2 / 2n, evaluated from a linear image of phi, `predict`: X phi or
# X'X phi / n. Extrapolated iterates have extrapolated images, so no product is computed twice.
Quadratic = LeastSquares | NormalEquations


def accelerated_gradient(
    problem: Quadratic, lam: float, tol: float, phi: Floats, max_iterations: int
) -> tuple[Floats, float, int]:
    """Minimise by FISTA; momentum restarts where it points uphill (docs/model.md (5.5)).

    Returns the iterate with the smallest relative gap, this gap, and the number of iterations;
    stops at a gap of `tol`. The last estimate of the curvature stays the problem's.

    The duality gap of an iterate needs no further product: its primal value comes from its own
    residual, the dual point from the residual at which the gradient was taken.
    """
    fitted = problem.predict(phi)
    point, point_fitted = phi, fitted
    if problem.curvature == 0.0:
        problem.curvature = _first_curvature(problem, phi)
    # |X v|^2 <= |X|^2 |v|^2: beyond this curvature the check fails by rounding or overflow only
    steepest = problem.steepest
    momentum: float = 1.0
    best, best_gap = phi, np.inf
    iteration = 0
    while iteration < max_iterations:
        iteration += 1
        problem.curvature *= DECAY
        descent = problem.descent(point_fitted)
        residual, along = problem.residual(point, point_fitted)
        dual = dual_value(residual, along, float(block_norms(descent).max()), lam)
        if iteration == 1:
            primal = residual / 2 + lam * float(block_norms(phi).sum())
            best_gap = relative_gap(primal, dual, problem.square)
            if best_gap <= tol:  # the start is already good enough
                break
            if best_gap > 1 and phi.any():  # zero is a better start
                zero = np.zeros_like(phi)
                return accelerated_gradient(problem, lam, tol, zero, max_iterations)
        while True:
            step, norms = shrink(point + descent / problem.curvature, lam / problem.curvature)
            step_fitted = problem.predict(step)
            moved, moved_fitted = step - point, step_fitted - point_fitted
            # check the majorisation that makes this a descent step
            limit = problem.curvature * float(np.vdot(moved, moved))
            failed = problem.curvature_along(moved, moved_fitted) > limit * (1 + 1e-9)
            if not (failed and problem.curvature < steepest):
                break
            problem.curvature *= GROWTH
        primal = problem.residual(step, step_fitted)[0] / 2 + lam * norms
        gap = relative_gap(primal, dual, problem.square)
        if gap < best_gap:
            best, best_gap = step, gap
        if best_gap <= tol:
            break
        change = step - phi
        if float(np.vdot(moved, change)) < 0:
            momentum = 1.0
        following: float = (1 + sqrt(1 + 4 * momentum**2)) / 2
        ahead: float = (momentum - 1) / following
        point = step + ahead * change
        point_fitted = step_fitted + ahead * (step_fitted - fitted)
        phi, fitted, momentum = step, step_fitted, following
    return best, best_gap, iteration


def _first_curvature(problem: Quadratic, phi: Floats) -> float:
    """|X v|^2 / n |v|^2 along the gradient v at zero; backtracking raises it where needed."""
    v = problem.descent(problem.predict(np.zeros_like(phi)))
    square = float(np.vdot(v, v))
    if square == 0.0:
        return 1.0
    return max(problem.curvature_along(v, problem.predict(v)) / square, TINY)
