"""Cached agents are bounded by what they hold, and a removed one decides as before."""

from pathlib import Path

import numpy as np

from service.agent_cache import LEAST_BYTES, held_bytes
from tests.service.service_harness import ServiceHarness

DIM = 64  # A^-1 is 32 kB, and its JSON more


def play(harness: ServiceHarness, n_sessions: int) -> list[int]:
    """Two rounds of each of some sessions of `lin_ucb`, all sessions in turn; the arms."""
    rng = np.random.default_rng(0)
    keys, arms = [], []
    for i in range(n_sessions):
        harness.create(algorithm="lin_ucb", dim=DIM, options={}, name=f"{i}", seed=i)
        keys.append(harness.key)
    for round in (1, 2):
        for key in keys:
            harness.key = key
            decision = harness.decide(contexts=rng.uniform(-1, 1, (5, DIM)))
            arms.append(decision.arm)
            harness.reward(1.0, round=round)
    return arms


def test_agents_hold_no_more_bytes_than_they_may(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    small, large = ServiceHarness(tmp_path / "one"), ServiceHarness(tmp_path / "two")
    small.agents._most = 500_000
    assert play(small, 12) == play(large, 12)
    assert large.agents.n_bytes > 12 * DIM * DIM * 8 > small.agents.n_bytes
    for harness in (small, large):
        kept = harness.agents._agents.values()
        assert harness.agents.n_bytes == sum(live.n_bytes for live in kept)
        # the last decision is older than the last reward, whose state counts from the next one
        assert all(live.n_bytes >= LEAST_BYTES + DIM * DIM * 8 for live in kept)
        harness.close()
    assert small.agents.n_bytes <= 500_000


def test_small_agents_count_too(harness: ServiceHarness) -> None:
    harness.agents._most = 50 * LEAST_BYTES
    for i in range(60):
        harness.create(algorithm="uniform", options={}, name=f"{i}")
        harness.decide()
    assert len(harness.agents._agents) == 50


def test_a_state_counts_once_it_is_stored(harness: ServiceHarness) -> None:
    harness.create(algorithm="lin_ucb", options={})
    harness.decide()
    harness.reward(1.0, round=1)
    harness.decide()
    [live] = harness.agents._agents.values()
    assert live.state is not None
    assert live.n_bytes == held_bytes(live) >= LEAST_BYTES + len(live.state) + 8 * (2 * 2 + 2)
