"""Intervals from the linearised model hold what they say, or it is said why there are none."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.anytime_options import AnytimeOptions
from lhb_engine.agents.fit_past import Part
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.scaling import Units
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.fit_data import fit_data
from lhb_engine.posterior.linearised_intervals import (
    NEGATIVE,
    Certainty,
    RankOneRefit,
    certainty,
    clear_of_0,
    negative_lag,
)
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from tests.lhb_engine.played_histories import DIM, HORIZON, KINDS, LAG_WEIGHTS, THETA, history

ACTIVE = np.array([2, 7])


def said(past, **options):
    told = {"profiles": "shared"} | options  # else intervals are of all lags of all features
    estimate = make_agent("anytime", dim=DIM, horizon=HORIZON, **told).fit(past)
    return estimate, estimate.intervals


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["complete", "missing", "trajectories"])
def test_intervals_hold_theta_and_the_active_lag_weights(kind):
    theta, weights = [], []
    for seed in range(30):
        past = history(**{"n": 240, **KINDS[kind]}, noise=0.3, seed=seed)
        _, intervals = said(past)
        if "drawn" in intervals:
            continue
        low, high = np.array(intervals["theta"]).T
        theta += ((low <= THETA) & (high >= THETA)).tolist()
        given = dict(zip(intervals["lags"], intervals["lag_weights"], strict=True))
        given = {lag: interval for lag, interval in given.items() if interval}
        low, high = np.array(list(given.values())).T
        true = LAG_WEIGHTS[list(given)]
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


def test_nothing_is_said_where_theta_turned_or_a_lag_weight_is_negative():
    steady = rows_with(0.0)
    found = rank_one_posterior(steady, [1, 2])
    xi = steady.contexts
    turn = np.convolve(xi @ (np.roll(THETA, 1) - THETA), LAG_WEIGHTS)[:400]
    turned = rows_with(np.where(np.arange(400) < 200, 0.0, 0.1 * turn))
    assert "different directions" in certainty(turned, found, ACTIVE, 0.0)
    minus = np.zeros(HORIZON)
    minus[4] = -0.2
    negative = rows_with(np.convolve(xi @ THETA, minus)[:400])
    assert "`signed`" in certainty(negative, found, ACTIVE, 0.0)
    assert isinstance(certainty(negative, found, ACTIVE, 0.0, signed=True), Certainty)


@pytest.mark.parametrize("signed", [False, True])
def test_a_negative_lag_is_seen_where_what_it_does_is_taken_for_noise_that_lasts(signed):
    """Of a lag that pays less than nothing, theta's contrary explains most, and errors last."""
    weights = np.zeros(HORIZON)
    weights[[2, 4, 5, 6, 7, 9]] = [-0.5, 0.2, 0.2, 0.2, 0.2, 0.2]
    past = history(n=200, noise=0.1, weights=weights, seed=1)
    rows = align(past.over(FitWindow(1, 1, 200, HORIZON, 200)))
    found = rank_one_posterior(rows, [1, 2], start=-THETA, weights=np.maximum(-weights, 0.0))
    one = np.isin(np.arange(HORIZON), 2) * 1.0
    few_lags = replace(found, theta=-THETA, weights=0.5 * one, inclusion=one, smooth=0.0)
    options = AnytimeOptions(profiles="shared", signed=signed)
    said = Part(fit_data(rows), rows).certainty(few_lags, "", np.array([2]), 0.6, options)
    assert (said == NEGATIVE) != signed
    few = rows.rows(1, 39)
    assert "Too few rows" in negative_lag(few, found, None)
    assert negative_lag(rows, found, None) == NEGATIVE
    steady = rows_with(0.0)
    found = rank_one_posterior(steady, [1, 2])
    assert negative_lag(steady, found, None) == ""


