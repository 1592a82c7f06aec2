"""The fit through a Gram matrix: its products, and a Newton method for a few lags.

With a few hundred unknowns a product with the Gram matrix is cheaper than a convolution and a
correlation. A solution by it is a warm start only: the certificate comes from the operator.
"""

from math import prod

import numpy as np
import scipy

from lhb_engine.history import Floats, Ints
from lhb_engine.lasso.block_norms import TINY, block_norms, dual_value, relative_gap, shrink
from lhb_engine.lasso.least_squares import LeastSquares

MAX_UNKNOWNS = 512  # a Gram matrix of 2 MB
MAX_ROUNDS = 60  # alternations of proximal and Newton steps
PROXIMAL_STEPS = 12  # extra ones where no Newton step descends


class NormalEquations:
    """1/2 phi'G phi - c'phi + square / 2, with G = X'X / n, c = X'y / n and square = |y|^2 / n.

    G is `gram`, (n_lags * dim, n_lags * dim), of which only the upper triangle is read; c is
    `target`, (n_lags, dim).
    """

    def __init__(self, gram: Floats, target: Floats, square: float) -> None:
        self.gram = gram
        self.target = target
        self.square = square
        self.curvature = 0.0  # as of `LeastSquares`

    @property
    def steepest(self) -> float:
        """|X|^2 / n (Frobenius), an upper bound of the curvature along any direction."""
        return float(np.trace(self.gram))

    def predict(self, phi: Floats) -> Floats:
        """Compute G phi."""
        # the transpose is in Fortran order, so BLAS reads its lower triangle
        return np.asarray(scipy.linalg.blas.dsymv(1.0, self.gram.T, phi.ravel(), lower=1)).reshape(
            phi.shape
        )

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


class Scratch:
    """Named arrays reused between steps; the first touch of fresh memory pages is slow."""

    def __init__(self) -> None:
        self._held: dict[str, Floats] = {}

    def array(self, name: str, *shape: int) -> Floats:
        """Return an uninitialised array on the memory that this name had before."""
        size = prod(shape)
        held = self._held.get(name)
        if held is None or held.size < size:
            held = self._held[name] = np.empty(2 * size)
        return held[:size].reshape(shape)


