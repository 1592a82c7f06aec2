"""Cached agents are bounded by what they hold, and a removed one decides as before."""

from pathlib import Path

import numpy as np
import pytest

from service.session.records import SessionKey
from service.writer.agent_cache import LEAST_BYTES, deciding, held_bytes
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
    small.agents._agents.most = 500_000
    assert play(small, 12) == play(large, 12)
    one = LEAST_BYTES + DIM * DIM * 8
    assert large.agents._agents.n_bytes >= 12 * one
    # the last decision is older than the last reward, whose state counts from the next one
    assert len(small.agents._agents) * one <= small.agents._agents.n_bytes <= 500_000
    assert 0 < len(small.agents._agents) < 12 == len(large.agents._agents)
    for harness in (small, large):
        harness.close()


def test_what_an_agent_has_just_learned_counts(harness: ServiceHarness) -> None:
    """Many learners with a round each: their states, made at the commit, are most of it."""
    harness.agents._agents.most = 500_000
    for i in range(12):
        harness.create(algorithm="lin_ucb", dim=DIM, options={}, name=f"{i}")
        harness.decide(contexts=np.random.default_rng(i).uniform(-1, 1, (2, DIM)))
        harness.reward(1.0, round=1)
    held = [held_bytes(live) for live in harness.agents._agents._held.values()]
    assert min(held) > DIM * DIM * 8 + DIM * DIM * 4
    assert sum(held) <= 500_000


def test_small_agents_count_too(harness: ServiceHarness) -> None:
    harness.agents._agents.most = 50 * LEAST_BYTES
    for i in range(60):
        harness.create(algorithm="uniform", options={}, name=f"{i}")
        harness.decide()
    assert len(harness.agents._agents) == 50


def test_a_state_counts_once_it_is_stored(harness: ServiceHarness) -> None:
    harness.create(algorithm="lin_ucb", options={})
    harness.decide()
    harness.reward(1.0, round=1)
    harness.decide()
    live = harness.agents._agents.get(harness.key)
    assert live is not None
    assert live.state is not None
    assert held_bytes(live) >= LEAST_BYTES + len(live.state) + 8 * (2 * 2 + 2)
    assert harness.agents._agents.n_bytes == held_bytes(live)


def test_what_decides_is_read_once_after_each_fit(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create()
    n_read = 0

    def says() -> str:
        nonlocal n_read
        with harness.store.reader() as reader:
            read = reader.agent_state

            def counted(key: SessionKey) -> str | None:
                nonlocal n_read
                n_read += 1
                return read(key)

            monkeypatch.setattr(reader, "agent_state", counted)
            return deciding(reader, harness.session)

    assert (says(), says()) == ("none", "none")
    harness.rounds(4)
    harness.finish(4)
    assert (says(), says(), n_read) == ("in_use", "in_use", 1)
    harness.rounds(1)
    assert (says(), n_read) == ("in_use", 1)
