"""What an estimate expects: of measurements, and of each decision (docs/model.md (1.1), (1.6))."""

from typing import NamedTuple

import numpy as np

from lhb_engine.history import Floats, Ints, Trajectory


class Credit(NamedTuple):
    """Expected rewards of decisions, each an (n,) array in units of reward."""

    earned: Floats
    to_come: Floats


def why_no_credit(n_lags: int, n_active: int, horizon: int) -> str:
    """Why an estimate cannot say which lags pay; empty where it can.

    An estimate that has not seen all lags gives the rewards of the others to those that it has
    seen, in any size and sign. `n_lags` were fitted, `n_active` stand out from the noise, and
    `horizon` may pay.
    """
    if n_lags < horizon:
        return f"Only {n_lags} of {horizon} lags have been fitted so far."
    if n_active == 0:
        return "No lag stands out from the noise: which of them pay is not known."
    return ""


def credit(contexts: Floats, n_passed: Ints, theta: Floats, lag_weights: Floats) -> Credit:
    """Split each decision's worth <xi, theta> sum(w) at the lags that have passed.

    `n_passed` (n,), at least 1, are the rounds from each decision's own to the last one, both
    included. `earned` is <xi, theta> times the sum of the first `n_passed` lag weights, `to_come`
    times the sum of the others.
    """
    worth = contexts @ theta
    before = np.concatenate([[0.0], np.cumsum(lag_weights)])
    passed = before[np.minimum(n_passed, len(lag_weights))]
    return Credit(worth * passed, worth * (before[-1] - passed))


def expected_rewards(
    trajectory: Trajectory,
    theta: Floats,
    lag_weights: Floats,
    intercept: float = 0.0,
    effects: Floats | None = None,
) -> Floats:
    """Compute the expectation of each measurement of a trajectory (docs/model.md (1.1)).

    It is the sum over each span's rounds of intercept + b'z_t + sum_k w_k <xi_{t-k}, theta>. The
    trajectory has the lags before the first measurement, and with `effects`, b of docs/model.md
    (7.22) without the baseline, its covariates.
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
