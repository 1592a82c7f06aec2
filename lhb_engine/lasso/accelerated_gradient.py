"""Accelerated proximal gradient: matrix-free, one convolution and one correlation an iteration.

Where all unknowns' Gram matrix is at hand (`NormalEquations`) one product with it does both.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.lasso.block_norms import TINY, block_norms, dual_value, relative_gap, shrink

# A step is tried a little longer than the last, and shortened where the check fails: on sparse
# iterates the curvature met is well below that of the whole design.
FLATTER = 0.97
STEEPER = 1.2


@dataclass
class Curvature:
    """The step size's inverse, remembered along a path."""

    value: float = 0.0


class Quadratic(Protocol):
    """|X phi - y|^2 / 2n through an image of phi that is linear in it."""

    square: float

    @property
    def steepest(self) -> float:
        """|X|^2 / n: no direction has more curvature."""

    def predict(self, phi: Floats) -> Floats:
        """The image of phi: X phi, or X'X phi / n."""

    def uphill(self, image: Floats) -> Floats:
        """X' r / n, (n_lags, dim), of the residual r = y - X phi."""

    def residual(self, phi: Floats, image: Floats) -> tuple[float, float]:
        """|r|^2 / n and y'r / n."""

    def curvature_along(self, moved: Floats, image: Floats) -> float:
        """|X moved|^2 / n."""


def accelerated_gradient(
    problem: Quadratic,
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
        curvature.value = _first_curvature(problem, phi)
    # |X v|^2 <= |X|^2 |v|^2: what fails the check at this curvature fails by rounding or overflow
    steepest = problem.steepest
    momentum: float = 1.0
    best, best_gap = phi, np.inf
    iteration = 0
    while iteration < max_iterations:
        iteration += 1
        curvature.value *= FLATTER
        uphill = problem.uphill(point_fitted)
        residual, along = problem.residual(point, point_fitted)
        dual = dual_value(residual, along, float(block_norms(uphill).max()), lam)
        if iteration == 1:
            primal = residual / 2 + lam * float(block_norms(phi).sum())
            best_gap = relative_gap(primal, dual, problem.square)
            if best_gap <= tol:  # the start itself will do
                break
            if best_gap > 1 and phi.any():  # zero is a better start
                zero = np.zeros_like(phi)
                return accelerated_gradient(problem, lam, tol, zero, curvature, max_iterations)
        while True:
            step, norms = shrink(point + uphill / curvature.value, lam / curvature.value)
            step_fitted = problem.predict(step)
            moved, bent = step - point, step_fitted - point_fitted
            # the majorisation that makes it a descent step is checked, not assumed
            limit = curvature.value * float(np.vdot(moved, moved))
            failed = problem.curvature_along(moved, bent) > limit * (1 + 1e-9)
            if not (failed and curvature.value < steepest):
                break
            curvature.value *= STEEPER
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
    """|X v|^2 / n |v|^2 along the gradient at zero; backtracking raises it where needed."""
    v = problem.uphill(problem.predict(np.zeros_like(phi)))
    square = float(np.vdot(v, v))
    if square == 0.0:
        return 1.0
    return max(problem.curvature_along(v, problem.predict(v)) / square, TINY)
