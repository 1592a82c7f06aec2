"""More sessions than caches hold: the least recently used leaves, and nothing else changes."""

from pathlib import Path

import numpy as np

from service.session.records import ROW_BYTES, SessionKey
from service.storage.sqlite.store import SqliteStore
from service.writer.agent_cache import LEAST_BYTES, Agents
from tests.service.service_harness import ServiceHarness


def played(
    path: Path, agents: Agents, *, are_caches_small: bool = False
) -> tuple[ServiceHarness, list[SessionKey], list[tuple[object, ...]]]:
    """Decisions of four sessions in turn, each with a reward and its own trajectories."""
    path.mkdir()
    harness = ServiceHarness(path)
    harness.agents = agents
    if are_caches_small:
        assert isinstance(harness.store, SqliteStore)
        harness.store.sessions.most, harness.store.most_trajectories = 3 * ROW_BYTES, 2
    keys: list[SessionKey] = []
    for i in range(4):
        harness.create(seed=i)
        keys.append(harness.key)
    rng = np.random.default_rng(0)
    rows: list[tuple[object, ...]] = []
    for i in range(24):
        harness.key = keys[i % 4]
        contexts = rng.uniform(-1, 1, (3, 2))
        row = harness.decide(f"t{i % 3}", contexts=contexts)
        harness.reward(1.0 * i, trajectory=row.trajectory, round=row.round)
        rows.append((i % 4, row.trajectory, row.round, row.position, row.arm, row.scores))
    return harness, keys, rows


def test_decisions_are_the_same_where_a_cache_holds_two_of_them(tmp_path: Path) -> None:
    harness, _, expected = played(tmp_path / "whole", Agents())
    harness.close()
    agents = Agents(2 * LEAST_BYTES + LEAST_BYTES // 2)
    harness, keys, rows = played(tmp_path / "small", agents, are_caches_small=True)
    assert rows == expected
    cached = []
    for key in keys:
        harness.key = key
        cached.append(harness.agents.has(harness.session))
    harness.close()
    assert cached == [False, False, True, True]  # the last two were played last