def test_where_something_was_chosen_before_the_first_round_later_rows_speak():
    """The rewards of the first rounds hold what lags of an untold past pay, of mean score 3."""
    paid = np.convolve(np.full(HORIZON, 3.0), LAG_WEIGHTS)[HORIZON:]
    added = np.append(paid, np.zeros(400 - len(paid)))
    rows, few = rows_with(added), rows_with(added[:110], 110)
    off = THETA + 0.2 * np.cross(THETA, [0.0, 0.0, 1.0])
    found = rank_one_posterior(rows, [1, 2])
    found = replace(found, theta=off / np.linalg.norm(off))
    said = certainty(rows, found, ACTIVE, 0.0)
    for theta in (THETA, found.theta):
        assert ((said.theta[:, 0] <= theta) & (said.theta[:, 1] >= theta)).all()
    alone = certainty(rows.only(rows.round > HORIZON), found, ACTIVE, 0.0)
    apart = np.arccos(found.theta @ THETA)
    assert said.angle == pytest.approx(np.hypot(apart, alone.angle), rel=0.05)
    assert said.angle_95 == pytest.approx(apart + alone.angle_95, rel=0.05)
    np.testing.assert_allclose(said.lag_weights, alone.lag_weights)
    assert "`zero_start`" in certainty(few, found, ACTIVE, 0.0)
    # so it is where a window begins after a change: choices before are paid by other weights
    later = rows_with(np.roll(added, 100)).rows(101, 400)
    np.testing.assert_array_equal(later.since[later.number > 0], np.arange(1, 301))
    alone = certainty(later.only(later.since > HORIZON), found, ACTIVE, 0.0)
    np.testing.assert_allclose(certainty(later, found, ACTIVE, 0.0).lag_weights, alone.lag_weights)


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


def test_a_lag_that_noise_helped_choose_has_no_interval():
    """Its least-squares weight is known to be too large, so an interval around it is wrong."""
    rows = rows_with(0.0)
    found = rank_one_posterior(rows, [1, 2])
    known = certainty(rows, found, np.array([2, 7, 10]), 0.0)
    assert LAG_WEIGHTS[10] == 0.0
    assert np.isfinite(known.lag_weights[:2]).all()
    assert known.intervals()["lag_weights"][2] is None
    assert "no interval" in known.unclear
    assert certainty(rows, found, ACTIVE, 0.0).unclear is None


@pytest.mark.parametrize("weight", [3.0, 4.5, 5.5, -4.5])
def test_of_weights_that_had_luck_as_many_intervals_hold(weight):
    """Of estimates beyond five standard errors a weight of four and a half is in 97.5%, not 93%."""
    drawn = weight + np.random.default_rng(8).standard_normal(400_000)
    low, high = clear_of_0(drawn, np.ones(len(drawn)), 1.96).T
    given = np.abs(drawn) >= 5.0
    np.testing.assert_array_equal(np.isfinite(low), given)
    low, high = low[given], high[given]
    beyond = low > weight if weight > 0 else high < weight
    assert beyond.mean() == pytest.approx(0.025, abs=3.0 * np.sqrt(0.025 / given.sum()))
    assert (low if weight < 0 else -high).mean() < -5.0  # the other end is as without luck


def test_far_from_0_an_interval_is_that_of_a_normal_number():
    found = clear_of_0(np.array([20.0, -40.0]), np.array([1.0, 2.0]), 2.2)
    np.testing.assert_allclose(found, [[17.8, 22.2], [-44.4, -35.6]], rtol=1e-3)


def test_a_weight_has_an_interval_from_five_standard_errors_on():
    """On the same noise, of which a standard error is a fifth of the weight at the limit."""

    def said_of(weight):
        weights = LAG_WEIGHTS.copy()
        weights[10] = weight
        past = history(n=400, noise=0.3, weights=weights, seed=4)
        rows = align(past.over(FitWindow(1, 1, 400, HORIZON, 400)))
        found = rank_one_posterior(rows, [1, 2], start=THETA, weights=weights)
        return certainty(rows, found, np.array([2, 7, 10]), 0.0).lag_weights[2]

    low, high = said_of(0.5)
    error, off = (high - low) / 2 / (1.1 * 1.966), (high + low) / 2 - 0.5
    assert np.isnan(said_of(4.7 * error - off)).all()
    assert np.isfinite(said_of(5.3 * error - off)).all()


