"""Agents that learn within their epoch: in commit order, saved with the rewards they learn from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import ALGORITHMS
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from service.agent_cache import build_agent
from service.commands.decisions import Blocked
from service.commands.rewards import Receive, Reward
from service.commands.sessions import DeleteSession
from service.problems import Problem
from tests.service.service_harness import Room

LEARNERS = sorted(name for name, kind in ALGORITHMS.items() if kind.learns_within_epoch)


def play(
    room: Room, world: Any, n: int, restart_at: int = 0, path: Path | None = None
) -> list[int]:
    """Rounds 1..n as a client would, fitting where due; rewards ride along."""
    signals, arms, rewards = [], [], []
    for round in range(1, n + 1):
        if round == restart_at and path is not None:
            room.store.close()
            room.__dict__.update({**Room(path).__dict__, "key": room.key})
        contexts = world.contexts(round, round)[0]
        taken = room.decide_or_block(contexts=contexts, rewards=rewards)
        while isinstance(taken, Blocked):
            session = room.session
            current = session.schedule.current
            assert current is not None
            with room.store.reader() as reader:
                agent = build_agent(session, reader.agent_state(session.key))
                history = reader.history(session, current.window, current)
            room.finish(taken.due, agent.fit(history))
            taken = room.decide_or_block(contexts=contexts)
        assert taken.decision.arm is not None
        arms.append(taken.decision.arm)
        signals.append(world.signals(contexts[None])[0, taken.decision.arm])
        rewards = [Reward(float(world.rewards(np.array(signals), round)[0]), "", round=round)]
    return arms


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_learner_plays_as_in_process_also_after_a_restart(tmp_path: Path, algorithm: str) -> None:
    world = LongHorizonEnvironment.draw(dim=3, horizon=6, n_arms=4, sparsity=2, seed=4)
    room = Room(tmp_path)
    room.create(algorithm=algorithm, dim=3, horizon=6, seed=11, refit="blocking")
    arms = play(room, world, 120, restart_at=70, path=tmp_path)
    assert arms == simulate(algorithm, world, n_rounds=120, seed=11).arms.tolist()
    room.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_what_is_rolled_back_is_not_learned(tmp_path: Path, algorithm: str) -> None:
    room = Room(tmp_path)
    room.create(algorithm=algorithm)
    room.rounds(3)
    with room.store.reader() as reader:
        before = reader.agent_state(room.key)

    room.decide()
    rewarded = Receive(room.key, [Reward(5.0, "", round=4)], room.agents)

    class Both:
        def __call__(self, uow: Any) -> None:
            rewarded(uow)
            raise RuntimeError("defect")

    with pytest.raises(RuntimeError):
        room.run(Both())
    with room.store.reader() as reader:
        assert reader.agent_state(room.key) == before
    room.reward(5.0, round=4)
    room.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_many_rewards_in_one_call_are_learned_one_by_one_and_stored_once(
    tmp_path: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(tmp_path)
    room.create(algorithm=algorithm, seed=3)
    rewards = [Reward(0.5 * round, "", round=round) for round in range(1, 9)]
    twin = Room(tmp_path, store=room.store)
    twin.create(algorithm=algorithm, seed=3)
    for one in (room, twin):
        one.rounds(8, rewarded=False)
    for reward in rewards:
        twin.run(Receive(twin.key, [reward], twin.agents))
    kind, n_written = ALGORITHMS[algorithm], 0
    state = kind.state

    def counted(agent: Any) -> Any:
        nonlocal n_written
        n_written += 1
        return state(agent)

    monkeypatch.setattr(kind, "state", counted)
    room.run(Receive(room.key, rewards, room.agents))
    assert n_written == 1
    with room.store.reader() as reader:
        assert reader.agent_state(room.key) == reader.agent_state(twin.key)
    room.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_learner_may_be_deleted_in_the_batch_it_learned_in(
    tmp_path: Path, algorithm: str
) -> None:
    room = Room(tmp_path)
    room.create(algorithm=algorithm)
    room.rounds(2, rewarded=False)
    learns = Receive(room.key, [Reward(1.0, "", round=1)], room.agents)
    outcomes, _ = room.commit.run([learns, DeleteSession(room.key)])
    assert [error for _, error in outcomes] == [None, None]
    with room.store.reader() as reader:
        assert reader.session(room.key) is None
        assert reader.agent_state(room.key) is None
    room.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_learners_take_single_rewards_only(tmp_path: Path, algorithm: str) -> None:
    room = Room(tmp_path)
    with pytest.raises(Problem) as caught:
        room.create(algorithm=algorithm, reward_mode="sum")
    assert caught.value.field == "reward_mode"
    room.store.close()
