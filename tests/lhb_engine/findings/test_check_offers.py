"""Offers that follow from choices, and effects that last beyond the horizon: no gain is said."""

import pytest

from benchmarks.other_worlds.one_session import OneSession
from benchmarks.worlds import CostsLater, Depletes, Rotates
from lhb_engine.agents import make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from tests.examples import repeats


def fits(kind: type[Depletes], seed: int) -> list[Estimate]:
    """Return the fits of a run that have a direction, from round 100 on."""
    world = kind.draw(dim=3, horizon=8, n_arms=5, noise=0.2, sparsity=2, seed=seed)
    session = OneSession(3, 8, seed)
    world.play(session, 220)
    return [one for one in session.fits if one.theta is not None and one.last_round > 110]


def codes(estimate: Estimate) -> set[str]:
    """Return the codes of an estimate's findings."""
    return {found["code"] for found in estimate.findings}


@pytest.mark.parametrize("seed", [1, *repeats(2, 3)])
def test_offers_that_choices_use_up_are_found_and_no_gain_is_said(seed: int) -> None:
    for one in fits(Depletes, seed):
        [found] = [found for found in one.findings if found["code"] == "offers_follow"]
        assert "worse after good choices" in found["message"]
        assert one.gain is None
        assert "offered" in (one.no_gain or "")
        assert one.intervals is not None  # effects are known as before
        assert not one.in_doubt


@pytest.mark.parametrize("seed", [1, *repeats(2, 3, 4)])
def test_offers_that_change_by_themselves_are_not(seed: int) -> None:
    for one in fits(Rotates, seed):
        assert "offers_follow" not in codes(one)
        assert one.gain is not None


@pytest.mark.parametrize("seed", [1, *repeats(2, 3)])
def test_costs_over_many_rounds_beyond_the_horizon_are_found(seed: int) -> None:
    """Each lag alone is lost in the noise, and errors that last hide it: all of them show."""
    world = CostsLater.draw(dim=3, horizon=32, n_arms=4, noise=0.3, seed=seed)
    agent = make_agent("anytime", dim=3, horizon=12)
    made = simulate(
        agent, world, n_rounds=400, seed=seed, run_fit=lambda one, past: one.checked_fit(past)
    ).estimates
    assert "horizon_short" in codes(made[-1])
    assert made[-1].gain is None
    assert "beyond the horizon" in (made[-1].no_gain or "")
    # what comes later may outweigh what the direction is known by
    assert made[-1].in_doubt
    assert made[-1].totals is None
    assert made[-1].intervals is None


def test_a_presample_is_no_feature_of_an_offer() -> None:
    """A fit's rows have a column of it, the arms of a decision have none."""
    world = LongHorizonEnvironment.draw(dim=3, horizon=8, n_arms=5, noise=0.2, sparsity=2, seed=1)
    made = simulate(
        "anytime",
        world,
        n_rounds=130,
        seed=1,
        options={"zero_start": False},
        run_fit=lambda one, past: one.checked_fit(past),
    ).estimates
    assert made[-1].theta is not None or made[-1].status == "zero"
    assert "offers_follow" not in codes(made[-1]) | {
        code for one in made[-1].unchecked for code in one["codes"]
    }
