"""What choices earn, by posterior draws on kept context sets (docs/model.md (7.31))."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lhb_engine.context_sets import LEAST
from lhb_engine.history import Floats

ENDS = (0.025, 0.975)  # of an interval
# what intervals are wider than the draws, which understate what is not known: against chance, and
# against the best
CHANCE, BEST = 2.0, 2.5
FEW = f"Fewer than {LEAST} context sets of decisions with several arms are kept."


def gain(
    sets: Sequence[Floats], theta: Floats, deciding: Floats, totals: Floats, epsilon: float
) -> dict[str, Any] | str:
    """Return what choices earn a round, as `Estimate.gain`; or why it is not known.

    `sets` are (K, dim) each. `theta` is the likeliest direction, `deciding` (n, dim) those that
    decisions take in turn, beside a share `epsilon` of uniform play. `totals` (n_draws, dim) are
    draws of what an action pays by each feature.
    """
    sets = [contexts for contexts in sets if len(contexts) > 1]
    if len(sets) < LEAST:
        return FEW
    chance, chosen, most, right = np.zeros((4, len(totals)))
    for contexts in sets:
        n_arms, pays = len(contexts), contexts @ totals.T
        turns = np.bincount((contexts @ deciding.T).argmax(axis=0), minlength=n_arms)
        played = epsilon / n_arms + (1.0 - epsilon) * turns / len(deciding)
        chance += pays.mean(axis=0)
        chosen += played @ pays
        most += pays.max(axis=0)
        right += pays.argmax(axis=0) == (contexts @ theta).argmax()
    fixed = None
    if len({len(contexts) for contexts in sets}) == 1:
        best = (np.mean(sets, axis=0) @ totals.T).max(axis=0)
        fixed = _interval(chosen / len(sets) - best, BEST)
    left = _interval((most - chosen) / len(sets), BEST)
    return {
        "over_chance": _interval((chosen - chance) / len(sets), CHANCE),
        "over_best_arm": fixed,
        "still_to_gain": left | {"low": max(left["low"], 0.0)},
        "best_is_right": float(right.mean()) / len(sets),
    }


def _interval(drawn: Floats, wider: float) -> dict[str, float]:
    """Return the mean of draws, and a 95% interval, so many times as wide as that of the draws."""
    value = float(drawn.mean())
    low, high = (value + wider * (end - value) for end in np.quantile(drawn, ENDS).tolist())
    return {"value": value, "low": low, "high": high}
