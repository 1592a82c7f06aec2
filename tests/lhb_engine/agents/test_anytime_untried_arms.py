"""Arms that were never chosen: decisions try them, and no gain is said of them."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.anytime_fit import UNTRIED
from lhb_engine.history import FitWindow, History, Measurements, Trajectory

T, HORIZON = 120, 3


@pytest.mark.parametrize("others", [0.0, 1.0])
def test_arms_that_were_never_chosen_are_tried(others: float) -> None:
    """Totals of slots in which one arm was chosen vary, and teach of that arm alone."""
    rng = np.random.default_rng(0)
    contexts = np.zeros((T, 4))
    contexts[:, 1] = rng.integers(5, 15, T)
    contexts[:, [0, 2, 3]] = others * rng.integers(0, 5, (T, 3))
    rewards = 100.0 + contexts @ [1.0, 1.5, 0.5, 3.0] + rng.standard_normal(T)
    agent = make_agent("anytime", dim=4, horizon=HORIZON)
    past = {"": Trajectory(contexts, Measurements.single(np.arange(1, T + 1), rewards))}
    window = FitWindow(1, 1, T, HORIZON, T)
    sets = {round: np.eye(4) for round in range(1, 17)}
    estimate = agent.fit(replace(History(4, past).over(window), sets=sets))
    if others:
        assert estimate.candidates is None
        assert estimate.gain is not None
    else:
        assert (estimate.gain, estimate.no_gain) == (None, UNTRIED)
        assert estimate.candidates is not None
        assert len({int(draw.argmax()) for draw in estimate.candidates}) > 1
