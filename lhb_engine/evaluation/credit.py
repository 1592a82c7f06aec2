"""Credit: what decisions have earned and will still earn, by an estimate (docs/model.md (1.6))."""

from typing import NamedTuple

import numpy as np

from lhb_engine.history import Floats, Ints


class Credit(NamedTuple):
    """Expected rewards of decisions, each an (n,) array in units of reward."""

    earned: Floats
    to_come: Floats


def why_no_credit(n_lags: int, n_active: int, horizon: int) -> str:
    """Why an estimate cannot say which lags pay; empty where it can.

    An estimate that has not seen all lags gives the rewards of the others to those that it has
    seen, in any size and sign.

    Parameters
    ----------
    n_lags : int
        Lags that were fitted.
    n_active : int
        Lags that stand out from the noise (`Estimate.active_lags`).
    horizon : int
        Lags that may pay.
    """
    if n_lags < horizon:
        return f"Only {n_lags} of {horizon} lags have been fitted so far."
    if n_active == 0:
        return "No lag stands out from the noise: which of them pay is not known."
    return ""


def credit(contexts: Floats, n_passed: Ints, theta: Floats, lag_weights: Floats) -> Credit:
    """Split each decision's worth <xi, theta> sum(w) at the lags that have passed.

    Parameters
    ----------
    contexts : (n, dim) array
        Selected contexts xi.
    n_passed : (n,) array
        Rounds from each decision's own to the last one, both included; at least 1.
    theta : (dim,) array
    lag_weights : (n_lags,) array

    Returns
    -------
    Credit
        `earned` is <xi, theta> times the sum of the first `n_passed` lag weights, `to_come` times
        the sum of the others.
    """
    worth = contexts @ theta
    before = np.concatenate([[0.0], np.cumsum(lag_weights)])
    passed = before[np.minimum(n_passed, len(lag_weights))]
    return Credit(worth * passed, worth * (before[-1] - passed))
