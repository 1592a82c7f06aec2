"""The block-sparse Lasso on a lagged design, with a certificate.

Minimises 1/(2n) |X phi + c b - y|^2 + lam * sum_k |phi_k|_2 over phi (n_lags, dim) and, where
asked, the baseline b (c is the design's intercept column). The dual point is the residual,
scaled until every block of X'u is within n lam; the gap between the two objectives bounds how far
phi is from the optimum, whatever method found it.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from lhb_engine.history import Floats
from lhb_engine.lagged_design import LaggedDesign

CHECK_EVERY = 10  # iterations between two looks at the gap
MAX_ITERATIONS = 20_000


@dataclass(frozen=True)
class GroupLassoResult:
    """What the solver found.

    Attributes
    ----------
    phi : (n_lags, dim) array
    intercept : baseline a round (0 unless fitted)
    gap : duality gap relative to the objective at phi = 0; a bound on phi's excess objective
    n_iterations : passes made
    converged : whether `gap` met the tolerance
    """

    phi: Floats
    intercept: float
    gap: float
    n_iterations: int
    converged: bool


class Target:
    """The least-squares side of the problem: the design, with its intercept projected out.

    Raises
    ------
    ValueError
        `y` of the wrong shape, or not finite.
    """

    def __init__(self, design: LaggedDesign, y: Floats, fit_intercept: bool) -> None:
        y = np.array(y, dtype=np.float64)
        if y.shape != (design.n_rows,) or design.n_rows == 0:
            raise ValueError(f"y must be ({design.n_rows},) and not empty")
        if not np.isfinite(y).all():
            raise ValueError("y must be finite")
        self.design = design
        self.n = design.n_rows
        norm = float(np.sqrt(design.intercept @ design.intercept)) if fit_intercept else 0.0
        self.baseline = design.intercept / norm if norm > 0 else None
        self.baseline_norm = norm
        self.y_raw = y
        self.y = self.centre(y)
        self.scale = float(self.y @ self.y)

    def centre(self, v: Floats) -> Floats:
        """`v` less its part along the intercept column."""
        return v if self.baseline is None else v - (self.baseline @ v) * self.baseline

    def predict(self, phi: Floats) -> Floats:
        """X phi, centred."""
        return self.centre(self.design.matvec(phi))

    def correlate(self, residual: Floats) -> Floats:
        """X' residual / n, (n_lags, dim); `residual` is centred."""
        return self.design.rmatvec(residual) / self.n

    def intercept(self, phi: Floats) -> float:
        """The baseline a round that fits best, given phi."""
        if self.baseline is None:
            return 0.0
        return float(self.baseline @ (self.y_raw - self.design.matvec(phi))) / self.baseline_norm

    def gap(self, phi: Floats, residual: Floats, correlation: Floats, lam: float) -> float:
        """Duality gap relative to the objective at zero, given X' residual / n."""
        if self.scale == 0.0:
            return 0.0
        square = float(residual @ residual)
        norms = block_norms(phi)
        primal = square / (2 * self.n) + lam * float(norms.sum())
        largest = float(block_norms(correlation).max())
        reach = lam / largest if largest > 0 else np.inf
        along = float(self.y @ residual)
        best = along / square if square > 0 else 1.0
        scale = float(np.clip(best, -reach, reach))
        # |y|^2 - |y - s r|^2 = 2 s y'r - s^2 |r|^2
        dual = (2 * scale * along - scale**2 * square) / (2 * self.n)
        return max(0.0, primal - dual) * 2 * self.n / self.scale


def block_norms(phi: Floats) -> Floats:
    """(n_lags,) Euclidean norms of the rows."""
    return np.asarray(np.sqrt(np.einsum("kd,kd->k", phi, phi)))


def shrink(phi: Floats, amount: float) -> Floats:
    """Shorten every row by `amount`, to zero where it is shorter."""
    norms = block_norms(phi)
    factor = np.maximum(0.0, 1.0 - amount / np.maximum(norms, np.finfo(float).tiny))
    return phi * factor[:, None]


