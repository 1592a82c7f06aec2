"""Intervals for theta and the lag weights, from the rank-one model linearised at its refit.

Short Gibbs chains understate the spread of the posterior, so what an estimate says of its own error
comes from least squares instead (docs/model.md 7, Certainty). Where that would not hold, nothing is
said, with the reason. Equation numbers are those of docs/model.md.
"""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import chdtri, fdtrc, log_ndtr, ndtri, stdtrit

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import in_time
from lhb_engine.design.levels import without_levels
from lhb_engine.design.moments import RowMoments
from lhb_engine.design.scaling import power_of_two
from lhb_engine.estimate import lagged_sums
from lhb_engine.history import Floats, Ints
from lhb_engine.posterior.rank_one_posterior import Posterior

CONDITION = 1e10  # of the scaled normal equations
DRIFT_ROWS, MOST_PARTS, TURN_PARTS, CHANCE = 25, 200, (1 / 4, 1 / 2, 3 / 4), 1e-3  # of (7.19)
STEPS, HALVINGS = 4, 40  # of Gauss and Newton; of where the end of an interval lies
SHIFTS = 2  # rounds over which errors may be correlated in the robust covariance
LEVERAGE = 0.95  # a frequency of more counts as one of so much
PLACES = 2048  # that are indexed at once


