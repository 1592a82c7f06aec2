"""Checks of the lags at which errors go with contexts: labels too early, or a horizon too short.

Effects may also differ between the halves of the rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import fft
from scipy.special import chdtri, ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import autocorrelation, innovations
from lhb_engine.findings.check_contexts import actions
from lhb_engine.findings.check_scores import CarriedErrors, clearness
from lhb_engine.findings.finding import Finding, Unchecked
from lhb_engine.history import Flags, Floats, Ints
from lhb_engine.posterior.own_responses import carried_over
from lhb_engine.posterior.predictor import Predictor

LEAST_SEEING = 100  # rows that see a lag
MOST_WHITENED = 64
CHANCE = 1e-4  # of a finding by chance
SPREAD = 8.0  # standard errors of the sum over all lags beyond the horizon
SHOWN = 6  # lags that are named
NEXT = 8  # rounds whose contexts cause nothing yet
CLEARER = 2.0  # times an effect of earlier rounds that the estimate leaves


class LagEffects(NamedTuple):
    """How clearly errors go with the contexts at each lag, from -n_lags to n_lags - 1.

    `sizes` are squares of scores, each the sum of `dim` of them; `counts` the rows that see an
    action at the lag. `lasts`: all lags from the horizon on together explain errors, and clearly
    more than as many rounds to come.
    """

    sizes: Floats
    counts: Floats
    dim: int
    lasts: bool = False

    @classmethod
    def of(cls, rows: AlignedRounds, errors: Floats, horizon: int) -> "LagEffects | None":
        """Return those of rows; None where contexts are too long, or do not vary."""
        if rows.contexts.shape[1] > MOST_WHITENED:
            return None
        left = innovations(rows, errors, autocorrelation(rows, errors))
        acted = actions(rows)
        signals = _centred(rows.contexts, acted)
        scale = _whitening(signals[acted])
        if scale is None:
            return None
        white = signals @ scale
        is_row, by_lag = rows.number > 0, ByLag(rows.n_lags, len(left))
        of_left, of_rows = (by_lag.turned(np.where(is_row, one, 0.0)) for one in (left, 1.0))
        of_white, of_acted = by_lag.turned(white.T), by_lag.turned(acted.astype(np.float64))
        counts = np.rint(by_lag.sums(of_rows, of_acted))
        # about the means of the rows that see a lag, which may be of one part of the time alone
        means = by_lag.sums(of_rows, of_white) * by_lag.sums(of_left, of_acted)
        products = (by_lag.sums(of_left, of_white) - means / np.maximum(counts, 1.0)).T
        noise = max(float(left @ left) / rows.n_rows, 1e-300)
        sizes = (products**2).sum(axis=1) / (noise * np.maximum(counts, 1.0))
        return cls(sizes, counts, white.shape[1], _lasts(rows, errors, scale, horizon))


def _lasts(rows: AlignedRounds, errors: Floats, scale: Floats, horizon: int) -> bool:
    weights = np.where(np.arange(rows.n_lags) < horizon, 0.0, 1.0)
    carried = CarriedErrors.of(rows, errors, weights, scale.shape[1])
    if carried is None:
        return False
    acted = actions(carried.rows)
    seen, columns = [acted.astype(np.float64)], (_centred(carried.rows.contexts, acted) @ scale).T

    def size(side: Callable[[Sequence[Floats]], Floats]) -> float:
        beside = np.column_stack([carried.about, side(seen)])
        return float(np.sum(clearness(beside, side([*columns]), carried.errors) ** 2))

    past = size(carried.past)
    return past >= float(chdtri(len(columns), CHANCE)) and past >= CLEARER * size(carried.future)


def check_horizon(effects: LagEffects, horizon: int, doubt: float) -> Iterator[Finding | Unchecked]:
    """Look for effects of contexts from h to 2h - 1 rounds ago, `doubt` times beyond chance."""
    sizes, counts, dim, lasts = effects
    n_lags = len(sizes) // 2
    past, seen = sizes[n_lags + horizon :], counts[n_lags + horizon :] >= LEAST_SEEING
    if not seen.any():
        yield Unchecked(("horizon_short",), "rows")
        return
    future = sizes[: n_lags - horizon][::-1][seen]
    chance = max(1.0, float(future.mean()) / dim)
    past = np.where(seen, past / chance, 0.0)
    n = int(seen.sum())
    far = np.flatnonzero(past > doubt * chdtri(dim, CHANCE / n))
    expected = float(n * dim)
    limit = expected + SPREAD * float(np.sqrt(2.0 * expected))
    if len(far) == 0 and float(past.sum()) < doubt * limit and not lasts:
        return
    clearest = far[np.argsort(-past[far])[:SHOWN]] if len(far) else np.array([past.argmax()])
    yield Finding(
        "horizon_short",
        f"Rewards still depend on what was chosen {horizon} rounds ago and longer, beyond the "
        "horizon: make a session with a longer one.",
        lags=tuple((horizon + np.sort(clearest)).tolist()),
    )


def check_future(effects: LagEffects, doubt: float) -> Iterator[Finding | Unchecked]:
    """Look for effects of contexts of the next rounds, beyond chance and those of the last ones.

    One of the two has to be by `doubt` times as much.
    """
    sizes = np.where(effects.counts >= LEAST_SEEING, effects.sizes, 0.0)
    n_lags, dim = len(sizes) // 2, effects.dim
    future, past = sizes[:n_lags][::-1], sizes[n_lags:]
    # the furthest may be another trajectory's
    if effects.counts[max(n_lags - NEXT, 1) : n_lags].max(initial=0.0) < LEAST_SEEING:
        yield Unchecked(("rewards_early",), "rows")
        return
    near, far = future[:NEXT], future[NEXT:]
    chance = max(1.0, float(far.mean()) / dim if len(far) else 1.0)
    beyond = chance * chdtri(dim, CHANCE / NEXT)
    clearer = CLEARER * float(past[:NEXT].max(initial=0.0))
    limit = min(max(doubt * beyond, clearer), max(beyond, doubt * clearer))
    early = np.flatnonzero(near > limit)
    if len(early):
        n = int(early.max()) + 1
        yield Finding(
            "rewards_early",
            f"Rewards depend on what is chosen up to {n} round{'s' * (n > 1)} later: report each "
            "reward for the round in which it was measured, and leave out features that hold it.",
        )


def check_halves(
    rows: AlignedRounds, errors: Floats, predictor: Predictor, horizon: int
) -> Iterator[Finding | Unchecked]:
    """Look for lags whose effects differ between the halves of the rows, and not by theta alone."""
    order = rows.in_order()
    if len(order) < 2 * LEAST_SEEING:
        yield Unchecked(("lags_change",), "rows")
        return
    rho = autocorrelation(rows, errors)
    left = innovations(rows, errors, rho)
    acted, n_lags = actions(rows), min(horizon, rows.n_lags)
    signal = _centred((rows.contexts @ predictor.theta)[:, None], acted)[:, 0]
    halves = np.array_split(order, 2)
    limit = -float(ndtri(CHANCE / (2.0 * n_lags)))
    scores = _changes(left, signal, halves, n_lags)
    if scores.max() <= limit:
        return
    carried = carried_over(rows, predictor, rows.dim).T
    carried = np.column_stack([rows.intercept, *(innovations(rows, one, rho) for one in carried)])
    turned = left.copy()
    for half in halves:
        turned[half] -= carried[half] @ np.linalg.lstsq(carried[half], left[half])[0]
    scores = np.minimum(scores, _changes(turned, signal, halves, n_lags))
    differ = np.flatnonzero(scores > limit)
    if len(differ) == 0:
        return
    lags = np.sort(differ[np.argsort(-scores[differ])[:SHOWN]]).tolist()
    yield Finding(
        "lags_change",
        "Decisions act after other numbers of rounds than before (lags "
        f"{', '.join(map(str, lags))}): if this goes on, set the option `memory`.",
        lags=tuple(lags),
    )


def _changes(errors: Floats, signal: Floats, halves: list[Ints], n_lags: int) -> Floats:
    """Return how clearly a signal's effect on errors (n_places,) differs between halves."""
    by_lag = ByLag(n_lags, errors.shape[-1])
    of_signal, of_square = by_lag.turned(np.stack([signal, signal**2]))
    effects, variances = [], []
    for half in halves:
        is_row = np.zeros(errors.shape[-1])
        is_row[half] = 1.0
        squares = by_lag.sums(by_lag.turned(is_row), of_square)
        squares = np.maximum(squares, 1e-12 * float(squares.max(initial=0.0)) + 1e-300)
        effects.append(by_lag.sums(by_lag.turned(is_row * errors), of_signal) / squares)
        variances.append((errors[..., half] ** 2).mean(axis=-1, keepdims=True) / squares)
    spread = np.sqrt(np.maximum(variances[0] + variances[1], 1e-300))
    scores = np.abs(effects[1] - effects[0]) / spread
    chance = np.sqrt((scores[..., :n_lags] ** 2).mean(axis=-1, keepdims=True))
    return np.asarray(scores[..., n_lags:] / np.maximum(chance, 1.0))