class GramProblem(NormalEquations):
    """The group lasso on a few lags: 1/2 phi'G phi - c'phi + lam sum_k |phi_k|.

    The objective is smooth where no block is zero; there a few Newton steps (Cholesky) reach
    machine precision. A block leaves the support where its Newton step passes zero; proximal steps
    let blocks in. `curvature` is an inverse step size, by default an estimate of G's largest
    eigenvalue; `scratch` is memory to reuse.
    """

    def __init__(
        self,
        gram: Floats,
        target: Floats,
        square: float,
        lam: float,
        curvature: float | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        super().__init__(gram, target, square)
        self._scratch = scratch or Scratch()
        self.lam = lam
        self.curvature = curvature or self._largest_eigenvalue() * 1.02

    def times(self, phi: Floats) -> Floats:
        """Compute G phi."""
        return (self.gram @ phi.ravel()).reshape(phi.shape)

    def objective(self, phi: Floats, product: Floats) -> float:
        """1/2 phi'G phi - c'phi + lam sum |phi_k|, given the product G phi."""
        smooth = float(np.vdot(phi, 0.5 * product - self.target))
        return smooth + self.lam * float(block_norms(phi).sum())

    def gap(self, phi: Floats, product: Floats) -> float:
        """Relative duality gap of the problem on these lags alone."""
        residual, along = self.residual(phi, product)
        largest = float(block_norms(self.target - product).max())
        primal = residual / 2 + self.lam * float(block_norms(phi).sum())
        return relative_gap(primal, dual_value(residual, along, largest, self.lam), self.square)

    def solve(self, phi: Floats, tol: float) -> Floats:
        """Minimise from `phi` until the relative gap is `tol`, for at most MAX_ROUNDS rounds."""
        product = self.times(phi)
        for _ in range(MAX_ROUNDS):
            phi, product = self._proximal(phi, product, 2)
            value = self.objective(phi, product)
            newton = self._newton(phi, product, value)
            if newton is None:
                phi, product = self._proximal(phi, product, PROXIMAL_STEPS)
            else:
                phi, product = newton
            if self.gap(phi, product) <= tol:
                break
        return phi

    def _proximal(self, phi: Floats, product: Floats, n_steps: int) -> tuple[Floats, Floats]:
        """FISTA steps; momentum restarts where it points uphill."""
        point, point_product, momentum = phi, product, 1.0
        for _ in range(n_steps):
            step, _ = shrink(
                point + (self.target - point_product) / self.curvature, self.lam / self.curvature
            )
            step_product = self.times(step)
            moved, moved_product = step - point, step_product - point_product
            if float(np.vdot(moved, moved_product)) > self.curvature * float(np.vdot(moved, moved)):
                self.curvature *= 1.5  # the power iteration underestimated it
                point, point_product, momentum = phi, product, 1.0
                continue
            if float(np.vdot(point - step, step - phi)) > 0:
                momentum = 1.0
            following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
            ahead = (momentum - 1) / following
            point = step + ahead * (step - phi)
            point_product = step_product + ahead * (step_product - product)
            phi, product, momentum = step, step_product, following
        return phi, product

    def _newton(self, phi: Floats, product: Floats, value: float) -> tuple[Floats, Floats] | None:
        """One Newton step on the nonzero blocks, halved until it descends; None if none does."""
        norms = block_norms(phi)
        support = np.flatnonzero(norms)
        if len(support) == 0:
            return None
        step = self._direction(phi, product, norms, support)
        if step is None:
            return None
        start = phi[support]
        for length in (1.0, 0.5, 0.25, 0.125):
            moved = start + length * step
            moved[np.einsum("kd,kd->k", start, moved) <= 0] = 0.0
            trial = np.zeros_like(phi)
            trial[support] = moved
            trial_product = self.times(trial)
            if self.objective(trial, trial_product) < value:
                return trial, trial_product
        return None

    def _direction(
        self, phi: Floats, product: Floats, norms: Floats, support: Ints
    ) -> Floats | None:
        """-H^-1 g on the support, with H = G + lam (I - u u') / |phi_k| and u = phi_k / |phi_k|."""
        n_blocks, dim = len(support), phi.shape[1]
        unit = phi[support] / norms[support, None]
        gradient = product[support] - self.target[support] + self.lam * unit
        hessian = self._submatrix(support, dim)
        ridge = self.lam / norms[support, None]
        own = unit[:, :, None] * (-ridge * unit)[:, None, :]
        each, square = np.arange(dim), hessian.reshape(n_blocks, dim, n_blocks, dim)
        own[:, each, each] += ridge + 1e-12 * self.curvature
        np.einsum("kakb->kab", square)[:] += own
        _, solution, failed = scipy.linalg.lapack.dposv(
            hessian.T, -gradient.ravel(), lower=1, overwrite_a=1
        )
        return None if failed else np.asarray(solution).reshape(n_blocks, dim)

    def _submatrix(self, support: Ints, dim: int) -> Floats:
        """Copy the Gram matrix's rows and columns of some blocks into scratch memory."""
        m, size = len(self.gram), len(support) * dim
        out = self._scratch.array("hessian", size, size)
        if size == m:
            out[:] = self.gram
            return out
        columns = (support[:, None] * dim + np.arange(dim)).ravel()
        rows = self._scratch.array("rows", size, m)
        np.take(self.gram, columns, axis=0, out=rows, mode="clip")
        return np.take(rows, columns, axis=1, out=out, mode="clip")

    def _largest_eigenvalue(self) -> float:
        """Estimate G's largest eigenvalue, from below, by six power iterations."""
        v = self.target.ravel() + 1e-3 * float(np.abs(self.target).max())
        value = TINY
        for _ in range(6):
            norm = float(np.sqrt(v @ v))
            if norm == 0.0:
                break
            v = self.gram @ (v / norm)
            value = max(value, float(np.sqrt(v @ v)))
        return value
