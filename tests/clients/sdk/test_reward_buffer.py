"""Rewards are kept on disk while the server is away, and counted once when it is back."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.sdk.delivery import RewardBuffer
from lhb import AsyncClient, BufferFull, Client, Conflict, Session, Unavailable
from tests.clients.sdk.gate import Gate
from tests.faults.server_process import Server

CONTEXTS = [[0.3, -0.1], [0.2, 0.9]]


@pytest.fixture
def gate(url: str) -> Iterator[Gate]:
    with Gate(url) as gate:
        yield gate


@pytest.fixture
def buffered(gate: Gate, tmp_path: Path) -> Iterator[Client]:
    with Client(gate.url, n_retries=1, buffer=tmp_path / "rewards.db") as client:
        yield client


def played(client: Client, n_rounds: int, **settings: str) -> Session:
    session = client.create_session(algorithm="uniform", dim=2, horizon=5, **settings)  # type: ignore[arg-type]
    for _ in range(n_rounds):
        session.decide(CONTEXTS)
    return session


def rewards_of(session: Session) -> list[float | None]:
    return [one["reward"] for one in session.rounds()]


@pytest.mark.parametrize("mode", ["single", "sum"])
def test_rewards_wait_for_the_server_and_count_once(
    gate: Gate, buffered: Client, mode: str
) -> None:
    session = played(buffered, 4, reward_mode=mode)
    assert session.reward(1.0, round=1) == {"accepted": 1, "repeated": 0, "kept": 0}
    gate.shut()
    assert session.reward(2.0, round=2) == {"accepted": 0, "repeated": 0, "kept": 1}
    several = [{"value": 3.0, "round": 3}, {"value": 4.0, "round": 4}]
    assert session.rewards(several)["kept"] == 2
    with pytest.raises(Unavailable):
        session.decide(CONTEXTS)
    assert buffered.flush() == 3
    gate.open()
    assert buffered.flush() == 0
    assert rewards_of(session) == [1.0, 2.0, 3.0, 4.0]
    assert [one["n_rewards"] for one in session.rounds()] == [1, 1, 1, 1]


def test_a_decision_that_fails_leaves_its_rewards_to_be_sent(gate: Gate, buffered: Client) -> None:
    session = played(buffered, 0)
    session.decide(CONTEXTS, trajectory="ann")
    session.decide(CONTEXTS, trajectory="ann")
    gate.shut()
    with pytest.raises(Unavailable):
        session.decide(CONTEXTS, rewards=[{"value": 5.0, "round": 1}], trajectory="ann")
    gate.open()
    buffered.flush()  # forgets that the server was away a moment ago
    riding = [{"value": 6.0, "round": 2}]
    assert session.decide(CONTEXTS, rewards=riding, trajectory="ann").round == 3
    assert [one["reward"] for one in session.rounds(trajectory="ann")] == [5.0, 6.0, None]
    assert buffered.flush() == 0


def test_what_the_service_refuses_is_told_and_blocks_nothing(
    gate: Gate, buffered: Client, caplog: pytest.LogCaptureFixture
) -> None:
    session = played(buffered, 3)
    session.reward(1.0, round=1)
    with pytest.raises(Conflict):
        session.reward(9.0, round=1)  # told to who asked: it is not kept
    with pytest.raises(Conflict):
        session.decide(CONTEXTS, rewards=[{"round": 1, "value": 8.0}])
    assert buffered.refused_rewards() == []
    assert buffered.flush() == 0
    gate.shut()
    session.reward(9.0, round=1)
    session.reward(2.0, round=2)
    gate.open()
    with caplog.at_level(logging.WARNING):
        assert buffered.flush() == 0
    assert "refused a kept reward" in caplog.text
    [refused] = buffered.refused_rewards(forget=True)
    assert (refused.session, refused.body) == (session.id, {"value": 9.0, "round": 1})
    assert refused.problem["code"] == "reward_conflict"
    assert buffered.refused_rewards() == []
    assert rewards_of(session) == [1.0, 2.0, None]


def test_at_the_bound_a_reward_is_refused_and_none_is_given_up(gate: Gate, tmp_path: Path) -> None:
    buffer = tmp_path / "small.db"
    with Client(gate.url, n_retries=0, buffer=buffer, buffer_limit=2) as client:
        session = played(client, 3)
        gate.shut()
        session.reward(1.0, round=1)
        session.reward(2.0, round=2)
        with pytest.raises(BufferFull, match="2 rewards at most"):
            session.reward(3.0, round=3)
        gate.open()
        client.flush()
        session.reward(3.0, round=3)
        assert rewards_of(session) == [1.0, 2.0, 3.0]


def test_another_program_sends_what_the_last_one_left(gate: Gate, tmp_path: Path) -> None:
    buffer = tmp_path / "rewards.db"
    with Client(gate.url, buffer=buffer) as client:
        session = played(client, 1)
        gate.shut()
        session.reward(1.0, round=1)
    with Client(gate.url, n_retries=0, buffer=buffer) as offline:  # it starts without a server
        assert offline.session_handle(session.id).reward(1.0, event_id="none")["kept"] == 1
    gate.open()
    with Client(gate.url, buffer=buffer) as again:
        assert again.flush() == 0
        assert rewards_of(again.session(session.id)) == [1.0]
        assert [one.problem["code"] for one in again.refused_rewards()] == ["unknown_event"]


def test_the_awaited_client_keeps_rewards_too(gate: Gate, tmp_path: Path) -> None:
    async def play() -> list[float | None]:
        async with AsyncClient(gate.url, n_retries=0, buffer=tmp_path / "r.db") as client:
            session = await client.create_session(algorithm="uniform", dim=2, horizon=5)
            for _ in range(8):
                await session.decide(CONTEXTS)
            gate.shut()
            given = (session.reward(float(i), round=i + 1) for i in range(8))
            assert [one["kept"] for one in await asyncio.gather(*given)] == [1] * 8
            gate.open()
            assert await client.flush() == 0
            return [one["reward"] async for one in session.rounds()]

    assert asyncio.run(play()) == [float(i) for i in range(8)]


@pytest.mark.slow
def test_a_body_that_the_server_never_takes_stands_in_nobodys_way(tmp_path: Path) -> None:
    server = Server(tmp_path / "lhb.db", LHB_MAX_BODY_BYTES="4000")
    with (
        server,
        Gate(server.url) as gate,
        Client(gate.url, n_retries=0, buffer=tmp_path / "r.db") as client,
    ):
        session = played(client, 100)
        gate.shut()
        for i in range(30):  # together more than one body may hold
            session.reward(
                1.0, event_id="x" * 200 if i == 20 else None, round=None if i == 20 else i + 1
            )
        session.rewards(
            [{"round": i, "value": 1.0, "reward_id": f"{i}-" * 20} for i in range(40, 90)]
        )
        session.reward(1.0, round=100)
        gate.open()
        assert client.flush() == 0
        codes = [one.problem["code"] for one in client.refused_rewards()]
        assert codes == ["unknown_event", "body_too_large"]
        assert sum(one == 1.0 for one in rewards_of(session)) == 30


def test_two_processes_may_share_the_file(tmp_path: Path) -> None:
    one, two = (RewardBuffer(tmp_path / "r.db", 3) for _ in range(2))
    first = one.keep("shop", {"value": 1.0})
    two.keep("shop", {"rewards": [{"value": 2.0}, {"value": 3.0}]})
    with pytest.raises(BufferFull):
        one.keep("shop", {"value": 4.0})
    assert [kept.body for kept in two.after(0, 9)] == [kept.body for kept in one.after(0, 9)]
    two.settle([first], {})
    assert one.n_waiting() == 2
    one.close()
    two.close()
