"""Intervals for theta and the lag weights, from the rank-one model linearised at its refit.

Short Gibbs chains understate the spread of the posterior, so what an estimate says of its own error
comes from least squares instead (docs/model.md 7, Certainty). Where that would not hold, nothing is
said, with the reason.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import chdtri, stdtrit

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.moments import RowMoments
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.rank_one_posterior import Posterior
from lhb_engine.posterior.rank_one_refit import RankOneRefit

LEVEL = 0.95
POSSIBLE = 0.05  # lags that are active in a larger share of the draws may be active
LEAST_ROWS = 100
ROWS_AN_UNKNOWN = 2
MOST_UNKNOWNS = 400  # the refit costs their square a row
MOST_OF_ALL_LAGS = 200  # unknowns, up to which all lags are refitted
CLEAR = 5.0  # standard errors of an active lag's weight from which on it has an interval
UNCLEAR = (
    f"Weights within {CLEAR:.0f} standard errors of 0 have no interval: noise helped choose them."
)
UNCERTAIN = 0.1  # of (7.18): error of the lag weights over their size, squares
LEAST_CERTAIN = 0.5  # of |w|^2: beside (7.18)
WIDE = 0.3  # radians: beyond this angle the model is not linear enough
WIDER = 1.1  # for what linearisation and the choice of lags leave out


@dataclass(frozen=True)
class Certainty:
    """What an estimate says of its own error, in the units of the rows; intervals are of 95%.

    `angle` and `angle_95` are the root mean square and the bound of the angle between the estimated
    and the true theta, radians. `lag_weights` (n, 2) are those of the active `lags`, nan where a
    weight is within `CLEAR` standard errors of 0. `profiles` (n_lags, n_features, 2) are those of
    features' own lag profiles, and `sums` (n_features, 3, 2) those of their sums over the first
    lags, the later ones and all, where these decide.
    """

    angle: float
    angle_95: float
    theta: Floats
    lags: Ints
    lag_weights: Floats
    effects: Floats
    profiles: Floats | None = None
    sums: Floats | None = None

    @property
    def unclear(self) -> str | None:
        """Why weights of active lags have no interval; None if all have one."""
        return UNCLEAR if np.isnan(self.lag_weights).any() else None

    def intervals(self) -> dict[str, Any]:
        """Return the intervals as a JSON object, with None for one that is not given."""
        found = {
            "theta": self.theta.tolist(),
            "lags": self.lags.tolist(),
            "lag_weights": [None if np.isnan(w[0]) else w.tolist() for w in self.lag_weights],
        }
        own = {"lag_profiles": self.profiles, "lag_sums": self.sums}
        return (
            found
            | ({"effects": self.effects.tolist()} if len(self.effects) else {})
            | {name: bands.tolist() for name, bands in own.items() if bands is not None}
        )


def certainty(
    rows: AlignedRounds,
    found: Posterior,
    active: Ints,
    rho: float,
    signed: bool = False,
    past: RowMoments | None = None,
) -> Certainty | str:
    """Return intervals by docs/model.md (7.17), or the reason why none are given.

    `rows`, with independent noise, are those of the posterior `found`; or, with `past`, the moments
    of all of them, the latest: they tell how the errors depend on each other, and whether they
    drift. `rho` is the autocorrelation that was taken out of the rows; where trajectories have
    levels, the intraclass correlation that was taken out of `past` alone.
    """
    refit = _refit(rows, found, rho, past)
    if isinstance(refit, str):
        return refit
    n, m, n_turns = refit.n_rows, len(refit.lags), refit.basis.shape[1]
    basis = refit.basis[: found.n_features]
    n_unknown = len(refit.inverse)
    doubt, size = refit.variance * np.diag(refit.inverse)[:m], float(refit.weights @ refit.weights)
    faint = float(doubt[found.inclusion[refit.lags] > POSSIBLE].sum()) > UNCERTAIN * size
    certain = 1.0 - float(doubt.sum()) / size  # the share of |w|^2 that is not noise
    if faint or certain < LEAST_CERTAIN:
        return "The lag weights are not known well enough yet."
    unlike = _unlike(refit, rows.n_lags, signed)
    if unlike:
        return unlike
    places, turn = np.searchsorted(refit.lags, active), slice(0, n_turns)
    beside = np.arange(m + n_turns + 1, n_unknown)
    of = np.concatenate([np.arange(m, m + n_turns), places, beside])
    covariances = (
        [refit.by_frequency(of)] if _is_coloured(rows, rho) else [refit.plain(of), refit.robust(of)]
    )
    turns = [basis @ one[turn, turn] @ basis.T / certain**2 for one in covariances]
    quantile = WIDER * float(stdtrit(n - n_unknown, 0.5 + LEVEL / 2))
    total = float(np.trace(turns[0]))
    ratio = max(float(np.trace(one)) for one in turns) / total if total > 0 else 1.0
    angle = float(np.sqrt(total * ratio))
    if angle > WIDE:
        return "The direction is not known well enough yet."
    turned = np.sqrt(np.max([np.maximum(np.diag(one), 0.0) for one in turns], axis=0))
    errors = np.sqrt(np.max([np.diag(one) for one in covariances], axis=0))[n_turns:]
    error, effect_error = errors[: len(places)], errors[len(places) :]
    active_weights = refit.weights[places]
    weights = around(active_weights, quantile * error)
    if not signed:
        weights = np.maximum(weights, 0.0)
    weights[np.abs(active_weights) < CLEAR * error] = np.nan
    return Certainty(
        angle=angle,
        angle_95=bound(turns[0] * ratio) * quantile / float(stdtrit(1e9, 0.5 + LEVEL / 2)),
        theta=np.clip(around(found.theta[: found.n_features], quantile * turned), -1.0, 1.0),
        lags=active,
        lag_weights=holding(weights, found.weights[active]),
        effects=around(refit.effects[1:], quantile * effect_error),
    )


def _unlike(refit: RankOneRefit, horizon: int, signed: bool) -> str:
    """Return in what the rows are not as the model says; empty if they are."""
    if refit.drifts():
        return "The rewards drift in a way that the model does not explain."
    if refit.turns(horizon):
        return "The earlier rounds and the later ones speak for different directions."
    errors = np.sqrt(refit.variance * np.diag(refit.inverse)[: len(refit.lags)])
    if not signed and bool((refit.weights < -CLEAR * errors).any()):
        return "A lag weight is clearly negative: set the option `signed`."
    return ""


def around(middle: Floats, half: Floats) -> Floats:
    """Return intervals, (..., 2)."""
    return np.stack([middle - half, middle + half], axis=-1)


def holding(intervals: Floats, values: Floats) -> Floats:
    """Return intervals, (..., 2), as wide as to hold the estimates, which are shrunk, (...)."""
    low, high = np.minimum(intervals[..., 0], values), np.maximum(intervals[..., 1], values)
    return np.stack([low, high], axis=-1)


def _refit(
    rows: AlignedRounds, found: Posterior, rho: float, past: RowMoments | None
) -> RankOneRefit | str:
    """Refit all lags if there are rows enough, else those that may be active; or say why not.

    Lags that may be active are so because noise made them large, and others are left out: both
    turn what is fitted beside them. With all lags nothing is chosen. Where autocorrelation was
    taken out, what is left of it may be a season, and all lags together can follow that.
    """
    n, n_lags = rows.n_rows if past is None else past.n_rows, len(found.inclusion)
    possible = np.flatnonzero(found.inclusion > POSSIBLE)
    beside = rows.contexts.shape[1] + rows.covariates.shape[1]
    n_unknown = len(possible) + beside
    if n_unknown > MOST_UNKNOWNS:
        return f"More than {MOST_UNKNOWNS} unknowns."
    if len(possible) == 0 or n < max(LEAST_ROWS, ROWS_AN_UNKNOWN * n_unknown):
        return "Too few rows for the lags that may be active."
    refit = None
    white = not _is_coloured(rows, rho)
    fit = partial(
        RankOneRefit.of,
        rows,
        found.theta,
        found.weights,
        past=past,
        rho=rho,
        n_features=found.n_features,
    )
    if white and n_lags + beside <= min(MOST_OF_ALL_LAGS, n // ROWS_AN_UNKNOWN):
        refit = fit(lags=np.arange(n_lags))
    refit = refit or fit(lags=possible)
    return refit or "Some features cannot be told from each other, or from a baseline."


def _is_coloured(rows: AlignedRounds, rho: float) -> bool:
    """Whether noise is correlated over time; rho of levels is none of that."""
    return rho != 0.0 and not rows.levels


def bound(covariance: Floats) -> float:
    """Return the 95% quantile of a normal vector's length, by Satterthwaite's approximation."""
    total, square = float(np.trace(covariance)), float(np.sum(covariance**2))
    if square == 0.0:
        return 0.0
    return float(np.sqrt(square / total * chdtri(total**2 / square, 1.0 - LEVEL)))