def _centred(signals: Floats, acted: Flags) -> Floats:
    """Return signals about their mean, zero in rounds without action, (n_places, n)."""
    about = signals - signals[acted].mean(axis=0)
    about[~acted] = 0.0
    return np.asarray(about)


def _whitening(contexts: Floats) -> Floats | None:
    """Return A such that contexts A have unit covariance; None if they do not vary."""
    covariance = contexts.T @ contexts / max(len(contexts), 1)
    values, axes = np.linalg.eigh(covariance)
    kept = values > 1e-6 * max(float(values[-1]), 1e-300)
    if not kept.any() or values[-1] <= 0:
        return None
    return np.asarray(axes[:, kept] / np.sqrt(values[kept]))


class ByLag(NamedTuple):
    """Sums of products of two columns at each lag from -n_lags to n_lags - 1.

    What comes later causes nothing, so negative lags show how large sums are by chance, whatever
    the errors and the contexts are correlated with.
    """

    n_lags: int
    n_places: int

    def turned(self, columns: Floats) -> Any:
        """Return the transform of columns, (..., n_places)."""
        return fft.rfft(columns, fft.next_fast_len(self.n_places + self.n_lags, real=True))

    def sums(self, left: Any, right: Any) -> Floats:
        """Return sum_t left_t right_{t-k} of transformed columns, (..., 2 n_lags)."""
        n_fft = fft.next_fast_len(self.n_places + self.n_lags, real=True)
        whole = fft.irfft(left * np.conj(right), n_fft)
        ends = whole[..., -self.n_lags :], whole[..., : self.n_lags]
        return np.asarray(np.concatenate(ends, axis=-1))
