"""Worlds that nobody here wrote: how they are played, and that an absent one is named."""

from dataclasses import replace

import numpy as np

from benchmarks.other_worlds import page
from benchmarks.other_worlds.one_session import OneSession
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import TRAJECTORY, simulate


def test_a_session_round_by_round_decides_as_the_simulation_does():
    world = LongHorizonEnvironment.draw(dim=3, horizon=6, n_arms=4, sparsity=2, seed=3)
    played = simulate("anytime", world, n_rounds=60, seed=5)
    session, signals, arms = OneSession(3, 6, 5), np.zeros(60), []
    for t, contexts in enumerate(world.contexts(1, 60), 1):
        arms.append(session.decide(TRAJECTORY, contexts))
        signals[t - 1] = world.signals(contexts[None])[0, arms[-1]]
        session.reward(TRAJECTORY, float(world.rewards(signals[:t], t)[0]))
    np.testing.assert_array_equal(arms, played.arms)


def test_a_world_that_is_not_installed_is_named_and_the_others_are_played():
    def absent(seeds):
        raise ModuleNotFoundError("No module named 'world'")

    first, second = page.OTHERS[:2]
    others = (replace(first, run=absent), replace(second, run=lambda seeds: [("who", [1.0, 3.0])]))
    said = []
    text = page.page(range(2), [], said.append, others)
    assert said[0].startswith(f"SKIPPED {first.package}: No module named 'world'. Install it: pip")
    assert "**Skipped**: No module named 'world'." in text
    assert "\n- who: 2.00 ± 1.00\n" in text
