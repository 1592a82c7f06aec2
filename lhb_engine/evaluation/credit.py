"""What an estimate expects: of measurements, and of each decision (docs/model.md (1.1), (1.6))."""

from typing import Any, NamedTuple

import numpy as np

from lhb_engine.estimate import FEW_LAGS, Estimate, first_lags, signal_of, untold_by
from lhb_engine.history import Floats, Ints, Trajectory


class Credit(NamedTuple):
    """Expected rewards of decisions, each an (n,) array in units of reward."""

    earned: Floats
    to_come: Floats


def why_no_credit(estimate: Estimate, horizon: int) -> str:
    """Why an estimate cannot say what decisions pay; empty where it can.

    Beside a `horizon` of which not all lags were fitted, those fitted take what the others pay, in
    any size and sign.
    """
    n_lags = len(estimate.lag_weights)
    if n_lags < horizon:
        return FEW_LAGS.format(n_lags, horizon)
    if not estimate.diagnostics.get("stands_out", bool(estimate.active_lags)):
        return "Nothing stands out from the noise yet: what pays is not known."
    return untold_by(estimate.findings)


def credit(contexts: Floats, n_passed: Ints, theta: Floats, lag_weights: Floats) -> Credit:
    """Split each decision's worth sum_k <xi, phi_k> at the lags that have passed.

    `n_passed` (n,), at least 1, are the rounds from each decision's own to the last one, both
    included. `earned` is the sum over the first `n_passed` lags, `to_come` over the others. `phi_k`
    is `theta` times a lag weight; or a row of `lag_weights`, if these are profiles (n_lags, dim).
    """
    own = lag_weights.ndim == 2
    before = np.concatenate([np.zeros_like(lag_weights[:1]), np.cumsum(lag_weights, axis=0)])
    passed = before[np.minimum(n_passed, len(lag_weights))]
    if own:
        return Credit(np.vecdot(contexts, passed), np.vecdot(contexts, before[-1] - passed))
    worth = contexts @ theta
    return Credit(worth * passed, worth * (before[-1] - passed))


def credit_by_feature(contexts: Floats, n_passed: Ints, profiles: Floats) -> dict[str, Floats]:
    """Split what decisions are worth by feature, beside decisions with 0 in its place, (dim,) each.

    `contexts` (n, dim) and `n_passed` (n,) are as in `credit`; `profiles` (n_lags, dim) is phi.
    What comes within `first_lags` is `at_once`, all else `later`.
    """
    before = np.concatenate([np.zeros_like(profiles[:1]), np.cumsum(profiles, axis=0)])
    earned = np.einsum("ij,ij->j", contexts, before[np.minimum(n_passed, len(profiles))])
    return _split(profiles * contexts.sum(axis=0), earned)


def credit_by_arm(
    contexts: Floats, n_passed: Ints, profiles: Floats, arms: Ints, n_arms: int
) -> dict[str, Floats]:
    """Split what decisions are worth by arm, as `credit_by_feature` does by feature.

    `arms` (n,) are the numbers of the arms that were chosen, from 0; those from `n_arms` on
    are left out.
    """
    sums = np.zeros((n_arms + 1, contexts.shape[1]))
    np.add.at(sums, arms, contexts)
    shares = credit(contexts, n_passed, np.zeros(contexts.shape[1]), profiles)
    earned = np.zeros(len(sums))
    np.add.at(earned, arms, shares.earned)
    return _split(profiles @ sums[:n_arms].T, earned[:n_arms])


ROUNDING = 1e-9  # of a sum
SEEN = 1e-6  # of a context's length: what is less of it takes no part


def worth_interval(totals: dict[str, Any], context: Floats) -> tuple[float, float] | None:
    """Return the 95% interval of what an action pays in all; None where the rows do not tell.

    `totals` are those of an estimate (docs/model.md (14.6)).
    """
    unknown = np.array(totals["unknown"]).reshape(-1, len(context))
    if np.abs(unknown @ context).max(initial=0.0) > SEEN * float(np.linalg.norm(context)):
        return None
    half = float(context @ np.array(totals["squares"]) @ context) ** 0.5
    middle = float(context @ totals["values"])
    return middle - half, middle + half


def _split(paid: Floats, earned: Floats) -> dict[str, Floats]:
    """Split what is paid at each lag, (n_lags, n), given what came of it so far, (n,)."""
    first, worth = first_lags(paid), paid.sum(axis=0)
    at_once = np.cumsum(paid, axis=0)[first - 1, np.arange(len(first))]
    split = {"at_once": at_once, "later": _rest(worth, at_once)}
    return split | {"earned": earned, "to_come": _rest(worth, earned)}


def _rest(whole: Floats, part: Floats) -> Floats:
    """Return what a part leaves of a sum: nothing where rounding alone does."""
    rest = whole - part
    return np.where(np.abs(rest) > ROUNDING * np.abs(part), rest, 0.0)


def expected_rewards(trajectory: Trajectory, theta: Floats, lag_weights: Floats) -> Floats:
    """Compute what actions are expected to pay to each measurement (docs/model.md (1.1)).

    What a measurement expects is the sum of `signal_of` over its span's rounds. The trajectory has
    the lags before the first measurement.
    """
    return _sums(trajectory, signal_of(trajectory.contexts, theta, lag_weights))


def covariates_of(trajectory: Trajectory) -> Floats:
    """Return the covariates of each measurement, summed over its rounds, (n, n_covariates)."""
    assert trajectory.covariates is not None
    told, own = _sums(trajectory, trajectory.covariates), trajectory.measurements.covariates
    return told if own is None else np.where(np.isnan(own), told, own)


def _sums(trajectory: Trajectory, of_rounds: Floats) -> Floats:
    """Return the sums over each measurement's rounds, (n_rounds, ...) -> (n_measurements, ...)."""
    before = np.concatenate([np.zeros((1, *of_rounds.shape[1:])), np.cumsum(of_rounds, axis=0)])
    measured, start = trajectory.measurements, trajectory.first_round
    return np.asarray(before[measured.last - start + 1] - before[measured.first - start])
