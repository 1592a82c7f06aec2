"""The least-squares side of a small fit through the Gram matrix of all its lags.

With a few hundred unknowns one product with it costs less than a convolution and a correlation.
What it finds is only ever a start: the certificate comes from the operator.
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
        Its upper triangle.
    target : (n_lags, dim) array
    square : |y|^2 / n
    """

    def __init__(self, gram: Floats, target: Floats, square: float) -> None:
        self.gram = gram
        self.target = target
        self.square = square

    @property
    def steepest(self) -> float:
        """|X|^2 / n: no direction has more curvature."""
        return float(np.trace(self.gram))

    def predict(self, phi: Floats) -> Floats:
        """G phi."""
        # in Fortran order, as BLAS reads it, it is the lower triangle
        return np.asarray(dsymv(1.0, self.gram.T, phi.ravel(), lower=1)).reshape(phi.shape)

    def uphill(self, product: Floats) -> Floats:
        """c - G phi, given G phi."""
        return self.target - product

    def residual(self, phi: Floats, product: Floats) -> tuple[float, float]:
        """|r|^2 / n and y'r / n of r = y - X phi, given G phi."""
        along = self.square - float(np.vdot(self.target, phi))
        return max(along - float(np.vdot(self.target - product, phi)), 0.0), along

    def curvature_along(self, moved: Floats, product: Floats) -> float:
        """|X moved|^2 / n, given G moved."""
        return float(np.vdot(moved, product))


def normal_equations(problem: LeastSquares, target: Floats) -> NormalEquations | None:
    """Those of a problem with more rows than unknowns and few of these; None where it is not so."""
    if target.size > min(MAX_UNKNOWNS, problem.n):
        return None
    gram = problem.design.gram()
    if gram is None:
        return None
    if problem.baseline is not None:
        along = problem.design.rmatvec(problem.baseline).ravel()
        gram -= np.outer(along, along)
    gram /= problem.n
    return NormalEquations(gram, target, problem.square)
