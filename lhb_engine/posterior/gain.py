"""What choices earn, by posterior draws on kept context sets (docs/model.md (7.31))."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lhb_engine.context_sets import LEAST
from lhb_engine.history import Floats

ENDS = (0.025, 0.975)  # of an interval
# what intervals are wider than the draws, which understate what is not known, and on the upper side
# more so: shrunk draws may agree on effects that are too small, and on choices that are wrong
BELOW, ABOVE, LEFT_ABOVE = 1.3, 1.4, 1.8
# of arms that never change, as one that looked worse is hardly chosen again and goes on looking so,
# and of errors that last: weights explain some of them, so that their correlation is understated
FAR_BELOW = 2.1
# rows that the prior's width weighs as many as: it lets draws promise more than there is, and
# agree on a best choice where nothing acts
PRIOR_ROWS, RIGHT_ROWS = 64.0, 4.0
FEW = f"Fewer than {LEAST} context sets of decisions with several arms are kept."


def are_enough(sets: Sequence[Floats]) -> bool:
    """Return whether there are enough context sets with several arms."""
    return sum(len(contexts) > 1 for contexts in sets) >= LEAST


def gain(
    sets: Sequence[Floats],
    theta: Floats,
    deciding: Floats,
    totals: Floats,
    epsilon: float,
    n_rows: int,
    *,
    errors_last: bool = False,
) -> dict[str, Any] | str:
    """Return what choices earn a round, as `Estimate.gain`; or why it is not known.

    `sets` are (K, dim) each. `theta` is the likeliest direction, `deciding` (n, dim) those that
    decisions take in turn, beside a share `epsilon` of uniform play. `totals` (n_draws, dim) are
    draws of what an action pays by each feature, by a fit of `n_rows` rows; `errors_last` if
    autocorrelation was taken out.
    """
    if not are_enough(sets):
        return FEW
    several = [contexts for contexts in sets if len(contexts) > 1]
    sets = [contexts - contexts.mean(axis=0) for contexts in several]  # chance earns 0
    chosen, most = np.zeros((2, len(totals)))
    signal = doubt = 0.0
    for contexts in sets:
        pays = contexts @ totals.T
        turns = np.bincount((contexts @ deciding.T).argmax(axis=0), minlength=len(contexts))
        signal += float((pays.mean(axis=1) ** 2).mean())
        doubt += float(pays.var(axis=1).mean())
        chosen += (1.0 - epsilon) * (turns @ pays) / len(deciding)
        most += pays.max(axis=0)
    noise = doubt / n_rows * np.array([PRIOR_ROWS, RIGHT_ROWS])
    share, likely = (signal / np.maximum(signal + noise, 1e-300)).tolist()
    drawn = (totals - (1.0 - likely) * totals.mean(axis=0)).T
    right = [
        max(np.mean((one @ drawn).argmax(axis=0) == (one @ theta).argmax()), 1.0 / len(one))
        for one in sets
    ]
    fixed, is_fixed = None, all(np.array_equal(contexts, several[0]) for contexts in several)
    below = FAR_BELOW if is_fixed or errors_last else BELOW
    if len({len(contexts) for contexts in sets}) == 1:
        best = (np.mean(sets, axis=0) @ totals.T).max(axis=0)
        fixed = _said(chosen / len(sets) - best, share, below)
    left = _said((most - chosen) / len(sets), 1.0, below, LEFT_ABOVE)
    return {
        "over_chance": _said(chosen / len(sets), share, below),
        "over_best_arm": fixed,
        "still_to_gain": left | {"low": max(left["low"], 0.0)},
        "best_is_right": float(np.mean(right)),
    }


def _said(drawn: Floats, share: float, below: float, above: float = ABOVE) -> dict[str, float]:
    """Return `share` of the mean of draws, and a 95% interval around that mean and the value."""
    mean = float(drawn.mean())
    value = share * mean
    low, high = np.quantile(drawn, ENDS).tolist()
    low, high = mean + below * (low - mean), mean + above * (high - mean)
    return {"value": value, "low": min(low, value), "high": max(high, value)}
