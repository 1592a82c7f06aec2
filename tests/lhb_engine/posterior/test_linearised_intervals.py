"""Intervals from the linearised model hold what they say, or it is said why there are none."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.linearised_intervals import Certainty, certainty
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from tests.lhb_engine.played_histories import DIM, HORIZON, KINDS, LAG_WEIGHTS, THETA, history

ACTIVE = np.array([2, 7])


def said(past, **options):
    estimate = make_agent("anytime", dim=DIM, horizon=HORIZON, **options).fit(past)
    return estimate, estimate.intervals


@pytest.mark.parametrize("kind", ["complete", "missing", "trajectories"])
def test_intervals_hold_theta_and_the_active_lag_weights(kind):
    theta, weights = [], []
    for seed in range(30):
        past = history(**{"n": 240, **KINDS[kind]}, noise=0.3, seed=seed)
        _, intervals = said(past)
        if intervals is None:
            continue
        low, high = np.array(intervals["theta"]).T
        theta += ((low <= THETA) & (high >= THETA)).tolist()
        low, high = np.array(intervals["lag_weights"]).T
        true = LAG_WEIGHTS[intervals["lags"]]
        weights += ((low <= true) & (true <= high)).tolist()
        assert (high - low > 0.02).all()
    assert len(theta) >= 60
    assert len(weights) >= 40
    # 95% intervals, 1.1 times as wide; theta's three in a run depend on each other
    assert np.mean(theta) >= 0.9
    assert np.mean(weights) >= 0.9


def test_half_widths_are_those_of_least_squares_where_nothing_is_selected():
    """With one lag the model is linear in w theta: textbook standard errors of the coefficients."""
    weights = np.zeros(HORIZON)
    weights[3] = 1.0
    past = history(n=400, noise=0.2, weights=weights, seed=3)
    _, intervals = said(past)
    (part,) = past.trajectories.values()
    x, y = part.contexts[:-3], part.measurements.value[3:]
    x = np.column_stack([x, np.ones(len(x))])
    coef, left, *_ = np.linalg.lstsq(x, y, rcond=None)
    covariance = left[0] / (len(y) - 4) * np.linalg.inv(x.T @ x)[:3, :3]
    size = float(np.linalg.norm(coef[:3]))
    turn = np.eye(3) - np.outer(coef[:3], coef[:3]) / size**2
    error = np.sqrt(np.diag(turn @ covariance @ turn)) / size
    low, high = np.array(intervals["theta"]).T
    assert (high - low) / 2 == pytest.approx(1.1 * 1.966 * error, rel=0.12)
    along = coef[:3] / size
    error = float(np.sqrt(along @ covariance @ along))
    ((low, high),) = intervals["lag_weights"]
    assert (high - low) / 2 == pytest.approx(1.1 * 1.966 * error, rel=0.12)
    assert (high + low) / 2 == pytest.approx(size, abs=0.02)


def test_units_scale_intervals():
    past = history(n=300)
    (part,) = past.trajectories.values()
    measured = replace(part.measurements, value=part.measurements.value * 2.0**20)
    other = replace(part, contexts=part.contexts * 2.0**10, measurements=measured)
    plain, scaled = said(past)[1], said(replace(past, trajectories={"0": other}))[1]
    assert np.allclose(np.array(scaled["lag_weights"]), np.array(plain["lag_weights"]) * 2.0**10)
    assert np.allclose(scaled["theta"], plain["theta"])
    assert scaled["lags"] == plain["lags"] == [2, 7]


def rows_with(added, n=400, contexts=None):
    rng = np.random.default_rng(5)
    xi = rng.uniform(-1, 1, (n, DIM)) if contexts is None else contexts
    reward = np.convolve(xi @ THETA, LAG_WEIGHTS)[:n] + 0.1 * rng.standard_normal(n) + added
    part = Trajectory(xi, Measurements.single(np.arange(1, n + 1), reward))
    return align(History(DIM, {"": part}).over(FitWindow(1, 1, n, HORIZON, n)))


def test_nothing_is_said_where_rewards_drift():
    steady = rows_with(0.0)
    found = rank_one_posterior(steady, [1, 2])
    assert isinstance(certainty(steady, found, ACTIVE, 0.0), Certainty)
    drifting = rows_with(0.2 * np.sin(np.arange(400) / 60.0))
    assert "drift" in certainty(drifting, found, ACTIVE, 0.0)


def test_nothing_is_said_from_few_rows_or_of_faint_weights():
    few = rows_with(0.0, n=99)
    found = rank_one_posterior(few, [1, 2])
    assert "few rows" in certainty(few, found, ACTIVE, 0.0)
    rng = np.random.default_rng(0)
    noisy = rows_with(1.5 * rng.standard_normal(400))
    found = rank_one_posterior(noisy, [1, 2], start=THETA, weights=LAG_WEIGHTS)
    assert "not known well" in certainty(noisy, found, ACTIVE, 0.0)


def test_nothing_is_said_where_features_are_equal():
    xi = np.random.default_rng(6).uniform(-1, 1, (400, DIM))
    xi[:, 2] = xi[:, 1]
    rows = rows_with(0.0, contexts=xi)
    found = rank_one_posterior(rows, [1, 2])
    assert "cannot be told" in certainty(rows, found, ACTIVE, 0.0)


def test_autocorrelated_noise_widens_what_is_said():
    rows = rows_with(0.0)
    found = rank_one_posterior(rows, [1, 2])
    plain, wider = certainty(rows, found, ACTIVE, 0.0), certainty(rows, found, ACTIVE, 0.5)
    assert wider.angle_95 / plain.angle_95 == pytest.approx(1.25 / 1.1)
    # three dimensions: theta's error has two, so 95% are within sqrt(6) / sqrt(2) of its size
    assert plain.angle_95 / plain.angle == pytest.approx(1.1 * np.sqrt(3.0), rel=0.02)


def test_an_estimate_without_intervals_says_why():
    estimate, intervals = said(history(n=80))
    assert intervals is None
    assert estimate.no_intervals == "Too few rows for the lags that may be active."
    estimate, intervals = said(history(n=300))
    assert estimate.no_intervals is None
    assert intervals["lags"] == list(estimate.active_lags)
