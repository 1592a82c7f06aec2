"""Arms that never change: uncertainty keeps them in play until it is known which is best."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.regret_scoreboard import BOARD, LIFE
from lhb_engine.agents import make_agent
from lhb_engine.estimate import Estimate
from lhb_engine.randomness import Draw
from lhb_engine.simulation.play import simulate
from tests.examples import repeats

ONE_HOT = next(world for world in LIFE if world.name == "one-hot, h = 4")
# of seeds 26000 to 26015, of those in which greedy play has the highest regrets, 48 to 285
LOCKED = (26006, 26008, 26012)


def play(world, seed):
    environment = world.draw(seed)
    agent = make_agent("anytime", dim=world.dim, horizon=world.horizon)
    return environment, simulate(agent, environment, n_rounds=world.rounds, seed=seed)


@pytest.mark.parametrize("seed", [LOCKED[0], *repeats(*LOCKED[1:])])
def test_it_ends_on_the_best_of_five_arms(seed):
    environment, run = play(ONE_HOT, seed)
    values = environment.signals(environment.contexts(1, 1))[0]
    assert np.bincount(run.arms[-200:]).argmax() == values.argmax()
    assert run.regret[-1] < 40
    assert np.mean(run.arms[-500:] == values.argmax()) > 0.8  # and does not go on trying for good


@pytest.mark.parametrize("seed", [26000, *repeats(26001)])
def test_contexts_that_vary_are_played_by_theta_alone(seed):
    _, run = play(replace(BOARD[1], rounds=400), seed)
    assert any(e.status == "ok" for e in run.estimates)
    assert all(e.candidates is None for e in run.estimates)


def sampling_agent():
    agent = make_agent("anytime", dim=2, horizon=3)
    drawn = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    agent.install(
        Estimate("ok", np.ones(3), theta=np.array([0.6, 0.8]), last_round=50, candidates=drawn)
    )
    return agent


def test_decisions_take_the_candidates_in_turn():
    agent, arms = sampling_agent(), np.array([[1.0, 0.1], [0.2, 0.9], [-0.8, 0.3]])
    chosen = [agent.choose(arms, Draw(0, "", t)) for t in range(51, 57)]
    assert [choice.arm for choice in chosen] == [2, 0, 1, 2, 0, 1]
    assert all(choice.explored and choice.propensity == 1.0 for choice in chosen)
    assert chosen[0].scores == pytest.approx(-arms[:, 0])
    # a trajectory's fourth round is the session's 53rd
    assert agent.choose(arms, Draw(0, "b", 4, 53)).arm == 1
    block = agent.choose_many(np.tile(arms, (6, 1, 1)), [Draw(0, "", t) for t in range(51, 57)])
    assert block.tolist() == [2, 0, 1, 2, 0, 1]
    huge = agent.choose(np.array([[1e308, 1e308], [-1e308, 1e308]]) * 1.7, Draw(0, "", 52))
    assert np.isfinite(huge.scores).all()


def test_candidates_survive_json_and_end_with_the_next_estimate():
    agent = sampling_agent()
    state = json.loads(json.dumps(agent.state()))
    again = type(agent).from_state(2, 3, agent.options, state)
    assert (again.candidates == agent.candidates).all()
    assert again.state() == agent.state()
    again.install(Estimate("zero", np.zeros(3), last_round=60))
    assert again.candidates is not None  # the direction stays, and so do they
    again.install(Estimate("ok", np.ones(3), theta=np.array([1.0, 0.0]), last_round=70))
    assert again.candidates is None
    assert again.state()["candidates"] is None
    estimate = Estimate("ok", np.ones(1), theta=np.ones(1), candidates=np.array([[0.1], [0.3]]))
    assert (Estimate.from_json(estimate.to_json()).candidates == estimate.candidates).all()
    old = {k: v for k, v in estimate.to_json().items() if k != "candidates"}
    assert Estimate.from_json(old).candidates is None
