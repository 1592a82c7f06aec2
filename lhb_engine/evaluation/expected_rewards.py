"""Expected rewards: what an estimate expects of measurements, given the chosen contexts."""

import numpy as np

from lhb_engine.history import Floats, Trajectory


def expected_rewards(
    trajectory: Trajectory, theta: Floats, lag_weights: Floats, intercept: float = 0.0
) -> Floats:
    """Compute the expectation of each measurement of a trajectory (docs/model.md (1.1)).

    Parameters
    ----------
    trajectory : Trajectory
        Contexts, with the lags before the first measurement, and measurements.
    theta : (dim,) array
    lag_weights : (n_lags,) array
    intercept : float
        Expected reward of a round without any effect, in units of reward.

    Returns
    -------
    (n_measurements,) array
        The sum over each span's rounds of intercept + sum_k w_k <xi_{t-k}, theta>.
    """
    scores = trajectory.contexts @ theta
    a_round = np.convolve(scores, lag_weights)[: len(scores)] + intercept
    before = np.concatenate([[0.0], np.cumsum(a_round)])
    measured, start = trajectory.measurements, trajectory.first_round
    return np.asarray(before[measured.last - start + 1] - before[measured.first - start])
