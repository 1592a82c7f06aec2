"""Checks of the selected contexts: alike ones, rewards known before, and the lags of their effects.

Effects may lie beyond the horizon, or differ between the halves of the rows.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.special import chdtri, ndtri

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.design.coloured_noise import autocorrelation, innovations
from lhb_engine.findings.check_scores import CarriedErrors, clearness
from lhb_engine.findings.finding import Finding, Unchecked, named
from lhb_engine.history import Flags, Floats, Ints
from lhb_engine.posterior.prediction_check import Predictor

ROWS_A_FEATURE = 8
LEAST_ROWS = 40
MOST_FEATURES = 300  # the test costs their cube
ALIKE = 0.005  # least eigenvalue of the features' second moments, each scaled to 1
INVOLVED = 0.3  # of the direction that does not vary: a feature with less takes no part in it
LEAST_SHARE = 0.05  # of rounds with an action, and of those without
ACTING = 0.25  # of the rewards' variance that acting or not explains
SURE = 4.0  # standard errors
LEAST_SEEING = 100  # that see a lag
MOST_WHITENED = 64
CHANCE = 1e-4  # of a finding by chance
SPREAD = 8.0  # standard errors of the sum over all lags beyond the horizon
SHOWN = 6  # lags that are named
NEXT = 8  # rounds whose contexts cause nothing yet
CLEARER = 2.0  # times an effect of earlier rounds that the estimate leaves


def actions(rows: AlignedRounds) -> Flags:
    """Return whether there was an action at each place, (n_places,)."""
    return np.asarray(rows.contexts.any(axis=1))


def check_features(rows: AlignedRounds) -> Iterator[Finding | Unchecked]:
    """Look for features whose selected values cannot be told apart, or are always 0."""
    dim, acted = rows.contexts.shape[1], actions(rows)
    n = int(acted.sum())
    if dim > MOST_FEATURES or n < max(LEAST_ROWS, ROWS_A_FEATURE * dim):
        yield Unchecked(("features_alike",), "features" if dim > MOST_FEATURES else "rows")
        return
    selected = rows.contexts[acted]
    size = np.sqrt((selected**2).mean(axis=0))
    unused = np.flatnonzero(size == 0.0)
    if len(unused):
        are, it = ("is", "it") if len(unused) == 1 else ("are", "them")
        yield Finding(
            "features_alike",
            f"{named(unused.tolist())} {are} 0 in every chosen context, so nothing can be "
            f"learned of {it}: choose what has {it} now and then (`forced_arm`), or leave {it} "
            "out.",
            features=tuple(unused.tolist()),
        )
    used = np.flatnonzero(size > 0.0)
    scaled = selected[:, used] / size[used]
    values, axes = np.linalg.eigh(scaled.T @ scaled / n)
    still = axes[:, values < ALIKE]
    if _only_level(selected[:, used], still / size[used, None]):
        return
    involved = np.flatnonzero((np.abs(still) > INVOLVED).any(axis=1))
    alike = used[involved].tolist()
    if alike:
        yield Finding(
            "features_alike",
            f"{named(alike)} hardly vary apart from each other in the chosen contexts: their "
            "effects cannot be told apart. Leave one out, or let arms differ in them.",
            features=tuple(alike),
        )


def _only_level(selected: Floats, directions: Floats) -> bool:
    """Whether directions move the scores of all contexts alike, so that no choice needs them.

    They do where columns fall into groups whose sum never varies, as those of a category do: what
    one group pays more, the others may pay less. (n, dim) and (dim, m).
    """
    if not directions.size:
        return False
    alike = np.round(directions / np.abs(directions).max(), 6)
    rows, group = np.unique(alike, axis=0, return_inverse=True)
    parts = [selected[:, group.ravel() == i] for i in np.flatnonzero(rows.any(axis=1))]
    sums = [part.sum(axis=1) for part in parts if part.shape[1] > 1]
    return len(sums) == len(parts) == directions.shape[1] + 1 and all(
        np.ptp(one) <= 1e-9 * np.abs(one).max() for one in sums
    )


def check_actions(rows: AlignedRounds, sets: Mapping[int, Floats]) -> Iterator[Finding]:
    """Look for rewards that tell whether there was an action, and not which.

    A reward that is known before its round's decision, such as a visit, decides whether there is an
    action. It looks like an effect at lag 0, and is one of earlier rounds. Nobody decides it where
    no action is one of the arms of `sets`, or was chosen beside them, as control does.
    """
    offered = np.isin(rows.last, list(sets)) & ~actions(rows)
    if offered.any() or not all(one.any(axis=1).all() for one in sets.values()):
        return
    is_row = (rows.number > 0) & (np.rint(rows.intercept**2) == 1)
    acted = rows.contexts[is_row].any(axis=1)
    y, contexts = rows.y[is_row], rows.contexts[is_row][acted]
    n, share = len(y), float(acted.mean()) if len(acted) else 0.0
    few = n < LEAST_ROWS or min(share, 1.0 - share) < LEAST_SHARE
    if few or contexts.shape[1] * ROWS_A_FEATURE > len(contexts):
        return
    between = share * (1.0 - share) * float(y[acted].mean() - y[~acted].mean()) ** 2
    if between < ACTING * float(y.var()):
        return
    if _depends(y[acted] - y[acted].mean(), contexts - contexts.mean(axis=0)):
        return
    yield Finding(
        "known_before",
        "Rewards differ between rounds with and without an action, and not between the actions. "
        "If a reward is known before its round's decision, as a visit is, earlier rounds caused "
        "it: report it for the round before.",
        lags=(0,),
    )


def _depends(y: Floats, contexts: Floats) -> bool:
    """Whether rewards depend on the contexts of their own round: an F statistic far above 1."""
    n, dim = contexts.shape
    if float(np.abs(y).max()) <= 1e-9:
        return False
    by, *_ = np.linalg.lstsq(contexts, y)
    left = y - contexts @ by
    explained, rest = float(y @ y - left @ left), float(left @ left)
    ratio = explained / dim / max(rest / max(n - dim - 1, 1), 1e-300)
    return bool(ratio > 1.0 + SURE * float(np.sqrt(2.0 / dim)))


class LagEffects(NamedTuple):
    """How clearly errors go with the contexts at each lag, from -n_lags to n_lags - 1.

    `sizes` are squares of scores, each the sum of `dim` of them; `counts` the rows that see an
    action at the lag. `beyond` is the size of all lags from the horizon on together, and that of as
    many rounds to come: what lasts shows there, where each lag alone is lost in the noise.
    """

    sizes: Floats
    counts: Floats
    dim: int
    beyond: tuple[float, float] = 0.0, 0.0

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
        products, counts = _by_lag(left, white, rows.number > 0, acted, rows.n_lags)
        # about the means of the rows that see a lag, which may be of one part of the time alone
        sums, _ = _by_lag(np.ones(len(left)), white, rows.number > 0, acted, rows.n_lags)
        of_errors, _ = _by_lag(
            left, acted[:, None].astype(np.float64), rows.number > 0, acted, rows.n_lags
        )
        products = products - sums * of_errors / np.maximum(counts, 1.0)[:, None]
        noise = max(float(left @ left) / rows.n_rows, 1e-300)
        sizes = (products**2).sum(axis=1) / (noise * np.maximum(counts, 1.0))
        return cls(sizes, counts, white.shape[1], _beyond(rows, errors, scale, horizon))


def _beyond(
    rows: AlignedRounds, errors: Floats, scale: Floats, horizon: int
) -> tuple[float, float]:
    weights = np.where(np.arange(rows.n_lags) < horizon, 0.0, 1.0)
    carried = CarriedErrors.of(rows, errors, weights, scale.shape[1])
    if carried is None:
        return 0.0, 0.0
    acted = actions(carried.rows)
    seen, columns = [acted.astype(np.float64)], (_centred(carried.rows.contexts, acted) @ scale).T
    past, future = (
        clearness(np.column_stack([carried.about, side(seen)]), side([*columns]), carried.errors)
        for side in (carried.past, carried.future)
    )
    return float(past @ past), float(future @ future)


def check_horizon(effects: LagEffects, horizon: int, doubt: float) -> Iterator[Finding]:
    """Look for effects of contexts from h to 2h - 1 rounds ago, `doubt` times beyond chance."""
    sizes, counts, dim, beyond = effects
    n_lags = len(sizes) // 2
    past, seen = sizes[n_lags + horizon :], counts[n_lags + horizon :] >= LEAST_SEEING
    if not seen.any():
        return
    future = sizes[: n_lags - horizon][::-1][seen]
    chance = max(1.0, float(future.mean()) / dim)
    past = np.where(seen, past / chance, 0.0)
    n = int(seen.sum())
    far = np.flatnonzero(past > doubt * chdtri(dim, CHANCE / n))
    expected = float(n * dim)
    limit = expected + SPREAD * float(np.sqrt(2.0 * expected))
    lasts = beyond[0] >= max(float(chdtri(dim, CHANCE)), CLEARER * beyond[1])
    if len(far) == 0 and float(past.sum()) < doubt * limit and not lasts:
        return
    clearest = far[np.argsort(-past[far])[:SHOWN]] if len(far) else np.array([past.argmax()])
    yield Finding(
        "horizon_short",
        f"Rewards still depend on what was chosen {horizon} rounds ago and longer, beyond the "
        "horizon: make a session with a longer one.",
        lags=tuple((horizon + np.sort(clearest)).tolist()),
    )


def check_future(effects: LagEffects, doubt: float) -> Iterator[Finding]:
    """Look for effects of contexts of the next rounds, beyond chance and beyond those of the last.

    One of the two has to be by `doubt` times as much. Errors that go with the next contexts as they
    do with those much later, or with earlier ones, say nothing.
    """
    sizes = np.where(effects.counts >= LEAST_SEEING, effects.sizes, 0.0)
    n_lags, dim = len(sizes) // 2, effects.dim
    future, past = sizes[:n_lags][::-1], sizes[n_lags:]
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
    rows: AlignedRounds, errors: Floats, known: Predictor, horizon: int
) -> Iterator[Finding]:
    """Look for lags at which the later half of the rows has another effect than the earlier."""
    order = rows.in_order()
    if len(order) < 2 * LEAST_SEEING:
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

    Lags are -n_lags, ..., n_lags - 1: sum_t v_t s_{t-k}, (2 n_lags, n_signals). What comes later
    causes nothing, so negative lags show how large the sums are by chance, whatever the errors and
    the contexts are correlated with.
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
