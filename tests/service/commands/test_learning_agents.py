"""Agents that learn within their epoch: in commit order, saved with the rewards they learn from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import ALGORITHMS
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from service.base.problems import Problem
from service.commands.decisions import Blocked
from service.commands.rewards import ReceiveRewards
from service.commands.sessions import remove_session
from service.rounds.reward import Reward
from service.writer.agent_cache import build_agent
from service.writer.command import Command
from tests.service.histories import read_history
from tests.service.service_harness import ServiceHarness

LEARNERS = sorted(name for name, kind in ALGORITHMS.items() if kind.learns_within_epoch)


def play(
    harness: ServiceHarness, world: Any, n: int, restart_at: int = 0, path: Path | None = None
) -> list[int]:
    """Rounds 1..n as a client would, fitting where due; rewards ride along."""
    signals, arms, rewards = [], [], []
    for round in range(1, n + 1):
        if round == restart_at and path is not None:
            harness.store.close()
            harness.__dict__.update({**ServiceHarness(path).__dict__, "key": harness.key})
        contexts = world.contexts(round, round)[0]
        taken = harness.decide_or_block(contexts=contexts, rewards=rewards)
        while isinstance(taken, Blocked):
            session = harness.session
            current = session.schedule.current
            assert current is not None
            with harness.store.reader() as reader:
                agent = build_agent(session, reader.agent_state(session.key))
                history = read_history(reader, session, current.window, current.known)
            harness.finish(taken.due, agent.fit(history))
            taken = harness.decide_or_block(contexts=contexts)
        assert taken.decision.arm is not None
        arms.append(taken.decision.arm)
        signals.append(world.signals(contexts[None])[0, taken.decision.arm])
        rewards = [Reward(float(world.rewards(np.array(signals), round)[0]), "", round=round)]
    return arms


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_learner_plays_as_in_process_also_after_a_restart(tmp_path: Path, algorithm: str) -> None:
    world = LongHorizonEnvironment.draw(dim=3, horizon=6, n_arms=4, sparsity=2, seed=4)
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm=algorithm, dim=3, horizon=6, seed=11, refit="blocking")
    arms = play(harness, world, 120, restart_at=70, path=tmp_path)
    assert arms == simulate(algorithm, world, n_rounds=120, seed=11).arms.tolist()
    harness.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_what_is_rolled_back_is_not_learned(tmp_path: Path, algorithm: str) -> None:
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm=algorithm)
    harness.rounds(3)
    with harness.store.reader() as reader:
        before = reader.agent_state(harness.key)

    harness.decide()
    rewarded = ReceiveRewards(harness.key, [Reward(5.0, "", round=4)], harness.agents)

    class Both(Command[None]):
        def __call__(self, uow: Any) -> None:
            rewarded(uow)
            raise RuntimeError("defect")

    with pytest.raises(RuntimeError):
        harness.run(Both())
    with harness.store.reader() as reader:
        assert reader.agent_state(harness.key) == before
    harness.reward(5.0, round=4)
    harness.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_many_rewards_in_one_call_are_learned_one_by_one_and_stored_once(
    tmp_path: Path, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm=algorithm, seed=3)
    rewards = [Reward(0.5 * round, "", round=round) for round in range(1, 9)]
    twin = ServiceHarness(tmp_path, store=harness.store)
    twin.create(algorithm=algorithm, seed=3)
    for one in (harness, twin):
        one.rounds(8, rewarded=False)
    for reward in rewards:
        twin.run(ReceiveRewards(twin.key, [reward], twin.agents))
    kind, n_written = ALGORITHMS[algorithm], 0
    state = kind.state

    def counted(agent: Any) -> Any:
        nonlocal n_written
        n_written += 1
        return state(agent)

    monkeypatch.setattr(kind, "state", counted)
    harness.run(ReceiveRewards(harness.key, rewards, harness.agents))
    assert n_written == 1
    with harness.store.reader() as reader:
        assert reader.agent_state(harness.key) == reader.agent_state(twin.key)
    harness.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_learner_may_be_deleted_in_the_batch_it_learned_in(
    tmp_path: Path, algorithm: str
) -> None:
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm=algorithm)
    harness.rounds(2, rewarded=False)
    learns = ReceiveRewards(harness.key, [Reward(1.0, "", round=1)], harness.agents)
    outcomes, _ = harness.commit.run_in_thread([learns, remove_session(harness.key)])
    assert [error for _, error in outcomes] == [None, None]
    with harness.store.reader() as reader:
        assert reader.session(harness.key) is None
        assert reader.agent_state(harness.key) is None
    harness.store.close()


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_learners_take_single_rewards_only(tmp_path: Path, algorithm: str) -> None:
    harness = ServiceHarness(tmp_path)
    with pytest.raises(Problem) as caught:
        harness.create(algorithm=algorithm, reward_mode="sum")
    assert caught.value.field == "reward_mode"
    harness.store.close()