def lambda_max(design: LaggedDesign, y: Floats, *, fit_intercept: bool = False) -> float:
    """The smallest lam whose solution is zero: max_k |X_k' y| / n, after centring."""
    target = Target(design, y, fit_intercept)
    return float(block_norms(target.correlate(target.y)).max())


def solve_group_lasso(
    design: LaggedDesign,
    y: Floats,
    lam: float,
    *,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    warm_start: Floats | None = None,
) -> GroupLassoResult:
    """Solve to a relative duality gap of at most `tol`.

    Parameters
    ----------
    design : LaggedDesign
    y : (n_rows,) array
    lam : float
        Regularisation strength, positive.
    fit_intercept : bool
        Fit a baseline a round, unpenalised. Differenced rows have none left to fit.
    tol : float
        Largest gap accepted, relative to the objective at phi = 0, |y|^2 / (2n) (centred y).
        The only stopping rule besides an iteration limit, which `converged` reports.
    warm_start : (n_lags, dim) array, optional
        Where to start; any finite phi.

    Raises
    ------
    ValueError
        Input that is not finite or has the wrong shape; lam or tol not positive.
    """
    if not (np.isfinite(lam) and lam > 0):
        raise ValueError("lam must be positive and finite")
    if not tol > 0:
        raise ValueError("tol must be positive")
    shape = (design.n_lags, design.dim)
    start = np.zeros(shape) if warm_start is None else np.array(warm_start, dtype=np.float64)
    if start.shape != shape or not np.isfinite(start).all():
        raise ValueError(f"warm_start must be finite and of shape {shape}")
    target = Target(design, y, fit_intercept)
    phi, gap, n_iterations = accelerated_gradient(target, lam, tol, start)
    return GroupLassoResult(phi, target.intercept(phi), gap, n_iterations, gap <= tol)


def accelerated_gradient(
    target: Target, lam: float, tol: float, phi: Floats
) -> tuple[Floats, float, int]:
    """Proximal gradient with momentum, restarted where it points uphill; phi, gap, iterations."""
    fitted = target.predict(phi)
    point, point_fitted = phi, fitted
    curvature = _curvature(target)
    momentum: float = 1.0
    gap = target.gap(phi, target.y - fitted, target.correlate(target.y - fitted), lam)
    best, best_gap = phi, gap
    iteration = 0
    while best_gap > tol and iteration < MAX_ITERATIONS:
        iteration += 1
        uphill = target.correlate(target.y - point_fitted)
        while True:
            step = shrink(point + uphill / curvature, lam / curvature)
            step_fitted = target.predict(step)
            moved, bent = step - point, step_fitted - point_fitted
            # the majorisation that makes the step a descent step, checked instead of assumed
            if float(bent @ bent) <= curvature * target.n * float(np.vdot(moved, moved)) * (
                1 + 1e-9
            ):
                break
            curvature *= 1.5
        if float(np.vdot(point - step, step - phi)) > 0:
            momentum = 1.0
        following: float = (1 + sqrt(1 + 4 * momentum**2)) / 2
        ahead: float = (momentum - 1) / following
        point = step + ahead * (step - phi)
        point_fitted = step_fitted + ahead * (step_fitted - fitted)
        phi, fitted, momentum = step, step_fitted, following
        if iteration % CHECK_EVERY == 0:
            residual = target.y - target.predict(phi)
            gap = target.gap(phi, residual, target.correlate(residual), lam)
            if gap < best_gap:
                best, best_gap = phi, gap
    return best, best_gap, iteration


def _curvature(target: Target) -> float:
    """A lower estimate of the largest eigenvalue of X'X / n; backtracking raises it."""
    v = target.correlate(target.y)
    value = float(np.finfo(float).tiny)
    for _ in range(8):
        norm = float(np.sqrt(np.vdot(v, v)))
        if norm == 0.0:
            break
        v = v / norm
        v = target.correlate(target.predict(v))
        value = max(value, float(np.sqrt(np.vdot(v, v))))
    return value
