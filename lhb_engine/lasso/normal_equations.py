"""The least-squares part of a small fit, through the Gram matrix of all its lags.

With a few hundred unknowns a product with it is cheaper than a convolution and a correlation. Its
solution is a warm start only: the certificate comes from the operator.
"""

import numpy as np
from scipy.linalg.blas import dsymv

from lhb_engine.history import Floats
from lhb_engine.lasso.least_squares import LeastSquares

MAX_UNKNOWNS = 512  # a Gram matrix of 2 MB


class NormalEquations:
    """1/2 phi'G phi - c'phi + square / 2, with G = X'X / n and c = X'y / n.

    Parameters
    ----------
    gram : (n_lags * dim, n_lags * dim) array
        G, of which only the upper triangle is read.
    target : (n_lags, dim) array
        c.
    square : float
        |y|^2 / n.
    """

    def __init__(self, gram: Floats, target: Floats, square: float) -> None:
        self.gram = gram
        self.target = target
        self.square = square

    @property
    def steepest(self) -> float:
        """|X|^2 / n (Frobenius), an upper bound of the curvature along any direction."""
        return float(np.trace(self.gram))

    def predict(self, phi: Floats) -> Floats:
        """Compute G phi."""
        # the transpose is in Fortran order, so BLAS reads its lower triangle
        return np.asarray(dsymv(1.0, self.gram.T, phi.ravel(), lower=1)).reshape(phi.shape)

    def descent(self, product: Floats) -> Floats:
        """Negative gradient c - G phi, given G phi."""
        return self.target - product

    def residual(self, phi: Floats, product: Floats) -> tuple[float, float]:
        """|r|^2 / n and y'r / n of r = y - X phi, given G phi."""
        along = self.square - float(np.vdot(self.target, phi))
        return max(along - float(np.vdot(self.target - product, phi)), 0.0), along

    def curvature_along(self, moved: Floats, product: Floats) -> float:
        """|X moved|^2 / n, given G moved."""
        return float(np.vdot(moved, product))


def normal_equations(problem: LeastSquares, target: Floats) -> NormalEquations | None:
    """Make the normal equations of a problem with at most MAX_UNKNOWNS unknowns and n rows.

    Returns
    -------
    NormalEquations or None
        None where there are more unknowns, or where the design has no fast Gram matrix.
    """
    if target.size > min(MAX_UNKNOWNS, problem.n):
        return None
    gram = problem.design.gram()
    if gram is None:
        return None
    for direction in problem.basis:
        along = problem.design.rmatvec(direction).ravel()
        gram -= np.outer(along, along)
    gram /= problem.n
    return NormalEquations(gram, target, problem.square)
