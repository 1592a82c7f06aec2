"""Whether a random walk of rewards explains what looks like a change (docs/model.md (7.26))."""

import numpy as np
from scipy.special import fdtrc

from lhb_engine.design.aligned_rounds import AlignedRounds
from lhb_engine.estimate import lagged_sums
from lhb_engine.history import Floats
from lhb_engine.posterior.acceptance_and_alarm import FEWEST, alarm_limit
from lhb_engine.posterior.predictor import Predictor

GAINS = (0.05, 0.1, 0.2, 0.4)  # how far the walk follows an error


def walk_gain(
    old: Predictor, rows: AlignedRounds, parts: tuple[int, ...] = (1, 2, 4), chance: float = 1e-3
) -> float | None:
    """Return how far a walk follows the errors that would explain an estimate's later errors.

    A walk explains them if it leaves no more than noise, in the latest half and quarter of these
    rows (`parts`) too, and contexts do not explain what it leaves, but for the `chance` that they
    seem to: then theta and the lag weights may be what they were. None if no walk does.
    """
    later = np.flatnonzero(rows.number > old.last_round)
    later = later[np.argsort(rows.number[later], kind="stable")]
    n, dim = len(later), len(old.theta)
    if n < max(FEWEST, 2 * dim):
        return None
    errors = old.residuals(rows)
    contexts = lagged_sums(rows.contexts, old.lag_weights[: rows.n_lags])
    left = {gain: less_walk(rows, errors, gain)[later] for gain in GAINS}
    gain = min(left, key=lambda one: float(left[one] @ left[one]))
    rest, beside = left[gain], less_walk(rows, contexts, gain)[later]
    for latest in (rest[-(n // part) :] for part in parts):
        if float(np.mean(latest**2)) > alarm_limit(len(latest)) * old.noise**2:
            return None
    unexplained = rest - beside @ np.linalg.lstsq(beside, rest)[0]
    smallest = float(unexplained @ unexplained)
    ratio = (float(rest @ rest) - smallest) / dim / max(smallest / (n - dim), 1e-300)
    return gain if fdtrc(dim, n - dim, ratio) > chance else None


def less_walk(rows: AlignedRounds, values: Floats, gain: float) -> Floats:
    """Return the values of rows less their walk, which moves by `gain` times what it was off.

    The walk goes from row to row in the order of the session. Zero where there is no row.
    """
    order = np.flatnonzero(rows.number > 0)
    order = order[np.argsort(rows.number[order], kind="stable")]
    out = np.zeros_like(values)
    if values.ndim == 1:
        out[order] = _less_walk(values[order].tolist(), gain)
    else:
        out[order] = np.transpose([_less_walk(v, gain) for v in values[order].T.tolist()])
    return out


def _less_walk(values: list[float], gain: float) -> list[float]:
    """Return consecutive values less their walk.

    `scipy.signal.lfilter` does the same, and takes a second to load.
    """
    out, walk = [], 0.0
    for value in values:
        left = value + walk
        walk = (1.0 - gain) * left - value
        out.append(left)
    return out
