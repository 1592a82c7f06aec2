"""Intervals where features may pay at lags of their own: least squares of all their lags.

What holds for any form of the lag profiles needs none of them: every lag of every feature is a
column, and nothing is chosen (docs/model.md 14).
"""

import numpy as np
from scipy.special import stdtrit

from lhb_engine.design.moments import RowMoments
from lhb_engine.estimate import first_lags
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.linearised_intervals import (
    CLEAR,
    LEAST_ROWS,
    LEVEL,
    ROWS_AN_UNKNOWN,
    WIDE,
    Certainty,
    around,
    bound,
)
from lhb_engine.posterior.rank_one_posterior import Posterior

ALIKE = 1e-10  # eigenvalue over the largest, of scaled columns that cannot be told apart


def profile_certainty(rows: RowMoments, found: Posterior, active: Ints) -> Certainty | str:
    """Return intervals by docs/model.md (14.5), or the reason why none are given.

    `rows` have independent noise.
    """
    h, d, n_features = rows.n_lags, rows.dim, found.n_features
    n, n_unknown = rows.n_rows, len(rows.matrix) - 1
    if n < max(LEAST_ROWS, ROWS_AN_UNKNOWN * n_unknown):
        return "Too few rows to know every lag of every feature."
    size = np.sqrt(np.maximum(np.diag(rows.matrix)[:-1], 1e-300))
    values, axes = np.linalg.eigh(rows.matrix[:-1, :-1] / np.outer(size, size))
    if values[0] < ALIKE * values[-1]:
        return "Some features cannot be told from each other, or from a baseline."
    axes /= size[:, None]
    inverse = (axes / values) @ axes.T
    best = inverse @ rows.matrix[:-1, -1]
    left = max(rows.square - float(best @ rows.matrix[:-1, -1]), 0.0)
    covariance = inverse * (left / (n - n_unknown))
    phi = best[: h * d].reshape(h, d)[:, :n_features]
    of = covariance[: h * d, : h * d].reshape(h, d, h, d)[:, :n_features, :, :n_features]
    total, spread = phi.sum(axis=0), of.sum(axis=(0, 2))
    length = float(np.linalg.norm(total))
    theta = total / max(length, 1e-300)
    across = np.eye(n_features) - np.outer(theta, theta)
    turned = across @ spread @ across / max(length, 1e-300) ** 2
    angle = float(np.sqrt(np.trace(turned)))
    if not angle <= WIDE:
        return "The direction is not known well enough yet."
    quantile = float(stdtrit(n - n_unknown, 0.5 + LEVEL / 2))
    angle_95 = bound(turned) * quantile / float(stdtrit(1e9, 0.5 + LEVEL / 2))
    chosen = found.theta[:n_features]
    if float(np.arccos(np.clip(chosen @ theta, -1.0, 1.0))) > angle_95:
        return "Features may pay at lags of their own: the direction is not known well enough yet."
    weights = phi[active] @ chosen
    error = np.sqrt(np.einsum("kikj,i,j->k", of[active][:, :, active], chosen, chosen))
    shown = around(weights, quantile * error)
    shown[np.abs(weights) < CLEAR * error] = np.nan
    errors = np.sqrt(np.diag(covariance))
    beside = slice(h * d + 1, n_unknown)
    own = errors[: h * d].reshape(h, d)[:, :n_features]
    decides = found.weights.ndim == 2
    sums = _sums(phi, of, first_lags(found.weights[:, :n_features])) if decides else None
    return Certainty(
        angle=angle,
        angle_95=angle_95,
        theta=np.clip(around(theta, quantile * np.sqrt(np.diag(turned))), -1.0, 1.0),
        lags=active,
        lag_weights=shown,
        effects=around(best[beside], quantile * errors[beside]),
        profiles=_bands(phi, quantile * own) if decides else None,
        sums=None if sums is None else _bands(sums[0], quantile * sums[1]),
    )


def _sums(phi: Floats, of: Floats, first: Ints) -> tuple[Floats, Floats]:
    """Return sums over the first, the later and all lags, and their errors, (n_features, 3) each.

    `of` (n_lags, n_features, n_lags, n_features) is the covariance of `phi`.
    """
    early = np.arange(len(phi))[:, None] < first
    chosen = np.stack([early, ~early, np.ones_like(early)]).astype(np.float64)
    variance = np.einsum("skj,kjlj,slj->js", chosen, of, chosen)
    return np.einsum("skj,kj->js", chosen, phi), np.sqrt(np.maximum(variance, 0.0))


def _bands(middle: Floats, half: Floats) -> Floats:
    """Return intervals, (..., 2)."""
    return np.stack([middle - half, middle + half], axis=-1)
