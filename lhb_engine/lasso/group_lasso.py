"""The block-sparse Lasso on a lagged design, with a duality gap as certificate.

Minimises 1/(2n) |X phi + c b - y|^2 + lam * sum_k |phi_k|_2 over phi (n_lags, dim) and, where
asked, the baseline b, with c the design's intercept column (docs/model.md (5.5)). The dual
point is the residual u, scaled such that every block of X'u is within n lam. The gap between the
two objectives bounds phi's excess objective, whatever method found phi.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import Floats
from lhb_engine.lasso.accelerated_gradient import accelerated_gradient
from lhb_engine.lasso.block_norms import block_norms
from lhb_engine.lasso.least_squares import LeastSquares
from lhb_engine.lasso.normal_equations import NormalEquations, normal_equations
from lhb_engine.lasso.working_set import WorkingSet

MAX_GRAM_ITERATIONS = 2_000
GRAM_GAP = 1e-12  # smallest gap that a Gram matrix resolves in floating point
COARSE_BELOW = 0.05  # of lambda_max: a smaller lam is reached along a coarse path
COARSE_STEP = 0.4  # ratio of two lams of that path, at most
COARSE_GAP = 1e-2  # tolerance on that path
ROUNDING = 8 * float(np.finfo(float).eps)  # times |X| |y|: what rounding leaves of a zero sum


@dataclass(frozen=True)
class GroupLassoResult:
    """Result of a solve."""

    phi: Floats  # (n_lags, dim)
    intercept: float  # baseline per round, 0 unless fitted
    controls: Floats  # (n_controls,): coefficients of the unpenalised columns
    gap: float  # duality gap relative to the objective at phi = 0
    n_iterations: int  # working-set passes plus FISTA iterations
    converged: bool  # whether `gap` is within the tolerance


def lambda_max(design: LaggedDesign, y: Floats, *, fit_intercept: bool = False) -> float:
    """Compute the smallest lam whose solution is zero: max_k |X_k' y| / n, after centring.

    `y` is (n_rows,); lam is in units of y times units of the contexts.
    """
    return GroupLasso(design, y, fit_intercept=fit_intercept).lambda_max


def solve_group_lasso(
    design: LaggedDesign,
    y: Floats,
    lam: float,
    *,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    warm_start: Floats | None = None,
) -> GroupLassoResult:
    """Minimise 1/(2n) |X phi + b - y|^2 + lam sum_k |phi_k| to a certified duality gap.

    Parameters
    ----------
    design : LaggedDesign
    y : (n_rows,) array
    lam : float
        Regularisation strength, positive, in units of y times units of the contexts.
    fit_intercept : bool
        Fit a baseline per round, unpenalised. Differenced rows have no baseline.
    tol : float
        Largest gap accepted, relative to the objective at phi = 0, |y|^2 / (2n) with centred y.
    warm_start : (n_lags, dim) array, optional
        Start; any finite phi.

    Returns
    -------
    GroupLassoResult
        `converged` is false where an iteration limit was reached before `tol`.

    Raises
    ------
    ValueError
        Input that is not finite or has the wrong shape; lam or tol not positive.
    """
    return GroupLasso(design, y, fit_intercept=fit_intercept).solve(
        lam, tol=tol, warm_start=warm_start
    )


class GroupLasso:
    """One problem for several lam: keeps working set, step size and method between solves.

    `controls` (n_rows, n_controls) are unpenalised columns beside the lagged ones; `correlation`
    (n_lags, dim) is X'y / n, centred; `lambda_max` the smallest lam whose solution is zero.
    """

    def __init__(
        self,
        design: LaggedDesign,
        y: Floats,
        *,
        fit_intercept: bool = False,
        controls: Floats | None = None,
    ) -> None:
        self.problem = LeastSquares(design, y, fit_intercept, controls)
        self.correlation = self.problem.correlate(self.problem.y)
        self.lambda_max = self._largest_correlation()
        self._working_set = WorkingSet(self.problem, self.correlation)
        self.max_iterations = 20_000  # without the Gram matrix

    def _largest_correlation(self) -> float:
        """max_k |X_k' y| / n; 0 where it is within the rounding error of its sums."""
        problem = self.problem
        largest = float(block_norms(self.correlation).max())
        rounding = ROUNDING * np.sqrt(problem.given_square / problem.n)
        design = problem.design  # the cheap bound decides almost always
        if largest > rounding * np.sqrt(design.square_bound):
            return largest
        return largest if largest > rounding * np.sqrt(design.square_sum) else 0.0

    def residual_square(self, phi: Floats) -> float:
        """Return |y - X phi|^2, centred, (n_lags, dim) -> float."""
        residual = self.problem.y - self.problem.predict(phi)
        return float(residual @ residual)

    def solve(
        self, lam: float, *, tol: float = 1e-6, warm_start: Floats | None = None
    ) -> GroupLassoResult:
        """Solve for one lam; see `solve_group_lasso`."""
        shape = self.correlation.shape
        if not (np.isfinite(lam) and lam > 0):
            raise ValueError("lam must be positive and finite")
        if not tol > 0:
            raise ValueError("tol must be positive")
        phi = np.zeros(shape) if warm_start is None else np.array(warm_start, dtype=np.float64)
        if phi.shape != shape or not np.isfinite(phi).all():
            raise ValueError(f"warm_start must be finite and of shape {shape}")
        if lam >= self.lambda_max:
            return self._result(np.zeros_like(phi), 0.0, 0, tol)
        gap, n_iterations = np.inf, 0
        for point in self._points(lam, warm_start is None):
            if not self._working_set.given_up:
                loose = tol if point == lam else max(tol, COARSE_GAP)
                phi, gap, more = self._working_set.solve(point, loose, phi)
                n_iterations += more
        if gap > tol and self._equations is not None:
            equations, least = self._equations, max(tol, GRAM_GAP)
            phi, _, more = accelerated_gradient(equations, lam, least, phi, MAX_GRAM_ITERATIONS)
            n_iterations += more
        if gap > tol:
            phi, gap, more = accelerated_gradient(self.problem, lam, tol, phi, self.max_iterations)
            n_iterations += more
        return self._result(phi, gap, n_iterations, tol)

    @cached_property
    def _equations(self) -> NormalEquations | None:
        return normal_equations(self.problem, self.correlation)

    def _points(self, lam: float, cold: bool) -> list[float]:
        """Lams to pass through: a cold start on a small problem takes a coarse path."""
        few = self._working_set.limit < self.correlation.shape[0]
        if not cold or few or lam > COARSE_BELOW * self.lambda_max:
            return [lam]
        ratio = lam / self.lambda_max
        n_points = int(np.log(ratio) / np.log(COARSE_STEP))
        return [*(self.lambda_max * ratio ** (i / n_points) for i in range(1, n_points)), lam]

    def path(self, lams: Sequence[float], *, tol: float = 1e-6) -> Iterator[GroupLassoResult]:
        """Solve for decreasing lams, each started by extrapolating the last two solutions."""
        phi = before = None
        at = at_before = 0.0
        for lam in lams:
            start = phi
            if phi is not None and before is not None and at_before > at:
                start = phi + (at - lam) / (at_before - at) * (phi - before) * (phi != 0)
            result = self.solve(lam, tol=tol, warm_start=start)
            before, phi, at_before, at = phi, result.phi, at, lam
            yield result

    def _result(self, phi: Floats, gap: float, n_iterations: int, tol: float) -> GroupLassoResult:
        intercept, controls = self.problem.unpenalised(phi)
        return GroupLassoResult(phi, intercept, controls, gap, n_iterations, gap <= tol)
