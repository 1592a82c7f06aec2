"""Seasons and trends that `anytime` is told of: what it finds, says and decides."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.worlds import SeasonOfThree, WeatherOfThree
from lhb_engine.agents import OptionError, make_agent
from lhb_engine.design.covariates import SHARED, Seasonality
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from tests.lhb_engine.played_histories import (
    DIM,
    EFFECTS,
    HORIZON,
    LAG_WEIGHTS,
    THETA,
    WITH_COVARIATES,
    history,
    rewards_of,
)

TOLD = {"seasonality": [{"period": 24}], "trend": True}


def without_covariates(past):
    parts = {key: replace(part, covariates=None) for key, part in past.trajectories.items()}
    return replace(past, trajectories=parts, groups=())


@pytest.mark.parametrize("kind", WITH_COVARIATES)
def test_it_tells_effects_of_time_from_those_of_arms(kind):
    shape = {"n": 600} | WITH_COVARIATES[kind]
    past = history(**shape)
    n = shape["n"]
    estimate = make_agent("anytime", dim=DIM, horizon=HORIZON, **TOLD).fit(without_covariates(past))
    assert estimate.status == "ok"
    assert estimate.theta @ THETA > 0.999
    assert set(estimate.active_lags) == {2, 7}
    np.testing.assert_allclose(estimate.lag_weights, LAG_WEIGHTS, atol=0.06)
    found = estimate.effects
    unit = np.array([1.0, 1.0, n])  # the trend is told in rounds, not in their share
    np.testing.assert_allclose(found["values"] * unit, EFFECTS, atol=0.05)
    assert min(found["included"]) > 0.99
    assert found["share"][0] > 0.2
    lower, upper = np.transpose(estimate.intervals["effects"])
    assert (lower * unit < EFFECTS).all()
    assert (upper * unit > EFFECTS).all()
    assert ((upper - lower) * unit < 0.2).all()
    given = make_agent("anytime", dim=DIM, horizon=HORIZON).fit(past)
    np.testing.assert_allclose(given.theta, estimate.theta, atol=1e-3)


def test_what_is_not_there_is_left_out():
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, **TOLD)
    estimate = agent.fit(history(n=600))
    assert max(estimate.effects["included"]) < 0.5
    assert max(estimate.effects["share"]) < 0.01
    assert make_agent("anytime", dim=DIM, horizon=HORIZON).fit(history(n=60)).effects is None


def test_units_of_rewards_change_nothing_but_the_effects():
    past = history(n=300, effects=EFFECTS)
    (part,) = past.trajectories.values()
    measured = replace(part.measurements, value=part.measurements.value * 2.0**20)
    larger = replace(past, trajectories={"0": replace(part, measurements=measured)})
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    plain, scaled = agent.fit(past), agent.fit(larger)
    np.testing.assert_array_equal(plain.theta, scaled.theta)
    found = np.array(scaled.effects["values"]) / 2.0**20
    np.testing.assert_allclose(found, plain.effects["values"], rtol=1e-12)
    intervals = np.array(scaled.intervals["effects"]) / 2.0**20
    np.testing.assert_allclose(intervals, plain.intervals["effects"], rtol=1e-9)


def test_effects_are_kept_with_the_agent():
    past = history(n=300, effects=EFFECTS)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    estimate = agent.fit(past)
    agent.install(estimate)
    again = type(agent).from_state(DIM, HORIZON, agent.options, agent.state())
    np.testing.assert_array_equal(again.prediction.effects, estimate.effects["values"])
    assert type(estimate).from_json(estimate.to_json()).effects == estimate.effects


@pytest.mark.slow
def test_a_season_that_it_is_told_of_costs_little():
    """Three times the largest effect of an arm: untold, it is most of what there is to see."""
    told, untold = [], []
    for seed in range(3):
        world = SeasonOfThree.draw(dim=3, horizon=12, n_arms=5, noise=0.1, sparsity=2, seed=seed)
        play = {"n_rounds": 500, "seed": seed}
        options = {"seasonality": [{"period": 24}]}
        told.append(simulate("anytime", world, options=options, **play).regret[-1])
        untold.append(simulate("anytime", world, **play).regret[-1])
    assert np.mean(told) < 0.4 * np.mean(untold)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"seasonality": 24}, "seasonality"),
        ({"seasonality": [24]}, "seasonality"),
        ({"seasonality": [{"period": "day"}]}, "seasonality"),
        ({"seasonality": [{"length": 24}]}, "seasonality"),
        ({"seasonality": [{"period": 24, "harmonics": 0}]}, "seasonality"),
        ({"seasonality": [{"period": 200, "harmonics": 30}] * 2}, "seasonality"),
        ({"trend": 1}, "trend"),
        ({"covariates": "rain"}, "covariates"),
        ({"covariates": ["rain", 3]}, "covariates"),
        ({"covariates": ["rain", ""]}, "covariates"),
        ({"covariates": ["rain", "x" * 257]}, "covariates"),
        ({"covariates": ["rain", "sun", "rain"]}, "covariates"),
        ({"covariates": [str(i) for i in range(33)]}, "covariates"),
    ],
)
def test_wrong_options_are_named(options, name):
    with pytest.raises(OptionError) as refused:
        make_agent("anytime", dim=2, horizon=4, **options)
    assert refused.value.option == name


def test_seasons_may_be_given_as_objects():
    agent = make_agent("anytime", dim=2, horizon=4, seasonality=(Seasonality(24, 2),))
    assert agent.options.told.groups == (2, 2)


def named(n=600, *, told_with="rounds", span=1, seed=0):
    """Rounds whose rewards rain and, not at all, wind move; a season is there too.

    What was told is in the rounds, or with the measurements, and then that of the rounds is wrong.
    """
    rng = np.random.default_rng(seed)
    xi, beside = rng.uniform(-1, 1, (n, DIM)), rng.uniform(-1, 1, (n, 2))
    rounds = np.arange(1, n + 1)
    reward = rewards_of(xi) + 3.0 * beside[:, 0] + 0.05 * rng.standard_normal(n)
    reward += np.sin(2 * np.pi * rounds / 24)
    first = rounds[::span]
    value = np.add.reduceat(reward, first - 1)
    measured = Measurements(first, np.minimum(first + span - 1, n), value)
    told = beside
    if told_with == "measurements":
        totals, told = np.add.reduceat(beside, first - 1), beside.copy()
        totals[::2, 1] = np.nan  # here the rounds' own count
        told[:, 0] = rng.uniform(-9, 9, n)
        measured = replace(measured, covariates=totals)
        is_own = np.repeat(np.isnan(totals[:, 1]), span)[:n]
        told[~is_own, 1] = 7.0
    part = Trajectory(xi, measured, covariates=told)
    return History(DIM, {"": part}, groups=(1, 1)).over(FitWindow(1, 1, n, HORIZON, n))


NAMED = {"covariates": ["rain", "wind"], "seasonality": [{"period": 24}]}


@pytest.mark.parametrize("span", [1, 3])
def test_named_covariates_are_told_from_what_arms_do(span):
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, **NAMED)
    assert agent.covariates.labels == ("rain", "wind", "season 24, harmonic 1", SHARED)
    estimate = agent.fit(named(span=span))
    assert estimate.theta @ THETA > 0.999
    assert set(estimate.active_lags) == {2, 7}
    found = estimate.effects
    np.testing.assert_allclose(found["values"], [3.0, 0.0, 1.0, 0.0], atol=0.05)
    assert [p > 0.9 for p in found["included"]] == [True, False, True]
    assert found["share"][0] > 0.5
    lower, upper = np.transpose(estimate.intervals["effects"])
    assert lower[0] < 3.0 < upper[0]
    assert upper[0] - lower[0] < 0.1
    # measured with the rewards they say the same
    again = agent.fit(named(span=span, told_with="measurements"))
    np.testing.assert_allclose(again.theta, estimate.theta, atol=1e-9)
    np.testing.assert_allclose(again.effects["values"], found["values"], atol=1e-9)


@pytest.mark.slow
def test_a_covariate_that_it_is_told_of_costs_little():
    told, untold, plain = [], [], []
    for seed in range(3):
        truth = {"dim": 3, "horizon": 12, "n_arms": 5, "noise": 0.1, "sparsity": 2, "seed": seed}
        world, play = WeatherOfThree.draw(**truth), {"n_rounds": 500, "seed": seed}
        options = {"covariates": ["weather"]}
        told.append(simulate("anytime", world, options=options, **play).regret[-1])
        untold.append(simulate("anytime", world, **play).regret[-1])
        without = LongHorizonEnvironment.draw(**truth)
        plain.append(simulate("anytime", without, **play).regret[-1])
    assert np.mean(told) < 0.4 * np.mean(untold)
    assert np.mean(told) < 3.0 * np.mean(plain)