@dataclass(frozen=True)
class RankOneRefit:
    """The least-squares fit of theta, some lag weights and covariates, and its linearisation.

    `effects` (q,) are the baseline and the effects of the covariates; `basis` (dim, n_turns) is an
    orthonormal basis of theta's complement, and the axis of the score before round 1, if any.
    `jacobian` (n, m + n_turns + q) is J of (5.9), in the order of the rounds, or its latest rows,
    `errors` (n,) the residuals of these, `rounds` (n,) their last rounds in their trajectories;
    `inverse` is (J'J)^-1 and `variance` s^2 of (5.9), from `n_rows`.
    """

    theta: Floats
    lags: Ints
    weights: Floats
    effects: Floats
    basis: Floats
    jacobian: Floats
    inverse: Floats
    errors: Floats
    rounds: Ints
    variance: float
    n_rows: int

    @classmethod
    def of(
        cls,
        rows: AlignedRounds,
        start: Posterior,
        lags: Ints,
        moments: RowMoments | None = None,
        rho: float = 0.0,
    ) -> "RankOneRefit | None":
        """Take Gauss-Newton steps from a posterior; None where J is singular.

        With `moments`, on all the rows that they are of. Where trajectories have levels, these
        are taken out of `moments`, and are here with the intraclass correlation `rho`. Theta has
        length 1 in its features; a number after them is free.
        """
        order = np.flatnonzero(rows.number > 0)
        order = order[np.argsort(rows.number[order], kind="stable")]
        x, m, d, theta = rows.contexts, len(lags), start.n_features, start.theta
        columns = x if moments is None else np.diag(moments.gram).reshape(-1, moments.dim)
        has_before = d < len(theta) and bool(columns[:, d].any())
        beside = rows.beside[order]
        weights, effects = start.weights[lags], np.zeros(beside.shape[1])
        every = np.zeros(len(start.weights))
        for step in range(STEPS):
            basis = _basis(theta, d, has_before)
            if moments is None or step == STEPS - 1:
                every[lags] = weights
                filtered = lagged_sums(x, every)
                errors = (rows.y - filtered @ theta)[order] - beside @ effects
                both = np.column_stack([(filtered @ basis)[order], beside, errors])
                both = _with_lagged(x @ theta, order, lags, both)
                if rows.levels:
                    both = without_levels(both, rows.level[order], rows.intercept[order], rho)
                jacobian, errors = both[:, :-1], both[:, -1]
            if moments is None:
                gram, right = jacobian.T @ jacobian, jacobian.T @ errors
                square, n_rows = float(errors @ errors), len(errors)
            else:
                gram, right, square = _products(moments, theta, weights, lags, basis, effects)
                n_rows = moments.n_rows
            size = np.sqrt(np.diag(gram))
            if not (size > 0).all():
                return None
            values, axes = np.linalg.eigh(gram / np.outer(size, size))
            if values[0] * CONDITION < values[-1]:
                return None
            inverse = (axes / values) @ axes.T / np.outer(size, size)
            if step == STEPS - 1:
                break
            change = inverse @ right
            n_turns = basis.shape[1]
            theta = theta + basis @ change[m : m + n_turns]
            length = float(np.linalg.norm(theta[:d]))
            theta, weights = theta / length, (weights + change[:m]) * length
            effects += change[m + n_turns :]
        variance = square / max(n_rows - jacobian.shape[1], 1)
        found, rounds = (theta, lags, weights, effects, basis), rows.since[order]
        return cls(*found, jacobian, inverse, errors, rounds, variance, n_rows)

    def plain(self, of: Ints) -> Floats:
        """Return the covariance (5.9) of some of the unknowns, (len(of), len(of))."""
        return np.asarray(self.variance * self.inverse[np.ix_(of, of)])

    def robust(self, of: Ints) -> Floats:
        """Return the Newey-West covariance, over two rounds, of unknowns, (len(of), len(of))."""
        moved = (self.jacobian @ self.inverse[:, of]) * self.errors[:, None]
        out = moved.T @ moved
        for shift in range(1, SHIFTS + 1):
            cross = moved[shift:].T @ moved[:-shift]
            out += (1.0 - shift / (SHIFTS + 1)) * (cross + cross.T)
        n, p = self.n_rows, self.jacobian.shape[1]
        return np.asarray(out * (n / len(self.errors)) * (n / (n - p)))

    def by_frequency(self, of: Ints, n_columns: int = 32) -> Floats:
        """Return the covariance (7.25), errors of any spectrum, (len(of), len(of)); by parts."""
        n, p = self.jacobian.shape
        half, leverage = np.linalg.cholesky(self.inverse), np.zeros(n)
        for first in range(0, p, n_columns):
            columns = np.fft.fft(self.jacobian @ half[:, first : first + n_columns], axis=0)
            leverage += np.sum(np.abs(columns) ** 2, axis=1) / n
        size = np.abs(np.fft.fft(self.errors)) / (1.0 - np.minimum(leverage, LEVERAGE)) / n
        moved = np.fft.fft(self.jacobian @ self.inverse[:, of], axis=0) * size[:, None]
        out = moved.real.T @ moved.real + moved.imag.T @ moved.imag
        return np.asarray(out * (self.n_rows / n))

    def _chance(self, columns: Any) -> float:
        """Return how likely errors go as far with columns that J lacks, (n, any), by chance."""
        cross, along = columns.T @ self.jacobian, columns.T @ self.errors
        spread = columns.T @ columns - cross @ self.inverse @ cross.T
        by, _, rank, _ = np.linalg.lstsq(spread, along, rcond=1.0 / CONDITION)
        more, square, n_free = int(rank), float(along @ by), self.n_rows - len(self.inverse)
        rest, free = self.variance * n_free - square, n_free - more
        if min(rest, free, more) <= 0:
            return 1.0
        return float(fdtrc(more, free, square / more * free / rest))

    def drifts(self) -> bool:
        """Whether means of the errors over 25 rows vary more than noise would, by (7.19)."""
        n = len(self.errors)
        part = np.arange(n) * min(max(n // DRIFT_ROWS, 4), MOST_PARTS) // n
        return self._chance(csr_array((np.ones(n), (np.arange(n), part)))) < CHANCE

    def turns(self) -> bool:
        """Whether earlier rows and later ones speak for different directions, by (7.19).

        Asked where the rows of all of the fit are here.
        """
        n, first = len(self.errors), len(self.lags)
        of = self.jacobian[:, first : first + self.basis.shape[1] + 1]  # theta and the baseline
        parts = [np.arange(n)[:, None] < n * part for part in TURN_PARTS]
        least = min(self._chance(of * part) for part in parts) if n == self.n_rows else 1.0
        return least < CHANCE / len(TURN_PARTS)

    def begins_unlike(self, horizon: int) -> bool:
        """Whether the first rounds of trajectories have effects of their own, by (7.19)."""
        last = min(horizon, MOST_PARTS)
        first = np.flatnonzero(self.rounds <= last)
        at, shape = (first, self.rounds[first]), (len(self.rounds), last + 1)
        return self._chance(csr_array((np.ones(len(first)), at), shape)) < CHANCE


def _with_lagged(signal: Floats, places: Ints, lags: Ints, others: Floats) -> Floats:
    """Return a row a place: the signal, (n,), at some lags, and after it the other columns."""
    top, m = int(lags.max(initial=0)), len(lags)
    padded = np.concatenate([np.zeros(top), signal])
    out = np.empty((len(places), m + others.shape[1]))
    for start in range(0, len(places), PLACES):  # indices of all at once would be as large as `out`
        part = slice(start, start + PLACES)
        out[part, :m] = padded.take((places[part] + top)[:, None] - lags)
    out[:, m:] = others
    return out


def _basis(theta: Floats, d: int, has_before: bool) -> Floats:
    """Return the directions in which theta may move, (len(theta), d - 1 or d)."""
    basis = np.zeros((len(theta), d - 1 + has_before))
    basis[:d, : d - 1] = np.linalg.qr(np.column_stack([theta[:d], np.eye(d)]))[0][:, 1:d]
    if has_before:
        basis[d, -1] = 1.0
    return basis


def _products(
    moments: RowMoments, theta: Floats, weights: Floats, lags: Ints, basis: Floats, effects: Floats
) -> tuple[Floats, Floats, float]:
    """Return J'J, J'e and e'e: the columns of J and e are combinations of those of [X, Z, y]."""

    def of_columns(products: Floats) -> Floats:
        """Combine products with the columns of [X, Z] to those with the columns of J."""
        lagged = products[:, : moments.n_lagged].reshape(-1, moments.n_lags, moments.dim)[:, lags]
        turned = np.einsum("nkd,k->nd", lagged, weights) @ basis
        return np.concatenate([lagged @ theta, turned, products[:, moments.n_lagged :]], axis=1)

    by = np.concatenate([weights, np.zeros(basis.shape[1]), effects])
    beside = of_columns(moments.matrix[:, :-1])
    left = moments.matrix[:, -1] - beside @ by
    right = of_columns(left[None, :-1])[0]
    return of_columns(beside[:-1].T), right, float(left[-1] - right @ by)


CONFIDENCE = 0.95
POSSIBLE = 0.05  # lags that are active in a larger share of the draws may be active
LEAST_ROWS, ROWS_AN_UNKNOWN = 100, 2
MOST_UNKNOWNS = 400  # the refit costs their square a row
MOST_OF_ALL_LAGS = 200  # unknowns, up to which all lags are refitted
FREE_ROWS, BELOW = 25, 3.5  # rows beyond the unknowns, standard errors below 0: a lag is negative
CLEAR = 5.0  # standard errors of an active lag's weight from which on it has an interval
UNCLEAR = "Weights within 5 standard errors of 0 have no interval: noise helped choose them."
UNCERTAIN, LEAST_CERTAIN = 0.1, 0.5  # of (7.18), and beside: shares of |w|^2
WIDE = 0.3  # radians: beyond this angle the model is not linear enough
WIDER = 1.1  # for what linearisation and the choice of lags leave out
NEGATIVE = "A lag weight is clearly negative: set the option `signed`."


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
        effects = self.effects if len(self.effects) else None
        more = {"effects": effects, "lag_profiles": self.profiles, "lag_sums": self.sums}
        return {
            "theta": self.theta.tolist(),
            "lags": self.lags.tolist(),
            "lag_weights": [None if np.isnan(w[0]) else w.tolist() for w in self.lag_weights],
        } | {name: bands.tolist() for name, bands in more.items() if bands is not None}


def certainty(
    rows: AlignedRounds,
    posterior: Posterior,
    active: Ints,
    rho: float,
    signed: bool = False,
    moments: RowMoments | None = None,
) -> Certainty | str:
    """Return intervals by docs/model.md (7.17), or the reason why none are given.

    `rows`, with independent noise, are the rows of `posterior`. With the `moments` of all
    rows, `rows` are the latest rows: their errors show how errors depend on each other, and whether
    errors drift. `rho` is the autocorrelation that was taken out of the rows; where trajectories
    have levels, the intraclass correlation that was taken out of `moments` alone.
    """
    theta = told = posterior.theta[: posterior.n_features]
    refit = _refit(rows, posterior, rho, moments)
    if not isinstance(refit, str) and refit.begins_unlike(rows.n_lags):
        later = rows.since > rows.n_lags
        if len(refit.errors) < refit.n_rows or np.count_nonzero(later) < LEAST_ROWS:
            return "What came before the first round still pays: see the option `zero_start`."
        rows, moments = rows.only(later), None
        refit = _refit(rows, posterior, rho, moments)
        theta = theta if isinstance(refit, str) else refit.theta[: posterior.n_features]
    if isinstance(refit, str):
        return refit
    n, m, n_turns = refit.n_rows, len(refit.lags), refit.basis.shape[1]
    basis = refit.basis[: posterior.n_features]
    n_unknown = len(refit.inverse)
    doubt, size = refit.variance * np.diag(refit.inverse)[:m], float(refit.weights @ refit.weights)
    faint = float(doubt[posterior.inclusion[refit.lags] > POSSIBLE].sum()) > UNCERTAIN * size
    certain = 1.0 - float(doubt.sum()) / size  # the share of |w|^2 that is not noise
    if faint or certain < LEAST_CERTAIN:
        return "The lag weights are not known well enough yet."
    if unlike := _unlike(refit, np.sqrt(np.maximum(doubt, 0.0)), signed):
        return unlike
    places, turn = np.searchsorted(refit.lags, active), slice(0, n_turns)
    beside = np.arange(m + n_turns + 1, n_unknown)
    of = np.concatenate([np.arange(m, m + n_turns), places, beside])
    lasts = in_time(rows, rho)
    covariances = [refit.by_frequency(of)] if lasts else [refit.plain(of), refit.robust(of)]
    turns = [basis @ one[turn, turn] @ basis.T / certain**2 for one in covariances]
    quantile = WIDER * float(stdtrit(n - n_unknown, 0.5 + CONFIDENCE / 2))
    total = float(np.trace(turns[0]))
    ratio = max(float(np.trace(one)) for one in turns) / total if total > 0 else 1.0
    apart = float(np.linalg.norm(theta - told))
    angle = float(np.hypot(np.sqrt(total * ratio), apart))
    if angle > WIDE:
        return "The direction is not known well enough yet."
    turned = np.sqrt(np.max([np.maximum(np.diag(one), 0.0) for one in turns], axis=0))
    errors = np.sqrt(np.max([np.diag(one) for one in covariances], axis=0))[n_turns:]
    weights = clear_of_0(refit.weights[places], errors[: len(places)], quantile)
    weights = weights if signed else np.maximum(weights, 0.0)
    wider = quantile / float(stdtrit(1e9, 0.5 + CONFIDENCE / 2))
    return Certainty(
        angle=angle,
        angle_95=apart + bound(turns[0] * ratio) * wider,
        theta=np.clip(holding(around(theta, quantile * turned), told), -1.0, 1.0),
        lags=active,
        lag_weights=holding(weights, posterior.weights[active]),
        effects=around(refit.effects[1:], quantile * errors[len(places) :]),
    )


def _unlike(refit: RankOneRefit, errors: Floats, signed: bool) -> str:
    """Return in what rows are not as the model says, given weights' errors; empty if they are."""
    if refit.drifts():
        return "The rewards drift in a way that the model does not explain."
    if refit.turns():
        return "The earlier rounds and the later ones speak for different directions."
    return NEGATIVE if (refit.weights < -CLEAR * errors).any() and not signed else ""


def around(middle: Floats, half: Floats) -> Floats:
    """Return intervals, (..., 2)."""
    return np.stack([middle - half, middle + half], axis=-1)


def clear_of_0(values: Floats, errors: Floats, quantile: float) -> Floats:
    """Return intervals, (n, 2), nan where a value is within `CLEAR` standard errors of 0.

    Values beyond have had luck: the end towards 0 is that of a normal number that is cut off there.
    """
    normal = float(ndtri(0.5 + CONFIDENCE / 2))
    unit = errors * quantile / normal
    size, least = np.abs(values) / unit, CLEAR * errors / unit
    low, high = -size - normal, size
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        is_low = log_ndtr(middle - size) - log_ndtr(middle - least) < log((1 - CONFIDENCE) / 2)
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    signed = np.sign(values) * np.where(size < least, np.nan, unit)
    return np.sort(np.stack([low * signed, (size + normal) * signed], axis=-1), axis=-1)


def holding(intervals: Floats, values: Floats) -> Floats:
    """Return intervals, (..., 2), as wide as to hold the estimates, which are shrunk, (...)."""
    low, high = np.minimum(intervals[..., 0], values), np.maximum(intervals[..., 1], values)
    return np.stack([low, high], axis=-1)


def _refit(
    rows: AlignedRounds, posterior: Posterior, rho: float, moments: RowMoments | None
) -> RankOneRefit | str:
    """Refit all lags if there are rows enough, else those that may be active; or say why not.

    Lags that may be active are so because noise made them large. With all lags nothing is chosen;
    where autocorrelation was taken out, they can follow a season that is left of it.
    """
    n, n_lags = rows.n_rows if moments is None else moments.n_rows, len(posterior.inclusion)
    possible = np.flatnonzero(posterior.inclusion > POSSIBLE)
    beside = rows.contexts.shape[1] + rows.covariates.shape[1]
    n_unknown = len(possible) + beside
    if n_unknown > MOST_UNKNOWNS:
        return f"More than {MOST_UNKNOWNS} unknowns."
    if len(possible) == 0 or n < max(LEAST_ROWS, ROWS_AN_UNKNOWN * n_unknown):
        return "Too few rows for the lags that may be active."
    refit = None
    if not in_time(rows, rho) and n_lags + beside <= min(MOST_OF_ALL_LAGS, n // ROWS_AN_UNKNOWN):
        refit = RankOneRefit.of(rows, posterior, np.arange(n_lags), moments, rho)
    refit = refit or RankOneRefit.of(rows, posterior, possible, moments, rho)
    return refit or "Some features cannot be told from each other, or from a baseline."


def negative_lag(rows: AlignedRounds, posterior: Posterior, moments: RowMoments | None) -> str:
    """Return that a lag weight is negative, or may be so; empty if none is in a refit of all lags.

    The rows are as they came: what negative lags do lasts, and would be taken out with the
    autocorrelation. Beside contexts that change, noise that lasts adds no more than white noise.
    """
    n, n_lags = rows.n_rows if moments is None else moments.n_rows, len(posterior.inclusion)
    n_unknown = n_lags + rows.contexts.shape[1] + rows.covariates.shape[1]
    if n_unknown > MOST_OF_ALL_LAGS:
        return ""
    refit = RankOneRefit.of(rows, posterior, np.arange(n_lags), moments)
    if refit is None or n < n_unknown + FREE_ROWS:
        return "Too few rows to tell whether a lag weight is negative."
    error = np.sqrt(np.diag(refit.plain(np.arange(n_lags))))
    return NEGATIVE if (refit.weights < -BELOW * error).any() else ""


def bound(covariance: Floats) -> float:
    """Return the 95% quantile of a normal vector's length, by Satterthwaite's approximation."""
    unit = power_of_two(covariance)  # where contexts are tiny no float holds the squares
    total, square = float(np.trace(covariance / unit)), float(np.sum((covariance / unit) ** 2))
    if square == 0.0:
        return 0.0
    return float(np.sqrt(unit * (square / total * chdtri(total**2 / square, 1.0 - CONFIDENCE))))
