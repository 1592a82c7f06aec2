"""Trajectories with responses of their own: what decides is theirs, in both databases."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.api.trajectories import get_trajectory
from service.base.problems import Problem
from service.commands.erase_trajectory import erase_trajectory
from service.commands.void_decision import VoidDecision
from service.rounds import own_responses
from service.session.records import TrajectoryRow
from service.storage.ports import Store
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.service_harness import ServiceHarness

DIM, USERS = 2, ("a", "b", "c", "d", "e", "f")
THETAS = {name: np.array([np.cos(i / 3), np.sin(i / 3)]) for i, name in enumerate(USERS)}
BOTH = pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(name="harness")
def over_store(tmp_path: Path, store: Store) -> ServiceHarness:  # noqa: F811
    return ServiceHarness(tmp_path, store)


class World:
    """Users who want different things; their rewards come at once."""

    def __init__(self, harness: ServiceHarness, url: str, **options: Any) -> None:
        self.harness, self.url, self.rng = harness, url, np.random.default_rng(5)
        harness.create(algorithm="anytime", dim=DIM, horizon=2, options={"own": True, **options})

    def decide(self, name: str) -> Any:
        self.harness.now += 1.0
        contexts = self.rng.standard_normal((4, DIM))
        decision = self.harness.decide(name, contexts=contexts)
        return decision, float(contexts[decision.arm] @ THETAS[name])

    def play(self, n: int) -> None:
        for i in range(n):
            name = USERS[i % len(USERS)]
            decision, value = self.decide(name)
            value += 0.05 * float(self.rng.standard_normal())
            self.harness.reward(value, name, round=decision.round)
            self.harness.make_fits(self.url)

    def row(self, name: str) -> TrajectoryRow:
        with self.harness.store.reader() as reader:
            found = reader.trajectory((*self.harness.key, name))
        assert found is not None
        return found

    def differences(self) -> list[str]:
        with self.harness.store.reader() as reader:
            return replay_session(reader, self.harness.session).differences


@BOTH
def test_each_is_decided_for_by_their_own_theta(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    """It points where the user's does; replay and an imported copy agree to the bit."""
    world = World(harness, database_url)
    world.play(150)
    for name, theta in THETAS.items():
        decision, _ = world.decide(name)
        own = np.frombuffer(decision.own)
        assert own @ theta > 0.97 * np.linalg.norm(own), name
        number = own_responses.NUMBER.pack(harness.session.estimate)
        assert world.row(name).own == number + own.tobytes()
        with harness.store.reader() as reader:
            said = get_trajectory(reader, harness.session, name)["own"]
        assert said["values"] == own.tolist()
        low, high = np.array(said["intervals"]).T
        assert np.all((low < own) & (own < high) & (high - low < 0.3)), name
    assert harness.decide("new", contexts=np.eye(DIM)).own is None  # everybody's
    assert world.differences() == []
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, harness.session))
    last = [world.decide(name)[0] for name in USERS]
    harness.key = harness.import_file(tmp_path, content)[0].key
    world.rng = np.random.default_rng(5)
    assert world.differences() == []
    again = harness.decide("a", contexts=np.eye(DIM))
    assert again.own == last[0].own


def test_one_row_decides_until_something_is_new(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds are read after a reward, a correction, a void decision or a fit, and not else."""
    world, read = World(harness, database_url, most_stale=1), []
    world.play(120)
    work_out = own_responses._worked_out

    def counted(*args: Any) -> Any:
        read.append(args[-1].key)
        return work_out(*args)

    monkeypatch.setattr(own_responses, "_worked_out", counted)
    before = world.decide("a")[0]
    assert [world.decide("a")[0].own for _ in range(3)] == [before.own] * 3
    assert len(read) <= 1
    read.clear()
    harness.reward(3.0, "a", round=before.round)
    after = world.decide("a")[0]
    assert after.own != before.own
    harness.reward(-3.0, "a", round=before.round, correct=True, reward_id="c")
    assert world.decide("a")[0].own not in (before.own, after.own)
    harness.run(VoidDecision(harness.key, "a", before.event_id, harness.agents))
    world.decide("a")
    assert read == ["a"] * 3
    assert world.differences() == []


def test_who_is_erased_begins_as_everybody(harness: ServiceHarness, database_url: str) -> None:
    world = World(harness, database_url)
    world.play(120)
    assert world.decide("a")[0].own is not None
    harness.run_large(erase_trajectory(harness.key, "a"))
    assert harness.decide("a", contexts=np.eye(DIM)).own is None


@pytest.mark.parametrize(
    "more", [{"reward_mode": "sum"}, {"default_reward": 0.0}, {"keep_rounds": 40_000}]
)
def test_what_excludes_it(harness: ServiceHarness, more: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        harness.create(algorithm="anytime", options={"own": True}, **more)
    harness.create(algorithm="anytime", **more)
