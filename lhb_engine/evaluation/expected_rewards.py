"""Expected rewards: what an estimate expects of measurements, given the chosen contexts."""

import numpy as np

from lhb_engine.history import Floats, Trajectory


def expected_rewards(
    trajectory: Trajectory,
    theta: Floats,
    lag_weights: Floats,
    intercept: float = 0.0,
    effects: Floats | None = None,
) -> Floats:
    """Compute the expectation of each measurement of a trajectory (docs/model.md (1.1)).

    Parameters
    ----------
    trajectory : Trajectory
        Contexts, with the lags before the first measurement, and measurements. With `effects`,
        its covariates too.
    theta : (dim,) array
    lag_weights : (n_lags,) array
    intercept : float
        Expected reward of a round without any effect, in units of reward.
    effects : (n_covariates,) array, optional
        b of docs/model.md (7.22), without the baseline.

    Returns
    -------
    (n_measurements,) array
        The sum over each span's rounds of intercept + b'z_t + sum_k w_k <xi_{t-k}, theta>.
    """
    scores = trajectory.contexts @ theta
    a_round = np.convolve(scores, lag_weights)[: len(scores)] + intercept
    expected = _sums(trajectory, a_round)
    if effects is None or trajectory.covariates is None:
        return expected
    told, own = _sums(trajectory, trajectory.covariates), trajectory.measurements.covariates
    if own is not None:
        told = np.where(np.isnan(own), told, own)
    return np.asarray(expected + told @ effects)


def _sums(trajectory: Trajectory, of_rounds: Floats) -> Floats:
    """Return the sums over each measurement's rounds, (n_rounds, ...) -> (n_measurements, ...)."""
    before = np.concatenate([np.zeros((1, *of_rounds.shape[1:])), np.cumsum(of_rounds, axis=0)])
    measured, start = trajectory.measurements, trajectory.first_round
    return np.asarray(before[measured.last - start + 1] - before[measured.first - start])
