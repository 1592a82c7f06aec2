"""Contexts whose shared part goes with the rewards by itself."""

import numpy as np
import pytest

from benchmarks.worlds import ContextsAlike, SharedWithRewards
from lhb_engine.agents import make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.evaluation.credit import why_no_credit
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from tests.examples import repeats

DIM, HORIZON, ROUNDS = 3, 8, 256  # where sets are kept the most
NAMES = ["one", "two", "three"]


def last_found(kind: type[LongHorizonEnvironment], seed: int, **options: object) -> Estimate:
    """Return what the last fit found of a world in which chance played."""
    world = kind.draw(dim=DIM, horizon=HORIZON, n_arms=4, noise=0.2, sparsity=2, seed=seed)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, epsilon=1.0, **options)
    found = simulate(
        agent, world, n_rounds=ROUNDS, seed=seed, run_fit=lambda one, past: one.checked_fit(past)
    ).estimates
    return [one for one in found if one.theta is not None][-1]


@pytest.mark.parametrize("seed", [1, *repeats(2)])
def test_it_is_found_and_nothing_is_said_of_choices(seed: int) -> None:
    estimate = last_found(SharedWithRewards, seed)
    theta = SharedWithRewards.draw(dim=DIM, horizon=HORIZON, sparsity=2, seed=seed).theta
    assert estimate.theta is not None
    assert estimate.theta @ theta < 0.0
    [found] = [one for one in estimate.findings if one["code"] == "shared_with_rewards"]
    assert int(np.abs(estimate.theta).argmax()) in found["features"]
    assert estimate.in_doubt
    assert estimate.gain is None
    assert estimate.no_gain == why_no_credit(estimate, HORIZON)
    assert estimate.intervals is None
    assert estimate.totals is None
    assert estimate.no_totals == estimate.no_intervals == estimate.message == estimate.no_gain
    assert estimate.diagnostics["angle"] is None


@pytest.mark.parametrize("seed", [1, *repeats(2)])
def test_where_the_mean_is_told_the_direction_is_right(seed: int) -> None:
    estimate = last_found(SharedWithRewards, seed, covariates=NAMES)
    theta = SharedWithRewards.draw(dim=DIM, horizon=HORIZON, sparsity=2, seed=seed).theta
    assert estimate.theta is not None
    assert estimate.theta @ theta > 0.95
    assert "shared_with_rewards" not in {one["code"] for one in estimate.findings}
    assert estimate.gain is not None


@pytest.mark.parametrize("seed", [1, *repeats(2, 3, 4)])
def test_contexts_that_share_alone_are_no_finding(seed: int) -> None:
    estimate = last_found(ContextsAlike, seed)
    assert "shared_with_rewards" not in {one["code"] for one in estimate.findings}
    assert not estimate.in_doubt
