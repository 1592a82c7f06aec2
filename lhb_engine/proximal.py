"""Matrix-free accelerated proximal gradient: one convolution and one correlation an iteration."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from lhb_engine.blocks import block_norms, dual_value, relative_gap, shrink
from lhb_engine.history import Floats
from lhb_engine.least_squares import LeastSquares

# A step is tried a little longer than the last, and shortened where the check fails: on sparse
# iterates the curvature met is well below that of the whole design.
FLATTER = 0.97
STEEPER = 1.2


@dataclass
class Curvature:
    """The step size's inverse, remembered along a path."""

    value: float = 0.0


def accelerated_gradient(
    problem: LeastSquares,
    lam: float,
    tol: float,
    phi: Floats,
    curvature: Curvature,
    max_iterations: int,
) -> tuple[Floats, float, int]:
    """Proximal gradient with momentum, restarted where it points uphill.

    The gap of every iterate costs no further pass: its primal value comes from its own residual,
    the dual point from the residual that the gradient was taken at.

    Returns
    -------
    phi, gap, n_iterations
    """
    fitted = problem.predict(phi)
    point, point_fitted = phi, fitted
    if curvature.value == 0.0:
        curvature.value = _first_curvature(problem)
    # |X v|^2 <= |X|^2 |v|^2: what fails the check at this curvature fails by rounding or overflow
    steepest = problem.design.square_sum / problem.n
    momentum: float = 1.0
    best, best_gap = phi, np.inf
    iteration = 0
    while iteration < max_iterations:
        iteration += 1
        curvature.value *= FLATTER
        point_residual = problem.y - point_fitted
        uphill = problem.correlate(point_residual)
        while True:
            step = shrink(point + uphill / curvature.value, lam / curvature.value)
            step_fitted = problem.predict(step)
            moved, bent = step - point, step_fitted - point_fitted
            # the majorisation that makes it a descent step is checked, not assumed
            limit = curvature.value * problem.n * float(np.vdot(moved, moved))
            failed = float(bent @ bent) > limit * (1 + 1e-9)
            if not (failed and curvature.value < steepest):
                break
            curvature.value *= STEEPER
        residual = problem.y - step_fitted
        primal = float(residual @ residual) / (2 * problem.n) + lam * float(block_norms(step).sum())
        gap = relative_gap(primal, _dual(problem, point_residual, uphill, lam), problem.square)
        if gap < best_gap:
            best, best_gap = step, gap
        if best_gap <= tol:
            break
        if float(np.vdot(point - step, step - phi)) > 0:
            momentum = 1.0
        following: float = (1 + sqrt(1 + 4 * momentum**2)) / 2
        ahead: float = (momentum - 1) / following
        point = step + ahead * (step - phi)
        point_fitted = step_fitted + ahead * (step_fitted - fitted)
        phi, fitted, momentum = step, step_fitted, following
    return best, best_gap, iteration


def _dual(problem: LeastSquares, residual: Floats, correlation: Floats, lam: float) -> float:
    n = problem.n
    largest = float(block_norms(correlation).max())
    square, along = float(residual @ residual) / n, float(problem.y @ residual) / n
    return dual_value(square, along, largest, lam)


def _first_curvature(problem: LeastSquares) -> float:
    """|X v|^2 / n |v|^2 along the gradient at zero; backtracking raises it where needed."""
    v = problem.correlate(problem.y)
    square = float(np.vdot(v, v))
    if square == 0.0:
        return 1.0
    bent = problem.predict(v)
    return max(float(bent @ bent) / (problem.n * square), float(np.finfo(float).tiny))
