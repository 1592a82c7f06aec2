"""Checks of the lags: effects beyond the horizon, and lag weights that differ between halves."""

from collections.abc import Iterator

import numpy as np
from scipy import fft
from scipy.special import chdtri, ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import autocorrelation, innovations
from lhb_engine.diagnostics.contexts import actions
from lhb_engine.diagnostics.finding import Finding
from lhb_engine.history import Flags, Floats, Ints
from lhb_engine.posterior.prediction_check import Predictor

LEAST_ROWS = 100  # that see a lag
MOST_FEATURES = 64
CHANCE = 1e-4  # of a finding by chance
SPREAD = 8.0  # standard errors of the sum over all lags beyond the horizon
SHOWN = 6  # lags that are named


def check_horizon(
    rows: AlignedRounds, errors: Floats, horizon: int, doubt: float
) -> Iterator[Finding]:
    """Look for effects of contexts from h to 2h - 1 rounds ago, `doubt` times beyond chance."""
    dim = rows.contexts.shape[1]
    if dim > MOST_FEATURES or rows.n_lags <= horizon:
        return
    left = innovations(rows, errors, autocorrelation(rows, errors))
    acted = actions(rows)
    signals = _centred(rows.contexts, acted)
    scale = _whitening(signals[acted])
    if scale is None:
        return
    white, n_lags = signals @ scale, rows.n_lags
    products, counts = _by_lag(left, white, rows.number > 0, acted, n_lags)
    noise = float(left @ left) / rows.n_rows
    sizes = (products**2).sum(axis=1) / (noise * np.maximum(counts, 1.0))
    past, seen = sizes[n_lags + horizon :], counts[n_lags + horizon :] >= LEAST_ROWS
    if not seen.any():
        return
    future = sizes[: n_lags - horizon][::-1][seen]
    chance = max(1.0, float(future.mean()) / white.shape[1])
    past = np.where(seen, past / chance, 0.0)
    n = int(seen.sum())
    far = np.flatnonzero(past > doubt * chdtri(white.shape[1], CHANCE / n))
    expected = float(n * white.shape[1])
    limit = expected + SPREAD * float(np.sqrt(2.0 * expected))
    if len(far) == 0 and float(past.sum()) < doubt * limit:
        return
    clearest = far[np.argsort(-past[far])[:SHOWN]] if len(far) else np.array([past.argmax()])
    yield Finding(
        "horizon_short",
        f"Rewards still depend on what was chosen {horizon} rounds ago and longer, beyond the "
        "horizon: make a session with a longer one.",
        lags=tuple((horizon + np.sort(clearest)).tolist()),
    )


def check_halves(
    rows: AlignedRounds, errors: Floats, known: Predictor, horizon: int
) -> Iterator[Finding]:
    """Look for lags at which the later half of the rows has another effect than the earlier."""
    order = rows.in_order()
    if len(order) < 2 * LEAST_ROWS:
        return
    left = innovations(rows, errors, autocorrelation(rows, errors))
    acted, n_lags = actions(rows), min(horizon, rows.n_lags)
    signal = _centred((rows.contexts @ known.theta)[:, None], acted)
    effects, variances = [], []
    for half in np.array_split(order, 2):
        is_row = np.zeros(len(left), bool)
        is_row[half] = True
        products, _ = _by_lag(left, signal, is_row, acted, n_lags)
        squares, _ = _by_lag(np.ones(len(left)), signal**2, is_row, acted, n_lags)
        squares = np.maximum(squares[:, 0], 1e-12 * float(squares.max(initial=0.0)) + 1e-300)
        effects.append(products[:, 0] / squares)
        variances.append(float(left[half] @ left[half]) / len(half) / squares)
    scores = np.abs(effects[1] - effects[0]) / np.sqrt(
        np.maximum(variances[0] + variances[1], 1e-300)
    )
    chance = max(1.0, float(np.sqrt(np.mean(scores[:n_lags] ** 2))))
    scores = scores[n_lags:] / chance
    differ = np.flatnonzero(scores > -ndtri(CHANCE / (2.0 * n_lags)))
    if len(differ) == 0:
        return
    named = np.sort(differ[np.argsort(-scores[differ])[:SHOWN]])
    yield Finding(
        "lags_change",
        f"Decisions act after other numbers of rounds than before (lags {_listed(named)}): if this "
        "goes on, set the option `memory`.",
        lags=tuple(named.tolist()),
    )


def _centred(signals: Floats, acted: Flags) -> Floats:
    """Return signals about their mean, zero in rounds without action, (n_places, n)."""
    return np.where(acted[:, None], signals - signals[acted].mean(axis=0), 0.0)


def _whitening(contexts: Floats) -> Floats | None:
    """Return A such that contexts A have unit covariance; None if they do not vary."""
    covariance = contexts.T @ contexts / max(len(contexts), 1)
    values, axes = np.linalg.eigh(covariance)
    kept = values > 1e-6 * max(float(values[-1]), 1e-300)
    if not kept.any() or values[-1] <= 0:
        return None
    return np.asarray(axes[:, kept] / np.sqrt(values[kept]))


def _by_lag(
    values: Floats, signals: Floats, is_row: Flags, acted: Flags, n_lags: int
) -> tuple[Floats, Floats]:
    """Sum values times signals at every lag, and count the rows that see an action there.

    Lags are -n_lags, ..., n_lags - 1. What comes later causes nothing, so negative lags show how
    large the sums are by chance, whatever the errors and the contexts are correlated with.

    Returns
    -------
    (2 n_lags, n_signals) array
        sum_t v_t s_{t-k}, over the rows.
    (2 n_lags,) array
    """
    n_fft = fft.next_fast_len(len(values) + n_lags, real=True)

    def against(left: Floats, right: Floats) -> Floats:
        product = fft.rfft(left, n_fft) * np.conj(fft.rfft(right, n_fft))
        whole = fft.irfft(product, n_fft)
        return np.asarray(np.concatenate([whole[..., -n_lags:], whole[..., :n_lags]], axis=-1))

    products = against(np.where(is_row, values, 0.0), signals.T)
    return products.T, np.rint(against(is_row.astype(np.float64), acted.astype(np.float64)))


def _listed(lags: Ints) -> str:
    return ", ".join(map(str, lags.tolist()))
