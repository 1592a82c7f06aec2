"""What choices earn, by posterior draws on kept context sets (docs/model.md (7.31))."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import stdtrit

from lhb_engine.context_sets import FEW, LEAST
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
LEAST_OF_ARM = 16  # sets: in fewer, one arm is often the best in each, and another one in others


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
    chosen, most = np.zeros((2, len(sets), len(totals)))  # by set and draw
    signal = doubt = 0.0
    for i, contexts in enumerate(sets):
        pays = contexts @ totals.T
        turns = np.bincount((contexts @ deciding.T).argmax(axis=0), minlength=len(contexts))
        signal += float((pays.mean(axis=1) ** 2).mean())
        doubt += float(pays.var(axis=1).mean())
        chosen[i] = (1.0 - epsilon) * (turns @ pays) / len(deciding)
        most[i] = pays.max(axis=0)
    noise = doubt / n_rows * np.array([PRIOR_ROWS, RIGHT_ROWS])
    share, likely = (signal / np.maximum(signal + noise, 1e-300)).tolist()
    drawn = (totals - (1.0 - likely) * totals.mean(axis=0)).T
    right = [
        max(np.mean((one @ drawn).argmax(axis=0) == (one @ theta).argmax()), 1.0 / len(one))
        for one in sets
    ]
    fixed, is_fixed = None, all(np.array_equal(contexts, several[0]) for contexts in several)
    below = FAR_BELOW if is_fixed or errors_last else BELOW
    if len({len(contexts) for contexts in sets}) == 1 and (is_fixed or len(sets) >= LEAST_OF_ARM):
        arms = np.array(sets) @ totals.T
        best = arms.mean(axis=0).argmax(axis=0)
        fixed = _said(chosen - arms[:, best, np.arange(len(best))], share, below)
    left = _said(most - chosen, 1.0, below, LEFT_ABOVE)
    return {
        "over_chance": _said(chosen, share, below),
        "over_best_arm": fixed,
        "still_to_gain": left | {"low": max(left["low"], 0.0)},
        "best_is_right": float(np.mean(right)),
    }


def _said(drawn: Floats, share: float, below: float, above: float = ABOVE) -> dict[str, float]:
    """Return `share` of the mean of draws (n_sets, n_draws), and a 95% interval for all sets."""
    by_draw, by_set = drawn.mean(axis=0), drawn.mean(axis=1)
    mean = float(by_draw.mean())
    value = share * mean
    few = float(stdtrit(len(by_set) - 1, ENDS[1])) * float(by_set.std(ddof=1)) / len(by_set) ** 0.5
    low, high = (np.quantile(by_draw, ENDS) - mean).tolist()
    low, high = mean - np.hypot(below * low, few), mean + np.hypot(above * high, few)
    return {"value": value, "low": min(float(low), value), "high": max(float(high), value)}
