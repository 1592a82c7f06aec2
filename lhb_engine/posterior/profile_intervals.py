"""Intervals where features may pay at lags of their own: least squares of all their lags.

What holds for any form of the lag profiles needs none of them: every lag of every feature is a
column, and nothing is chosen (docs/model.md 14).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from lhb_engine.design.moments import RowMoments
from lhb_engine.estimate import first_lags
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.linearised_intervals import (
    CLEAR,
    LEAST_ROWS,
    LEVEL,
    MOST_UNKNOWNS,
    ROWS_AN_UNKNOWN,
    WIDE,
    Certainty,
    around,
    bound,
    holding,
)
from lhb_engine.posterior.rank_one_posterior import Posterior

ALIKE = 1e-10  # eigenvalue over the largest, of scaled columns that cannot be told apart
SEEN = 1e-6  # of a direction's length: what is less of it takes no part
MOST_FEATURES = 64  # whose totals have a covariance
WIDER_TOTALS = 1.5  # than draws, which understate what is not known
WIDER_SMOOTH = 1.5  # of draws of smooth lag profiles: true ones may have edges
_NONE: Ints = np.zeros(0, np.int64)


def drawn_totals(forms: Sequence[Posterior]) -> Floats:
    """Return draws of what an action pays in all by each feature, (n_draws, n_features).

    They are as many of each form of lag profiles that may hold (docs/model.md (14.6)).
    """
    drawn = [one.totals for one in forms]
    most = max(map(len, drawn))
    drawn = [one[np.arange(most) * len(one) // most] for one in drawn]
    for at, one in enumerate(forms):
        if one.form == "smooth":
            middle = drawn[at].mean(axis=0)
            drawn[at] = middle + WIDER_SMOOTH * (drawn[at] - middle)
    return np.concatenate(drawn)


def totals(data: FitData, forms: Sequence[Posterior], unsaid: Ints = _NONE) -> dict[str, Any] | str:
    """Return what an action pays by each feature in all, as `Estimate.totals`, or why not.

    Draws of the forms that may hold, the one in use first, say how much (docs/model.md (14.6));
    what the rows do not tell, and the prior does, is unknown. `unsaid` are covariates that count
    for nothing.
    """
    n_features = forms[0].n_features
    if data.n_lags * n_features > MOST_UNKNOWNS or n_features > MOST_FEATURES:
        return f"More than {MOST_UNKNOWNS} unknowns, or {MOST_FEATURES} features."
    rows = data.summed().rows.without(unsaid)
    values, axes = _scaled_axes(rows)
    axes = axes[:, values < ALIKE * values[-1]]
    axes = (axes / np.linalg.norm(axes, axis=0))[: rows.n_lags * rows.dim]
    adds = axes.reshape(rows.n_lags, rows.dim, axes.shape[1]).sum(axis=0)
    _, sizes, directions = np.linalg.svd(adds[:n_features].T, full_matrices=False)
    half = WIDER_TOTALS * float(ndtri(0.5 + LEVEL / 2))
    middle = forms[0].totals.mean(axis=0)
    about = drawn_totals(forms) - middle
    return {
        "values": middle.tolist(),
        "squares": (half**2 / (len(about) - 1) * (about.T @ about)).tolist(),
        "unknown": directions[sizes > SEEN * sizes.max(initial=0.0)].tolist(),
    }


def _scaled_axes(rows: RowMoments) -> tuple[Floats, Floats]:
    """Return the eigenvalues of products of columns of length 1, and the axes in theirs."""
    squares = np.diag(rows.matrix)[:-1]
    size = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    values, axes = np.linalg.eigh(rows.matrix[:-1, :-1] / np.outer(size, size))
    return values, axes / size[:, None]


def profile_certainty(rows: RowMoments, found: Posterior, active: Ints) -> Certainty | str:
    """Return intervals by docs/model.md (14.5), or the reason why none are given.

    `rows` have independent noise.
    """
    h, d, n_features = rows.n_lags, rows.dim, found.n_features
    n, n_unknown = rows.n_rows, len(rows.matrix) - 1
    if n < max(LEAST_ROWS, ROWS_AN_UNKNOWN * n_unknown):
        return "Too few rows to know every lag of every feature."
    values, axes = _scaled_axes(rows)
    if values[0] < ALIKE * values[-1]:
        return "Some features cannot be told from each other, or from a baseline."
    inverse = (axes / values) @ axes.T
    best = inverse @ rows.matrix[:-1, -1]
    left = max(rows.square - float(best @ rows.matrix[:-1, -1]), 0.0)
    covariance = inverse * (left / (n - n_unknown))
    quantile = float(stdtrit(n - n_unknown, 0.5 + LEVEL / 2))
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
    angle_95 = bound(turned) * quantile / float(stdtrit(1e9, 0.5 + LEVEL / 2))
    chosen = found.theta[:n_features]
    if float(np.arccos(np.clip(chosen @ theta, -1.0, 1.0))) > angle_95:
        return "Features may pay at lags of their own: the direction is not known well enough yet."
    weights, said = phi[active] @ chosen, found.weights[active]
    error = np.sqrt(np.einsum("kikj,i,j->k", of[active][:, :, active], chosen, chosen))
    errors = np.sqrt(np.diag(covariance))
    beside = slice(h * d + 1, n_unknown)
    profiles = sums = None
    if found.weights.ndim == 2:
        own = found.weights[:, :n_features]
        said, first = own[active] @ chosen, first_lags(own)
        bands = around(phi, quantile * errors[: h * d].reshape(h, d)[:, :n_features])
        profiles = holding(bands, own)
        middle, half = _sums(phi, of, first)
        sums = holding(around(middle, quantile * half), _sums(own, of, first)[0])
    shown = holding(around(weights, quantile * error), said)
    shown[np.abs(weights) < CLEAR * error] = np.nan
    return Certainty(
        angle=angle,
        angle_95=angle_95,
        theta=np.clip(
            holding(around(theta, quantile * np.sqrt(np.diag(turned))), chosen), -1.0, 1.0
        ),
        lags=active,
        lag_weights=shown,
        effects=around(best[beside], quantile * errors[beside]),
        profiles=profiles,
        sums=sums,
    )


def _sums(phi: Floats, of: Floats, first: Ints) -> tuple[Floats, Floats]:
    """Return sums over the first, the later and all lags, and their errors, (n_features, 3) each.

    `of` (n_lags, n_features, n_lags, n_features) is the covariance of `phi`.
    """
    early = np.arange(len(phi))[:, None] < first
    chosen = np.stack([early, ~early, np.ones_like(early)]).astype(np.float64)
    variance = np.einsum("skj,kjlj,slj->js", chosen, of, chosen)
    return np.einsum("skj,kj->js", chosen, phi), np.sqrt(np.maximum(variance, 0.0))
