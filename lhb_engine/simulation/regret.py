"""Pseudo-regret: what the best arms would have paid in all, less what the chosen ones will."""

import numpy as np

from lhb_engine.history import Floats, Ints


def regret_gaps(signals: Floats, arms: Ints, weights: Floats) -> Floats:
    """Pseudo-regret of each round (MODEL 1).

    One action pays sum(w) <xi, theta> in all, spread over h rounds, so a round costs
    sum(w) (max_a <x_a, theta> - <xi, theta>), whatever else w is.

    Parameters
    ----------
    signals : (n_rounds, n_arms) array
        <x_{t,a}, theta> of every arm.
    arms : (n_rounds,) array
        The arms chosen.
    weights : (horizon,) array
        True lag weights.

    Returns
    -------
    (n_rounds,) array, in units of reward
    """
    chosen = signals[np.arange(len(arms)), arms]
    return np.asarray(weights.sum() * (signals.max(axis=1) - chosen))


def cumulative_regret(gaps: Floats) -> Floats:
    """R_1, ..., R_T from the rounds' gaps, (n_rounds,) -> (n_rounds,)."""
    return np.cumsum(gaps)
