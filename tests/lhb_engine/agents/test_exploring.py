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
