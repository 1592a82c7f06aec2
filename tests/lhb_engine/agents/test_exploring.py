"""How `anytime` plays before it knows a direction."""

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.randomness import Draw
from tests.lhb_engine.played_histories import DIM


@pytest.mark.parametrize(("horizon", "held"), [(120, 10), (60, 5), (12, 4), (1, 4)])
def test_a_feature_is_held_for_a_twelfth_of_the_horizon(horizon, held):
    """(7.14): each feature in turn, all upwards and then all downwards."""
    agent = make_agent("anytime", dim=DIM, horizon=horizon)
    contexts = np.random.default_rng(0).uniform(-1, 1, (6, DIM))
    for t in range(1, 4 * DIM * held + 1):
        turn = (t - 1) // held
        side = 1.0 if turn // DIM % 2 == 0 else -1.0
        choice = agent.choose(contexts, Draw(0, "", t))
        np.testing.assert_array_equal(choice.scores, side * contexts[:, turn % DIM])
        assert choice.arm == choice.scores.argmax()
        assert choice.explored


def rules(key, n_turns, seed=0, held=4):
    """The signed features that a trajectory explores, as numbers 0..2 DIM - 1, one a turn."""
    agent = make_agent("anytime", dim=DIM, horizon=12)
    contexts = np.vstack([np.eye(DIM), -np.eye(DIM)])
    draws = [Draw(seed, key, 1 + held * turn) for turn in range(n_turns)]
    scores = [agent.choose(contexts, draw).scores for draw in draws]
    return [int(s.argmax()) for s in scores]


def test_trajectories_that_begin_together_explore_different_features():
    """Each goes through all features upwards and downwards, from one of them on."""
    whole = rules("", 2 * DIM)
    assert whole == list(range(2 * DIM))
    first = []
    for user in range(40 * DIM):
        own = rules(f"user-{user}", 2 * DIM)
        first.append(own[0])
        assert own == whole[own[0] :] + whole[: own[0]]
    shares = np.bincount(first, minlength=2 * DIM) / len(first)
    assert shares.min() > 0.3 / DIM
    assert shares.max() < 0.8 / DIM
    assert [rules(f"user-{user}", 1, seed=1)[0] for user in range(40 * DIM)] != first