def test_lags_that_may_be_active_do_not_change_what_is_said():
    """With rows enough all lags are refitted, so what the draws left out cannot bias the others."""
    weights = LAG_WEIGHTS.copy()
    weights[[1, 4, 5]] = 0.1
    past = history(n=400, noise=0.1, weights=weights, seed=2)
    rows = align(past.over(FitWindow(1, 1, 400, HORIZON, 400)))
    found = rank_one_posterior(rows, [1, 2])
    other = replace(found, inclusion=np.where(np.isin(np.arange(HORIZON), ACTIVE), 1.0, 0.0))
    here, there = certainty(rows, found, ACTIVE, 0.0), certainty(rows, other, ACTIVE, 0.0)
    np.testing.assert_allclose(here.lag_weights, there.lag_weights, rtol=1e-6)
    assert here.angle == pytest.approx(there.angle)
    # what is left of autocorrelation may be a season, and all lags together can follow that
    known = [certainty(rows, one, ACTIVE, 0.5).lag_weights for one in (found, other)]
    assert np.abs(known[0] - known[1]).max() > 0.01


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_rows_and_their_moments_say_the_same(rho):
    rows = rows_with(0.0)
    found = rank_one_posterior(rows, [1, 2])
    here = certainty(rows, found, ACTIVE, rho)
    there = certainty(rows, found, ACTIVE, rho, moments=session_moments(rows).whitened(0.0))
    np.testing.assert_allclose(here.lag_weights, there.lag_weights, rtol=1e-8)
    np.testing.assert_allclose(here.theta, there.theta, rtol=1e-8)


def test_units_keep_a_weight_without_an_interval():
    said = {"theta": [[0.9, 1.0]], "lags": [0, 3], "lag_weights": [[0.5, 1.0], None]}
    estimate = Estimate("ok", np.ones(4), theta=np.ones(1), intervals=said)
    restored = Units(4.0, 2.0).restore(estimate).intervals
    assert restored == said | {"lag_weights": [[0.25, 0.5], None]}
    nothing = said | {"lags": [3], "lag_weights": [None]}
    assert Units(4.0, 2.0).restore(replace(estimate, intervals=nothing)).intervals == nothing


def test_where_noise_is_autocorrelated_the_spectrum_of_the_errors_counts():
    """What is left of a season is not counted as white noise (docs/model.md (7.25))."""
    rows = rows_with(0.5 * np.sin(np.arange(400) * np.pi / 4))
    found = rank_one_posterior(rows, [1, 2])
    found = replace(found, inclusion=np.maximum(found.inclusion, 0.06))  # all are refitted in both
    refit = RankOneRefit.of(rows, found, np.arange(HORIZON))
    white, swinging = certainty(rows, found, ACTIVE, 0.0), certainty(rows, found, ACTIVE, 0.5)
    turn = np.arange(HORIZON, HORIZON + DIM - 1)
    noise = refit.variance * np.trace(refit.inverse[:HORIZON, :HORIZON])
    certain = 1.0 - noise / (refit.weights @ refit.weights)  # the rest of |w|^2 is noise
    assert 0.9 < certain < 0.99
    spread = np.trace(refit.by_frequency(turn)) / certain**2
    assert swinging.angle == pytest.approx(np.sqrt(spread))
    assert white.angle >= np.sqrt(np.trace(refit.plain(turn))) / certain
    assert swinging.angle < 0.8 * white.angle
    # three dimensions: theta's error has two, so 95% are within sqrt(6) / sqrt(2) of its size
    assert white.angle_95 / white.angle == pytest.approx(1.1 * np.sqrt(3.0), rel=0.02)
    for said, error in ((swinging, refit.by_frequency(ACTIVE)), (white, refit.plain(ACTIVE))):
        half = (said.lag_weights[:, 1] - said.lag_weights[:, 0]) / 2
        assert (half >= 1.1 * 1.966 * np.sqrt(np.diag(error)) * (1 - 1e-3)).all()
    low, high = swinging.lag_weights.T
    error = np.sqrt(np.diag(refit.by_frequency(ACTIVE)))
    np.testing.assert_allclose((high - low) / 2, 1.1 * 1.966 * error, rtol=1e-3)


def test_an_estimate_without_intervals_has_bands_of_draws_and_says_why():
    estimate, intervals = said(history(n=80))
    assert intervals["drawn"]
    assert estimate.no_intervals == "Too few rows for the lags that may be active."
    estimate, intervals = said(history(n=300))
    assert estimate.no_intervals is None
    assert "drawn" not in intervals
    assert intervals["lags"] == list(estimate.active_lags)
