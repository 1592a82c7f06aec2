"""Block norms of phi, their proximal map, and the duality gap (docs/model.md (5.8))."""

import numpy as np

from lhb_engine.history import Floats

EPS = float(np.finfo(float).eps)
TINY = float(np.finfo(float).tiny)


def block_norms(phi: Floats) -> Floats:
    """Euclidean norms of the rows, (n_lags, dim) -> (n_lags,)."""
    return np.asarray(np.sqrt(np.einsum("kd,kd->k", phi, phi)))


def shrink(phi: Floats, amount: float) -> tuple[Floats, float]:
    """Shrink every row by `amount` (block soft thresholding); also return the sum of the norms."""
    norms = block_norms(phi)
    factor = 1.0 - amount / np.maximum(norms, amount + TINY)
    return np.asarray(phi * factor[:, None]), float(norms @ factor)


def dual_value(residual: float, along: float, largest: float, lam: float) -> float:
    """Dual objective at the best feasible multiple of a residual r.

    `residual` is |r|^2 / n, `along` y'r / n, and `largest` max_k |X_k' r| / n; a dual point is
    feasible where the last is at most lam.
    """
    reach = lam / largest if largest > 0 else np.inf
    scale = min(max(along / residual if residual > 0 else 1.0, -reach), reach)
    # |y|^2 - |y - s r|^2 = 2 s y'r - s^2 |r|^2
    return scale * along - scale**2 * residual / 2


def relative_gap(primal: float, dual: float, square: float) -> float:
    """Duality gap relative to the objective at phi = 0, |y|^2 / 2n; `square` is |y|^2 / n.

    The gap is at least the rounding error of the primal objective.
    """
    rounding = EPS * primal
    return max(rounding, primal - dual) * 2 / square if square > 0 else 0.0
