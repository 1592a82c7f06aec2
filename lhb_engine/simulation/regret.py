"""Pseudo-regret (docs/model.md (1.3))."""

import numpy as np

from lhb_engine.history import Floats, Ints


def regret_gaps(signals: Floats, arms: Ints, weights: Floats) -> Floats:
    """Compute each round's pseudo-regret, sum(w) (max_a <x_a, theta> - <xi, theta>).

    An action pays sum(w) <xi, theta> in total over h rounds, so the pattern of w does not matter.

    Parameters
    ----------
    signals : (n_rounds, n_arms) array
        <x_{t,a}, theta> of every arm.
    arms : (n_rounds,) array
        The chosen arms.
    weights : (horizon,) array
        True lag weights.

    Returns
    -------
    (n_rounds,) array
        In units of reward.
    """
    chosen = signals[np.arange(len(arms)), arms]
    return np.asarray(weights.sum() * (signals.max(axis=1) - chosen))


def cumulative_regret(gaps: Floats) -> Floats:
    """Sum gaps to cumulative regret R_1, ..., R_T, (n_rounds,) -> (n_rounds,)."""
    return np.cumsum(gaps)
