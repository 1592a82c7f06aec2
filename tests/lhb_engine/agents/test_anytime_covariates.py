"""Seasons and trends that `anytime` is told of: what it finds, says and decides."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import OptionError, make_agent
from lhb_engine.design.covariates import Seasonality
from lhb_engine.simulation.harder_environments import SeasonOfThree
from lhb_engine.simulation.play import simulate
from tests.lhb_engine.played_histories import (
    DIM,
    EFFECTS,
    HORIZON,
    LAG_WEIGHTS,
    THETA,
    WITH_COVARIATES,
    history,
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
    ],
)
def test_wrong_options_are_named(options, name):
    with pytest.raises(OptionError) as refused:
        make_agent("anytime", dim=2, horizon=4, **options)
    assert refused.value.option == name


def test_seasons_may_be_given_as_objects():
    agent = make_agent("anytime", dim=2, horizon=4, seasonality=(Seasonality(24, 2),))
    assert agent.options.covariates.groups == (2, 2)
