"""Intervals where features may pay at lags of their own: least squares of all their lags.

What holds for any form of the lag profiles needs none of them: every lag of every feature is a
column, and nothing is chosen (docs/model.md 14).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import ndtri, stdtrit

from lhb_engine.design.moments import RowMoments
from lhb_engine.estimate import first_lags
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.fit_data import FitData
from lhb_engine.posterior.linearised_intervals import (
    CONFIDENCE,
    LEAST_ROWS,
    MOST_UNKNOWNS,
    POSSIBLE,
    ROWS_AN_UNKNOWN,
    WIDE,
    Certainty,
    around,
    bound,
    clear_of_0,
    holding,
)
from lhb_engine.posterior.rank_one_posterior import Posterior, units

ALIKE = 1e-10  # eigenvalue over the largest, of scaled columns that cannot be told apart
SEEN = 1e-6  # of a direction's length: what is less of it takes no part
MOST_FEATURES = 64  # whose totals have a covariance
MOST_LAGS = 100  # that have bands of draws, of those that may be active: the farthest ones
ENDS = (0.025, 0.975)  # of such a band
WIDER_TOTALS = 1.5  # than draws, which understate what is not known
WIDER_SMOOTH = 1.5  # of draws of smooth lag profiles: true ones may have edges
TOO_FEW = "Too few rows to know every lag of every feature, which shared `profiles` need not."
TOO_ALIKE = "Some features cannot be told from each other, or from a baseline."
OWN_LAGS = "Features may pay at lags of their own: the direction is not known well enough yet."
_NONE: Ints = np.zeros(0, np.int64)


def misfit(forms: Sequence[Posterior], told: "LeastSquares | str", beyond: bool = False) -> float:
    """Return the square a feature of how far least squares are from shared profiles in use.

    The square is what was measured less what chance expects; 0 where rows do not tell, and, with
    `beyond`, where the square is within chance's 95% quantile.
    """
    if forms[0].form != "shared" or isinstance(told, str):
        return 0.0
    off = told.total - forms[0].totals.mean(axis=0)
    square, chance = float(off @ off), float(np.trace(told.spread))
    if beyond and square <= bound(told.spread) ** 2:
        return 0.0
    return max(0.0, square - chance) / len(off)


def are_shared(forms: Sequence[Posterior]) -> bool:
    """Whether all forms take it for granted that several features pay at the same lags."""
    return forms[0].n_features > 1 and all(one.form == "shared" for one in forms)


def _drawn(forms: Sequence[Posterior], of: Callable[[Posterior], Floats]) -> Floats:
    """Return as many draws of each form, (n_draws, ...), of what `of` says."""
    parts = [of(one) for one in forms]
    most = max(map(len, parts))
    parts = [one[np.arange(most) * len(one) // most] for one in parts]
    for at, one in enumerate(forms):
        if one.form == "smooth":
            middle = parts[at].mean(axis=0)
            parts[at] = middle + WIDER_SMOOTH * (parts[at] - middle)
    return np.concatenate(parts)


def drawn_totals(forms: Sequence[Posterior], apart: float = 0.0) -> Floats:
    """Return draws of what an action pays in all by each feature, (n_draws, n_features).

    Each form of lag profiles that may hold gives as many draws (docs/model.md (14.6)), with errors
    of a variance of `apart` a feature.
    """
    every = _drawn(forms, lambda one: one.totals)
    if apart == 0.0:
        return every
    errors = np.random.default_rng(0).standard_normal(every.shape)
    errors -= errors.mean(axis=0)
    return np.asarray(every + np.sqrt(apart) * errors / errors.std(axis=0))


def drawn_intervals(forms: Sequence[Posterior]) -> dict[str, Any]:
    """Return `Estimate.intervals` of the first form by draws of all, not shown to hold: (14.8)."""
    used, n = forms[0], forms[0].n_features
    theta, own = used.theta[:n], used.weights[:, :n] if used.weights.ndim == 2 else None
    drawn = _drawn(forms, lambda one: one.along)
    weights = _bands(drawn, used.weights if own is None else own @ theta)
    reach = np.abs(weights).max(axis=1) * ((drawn != 0.0).mean(axis=0) > POSSIBLE)
    lags = np.sort(np.argsort(-reach, kind="stable")[: min(MOST_LAGS, np.count_nonzero(reach))])
    bands = {
        "theta": np.clip(_bands(units(drawn_totals(forms)), theta), -1.0, 1.0).tolist(),
        "lags": lags.tolist(),
        "lag_weights": weights[lags].tolist(),
        "drawn": True,
    }
    if own is not None and own.size <= MOST_UNKNOWNS:
        bands["lag_profiles"] = _bands(_drawn(forms, lambda one: one.phi), own).tolist()
    return bands


def _bands(drawn: Floats, values: Floats) -> Floats:
    """Return bands of draws (n_draws, ...) that hold some values (...), (..., 2)."""
    middle = drawn.mean(axis=0)
    ends = middle + WIDER_TOTALS * (np.quantile(drawn, ENDS, axis=0) - middle)
    least = 0.0 if drawn.min() >= 0.0 else -np.inf
    return holding(np.moveaxis(np.maximum(ends, least), 0, -1), values)


def totals(
    data: FitData,
    forms: Sequence[Posterior],
    told: "LeastSquares | str" = TOO_FEW,
    unsaid: Ints = _NONE,
) -> dict[str, Any] | str:
    """Return what an action pays by each feature in all, as `Estimate.totals`, or why not.

    Draws of the forms that may hold, the one in use first, say how much (docs/model.md (14.6));
    what the rows do not tell, and the prior does, is unknown. How far least squares are from shared
    profiles, beyond chance, counts as an error. `unsaid` are covariates that count for nothing.
    """
    n_features = forms[0].n_features
    if data.n_lags * n_features > MOST_UNKNOWNS or n_features > MOST_FEATURES:
        return f"More than {MOST_UNKNOWNS} unknowns, or {MOST_FEATURES} features."
    rows = data.summed().rows.without(unsaid)
    squares = np.diag(rows.matrix)[:-1]
    size = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    values, axes = np.linalg.eigh(rows.matrix[:-1, :-1] / np.outer(size, size))
    axes = (axes / size[:, None])[:, values < ALIKE * values[-1]]
    axes = (axes / np.linalg.norm(axes, axis=0))[: rows.n_lags * rows.dim]
    adds = axes.reshape(rows.n_lags, rows.dim, axes.shape[1]).sum(axis=0)
    _, sizes, directions = np.linalg.svd(adds[:n_features].T, full_matrices=False)
    half = WIDER_TOTALS * float(ndtri(0.5 + CONFIDENCE / 2))
    middle = forms[0].totals.mean(axis=0)
    about = drawn_totals(forms) - middle
    covariance = about.T @ about / (len(about) - 1) + misfit(forms, told) * np.eye(n_features)
    return {
        "values": middle.tolist(),
        "squares": (half**2 * covariance).tolist(),
        "unknown": directions[sizes > SEEN * sizes.max(initial=0.0)].tolist(),
        "if_shared": isinstance(told, str) and are_shared(forms),
    }


@dataclass(frozen=True)
class LeastSquares:
    """Least squares of all lags of all features, beside a baseline and covariates.

    `best` (p,) are the unknowns, of which the first are the lags of the features and perhaps of a
    presample, (n_lags, dim); `half` (p, p), lower triangular, has `(half half')^-1` as their
    covariance, with `n_free` degrees of freedom. `total` (n_features,) is the sum over lags, and
    `spread` (n_features, n_features) its covariance.
    """

    best: Floats
    half: Floats
    n_free: int
    n_lags: int
    dim: int
    total: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: RowMoments, n_features: int) -> "LeastSquares | str":
        """Fit rows with independent noise, or say why nothing can be said by them."""
        h, d, n_unknown = rows.n_lags, rows.dim, len(rows.matrix) - 1
        if rows.n_rows < max(LEAST_ROWS, ROWS_AN_UNKNOWN * n_unknown):
            return TOO_FEW
        matrix, right = rows.matrix[:-1, :-1].copy(), rows.matrix[:-1, -1]
        before = np.arange(h * d).reshape(h, d)[:, n_features:]  # the presample, at lag 0 nothing
        matrix[before, before] += matrix[before, before] == 0.0
        size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
        try:
            scaled = np.linalg.cholesky(matrix / np.outer(size, size))
        except np.linalg.LinAlgError:
            return TOO_ALIKE
        if np.diag(scaled).min() ** 2 < ALIKE:
            return TOO_ALIKE
        best = cho_solve((scaled, True), right / size) / size
        variance = (rows.square - float(best @ right)) / (rows.n_rows - n_unknown)
        half = scaled * (size[:, None] / np.sqrt(max(variance, 1e-300)))
        adds = np.zeros((n_unknown, n_features))
        adds[: h * d] = np.tile(np.eye(d)[:, :n_features], (h, 1))
        left = solve_triangular(half, adds, lower=True)
        told = cls(best, half, rows.n_rows - n_unknown, h, d, adds.T @ best, left.T @ left)
        is_known = float(np.trace(told.turned)) <= WIDE**2
        return told if is_known else "The direction is not known well enough yet."

    @cached_property
    def theta(self) -> Floats:
        """The direction of the total, (n_features,)."""
        return self.total / max(float(np.linalg.norm(self.total)), 1e-300)

    @cached_property
    def turned(self) -> Floats:
        """The covariance of `theta`, (n_features, n_features)."""
        across = np.eye(len(self.total)) - np.outer(self.theta, self.theta)
        return across @ self.spread @ across / max(float(self.total @ self.total), 1e-300)


def profile_certainty(told: LeastSquares, posterior: Posterior, active: Ints) -> Certainty | str:
    """Return intervals by docs/model.md (14.5), or the reason why none are given."""
    h, d, n_features = told.n_lags, told.dim, posterior.n_features
    quantile = float(stdtrit(told.n_free, 0.5 + CONFIDENCE / 2))
    inverse = solve_triangular(told.half, np.eye(len(told.best)), lower=True)
    covariance, phi = inverse.T @ inverse, told.best[: h * d].reshape(h, d)[:, :n_features]
    of = covariance[: h * d, : h * d].reshape(h, d, h, d)[:, :n_features, :, :n_features]
    chosen, wider = posterior.theta[:n_features], quantile / float(ndtri(0.5 + CONFIDENCE / 2))
    apart = float(np.arccos(np.clip(chosen @ told.theta, -1.0, 1.0)))
    angle = float(np.hypot(apart, np.sqrt(np.trace(told.turned))))
    if angle > WIDE:
        return OWN_LAGS
    weights, estimated = phi[active] @ chosen, posterior.weights[active]
    error = np.sqrt(np.einsum("kikj,i,j->k", of[active][:, :, active], chosen, chosen))
    errors = np.sqrt(np.diag(covariance))
    beside = slice(h * d + 1, len(errors))
    profiles = sums = None
    if posterior.weights.ndim == 2:
        own = posterior.weights[:, :n_features]
        estimated, first = own[active] @ chosen, first_lags(own)
        bands = around(phi, quantile * errors[: h * d].reshape(h, d)[:, :n_features])
        profiles = holding(bands, own)
        middle, half = _sums(phi, of, first)
        sums = holding(around(middle, quantile * half), _sums(own, of, first)[0])
    shown = holding(clear_of_0(weights, error, quantile), estimated)
    turned = quantile * np.sqrt(np.diag(told.turned))
    return Certainty(
        angle=angle,
        angle_95=apart + wider * bound(told.turned),
        theta=np.clip(holding(around(told.theta, turned), chosen), -1.0, 1.0),
        lags=active,
        lag_weights=shown,
        effects=around(told.best[beside], quantile * errors[beside]),
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
