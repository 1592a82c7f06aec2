"""Replay equals what was lived, and notices when it does not."""

import sqlite3
from typing import Any

import pytest

from lhb_engine.agents import ALGORITHMS
from service.transfer.replay import replay_session
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, until

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.25], [-0.5, 1.0], [0.25, -1.0], [0.25, -1.0]]


async def lived(client: Client, **body: Any) -> str:
    """A session with fits, gaps, a span, a forced round, a skipped one and two trajectories."""
    session = await client.create(**{"algorithm": "ad_lasso", **body})
    for round in range(1, 41):
        for name in ("", "b"):
            more: dict[str, Any] = {"forced_arm": 2} if round == 9 else {}
            answer = await client.decide(session, ARMS, trajectory=name, **more)
            if round % 7 == 0 or round in (11, 12):
                continue
            value = ARMS[answer["arm"]][0] + 0.01 * round
            await client.reward(session, value=value, round=round, trajectory=name)
    await client.post(f"/v1/sessions/{session}/decisions", json={"skip": True})
    await client.reward(session, value=1.5, first_round=11, last_round=12)

    async def settled() -> bool:
        return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]

    await until(settled)
    return session


def replayed(client: Client, session: str) -> Any:
    with client.service.store.reader() as reader:
        found = reader.session(("", session))
        assert found is not None
        return replay_session(reader, found)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"default_reward": 0.5},
        {"refit": "blocking"},
        {"refit": "blocking", "reward_wait_seconds": 0.01},
    ],
)
async def test_replay_equals_live(serve: Serve, body: dict[str, Any]) -> None:
    async with serve() as client:
        session = await lived(client, **body)
        replay = replayed(client, session)
        assert replay.differences == []
        assert replay.decisions == 81
        assert replay.estimates >= (4 if "refit" in body else 1)


@on_one_database
@pytest.mark.parametrize("name", sorted(n for n, a in ALGORITHMS.items() if not a.needs_truth))
async def test_replay_equals_live_whatever_decides(serve: Serve, name: str) -> None:
    async with serve() as client:
        if ALGORITHMS[name].learns_within_epoch:
            session = await client.create(algorithm=name)
            for round in range(1, 41):
                await client.decide(session, ARMS)
                await client.reward(session, value=0.1 * round, round=round)
        else:
            more = {"options": {"epsilon": 0.3}} if name == "anytime" else {}
            session = await lived(client, algorithm=name, **more)
        replay = replayed(client, session)
        assert replay.differences == []
        assert replay.decisions >= 40


@on_one_database
@pytest.mark.usefixtures("fully_drawn")
async def test_replay_equals_live_where_candidates_decide_and_after_an_import(
    serve: Serve,
) -> None:
    """The arms never change, so decisions take posterior draws in turn."""
    async with serve() as client:
        session = await client.create(algorithm="anytime", refit="blocking")
        for name, first, last in (("", 1, 40), ("b", 1, 10)):
            for round in range(first, last + 1):
                answer = await client.decide(session, ARMS[:3], trajectory=name)
                value = ARMS[answer["arm"]][0] + 0.3 * (round % 3)
                await client.reward(session, value=value, round=round, trajectory=name)
        estimate = await client.read(f"/v1/sessions/{session}/estimate")
        assert len(estimate["candidates"]) == 64
        assert replayed(client, session).differences == []
        exported = await client.get(f"/v1/sessions/{session}/events")
        answer = await client.post("/v1/sessions/import?name=copy", content=exported.content)
        assert answer.status_code == 201, answer.text
        copy = answer.json()["id"]
        assert replayed(client, copy).differences == []
        for _ in range(5):
            mine, theirs = [
                await client.decide(of, ARMS[:3], trajectory="") for of in (session, copy)
            ]
            assert mine["arm"] == theirs["arm"]
            assert mine["explored"]


@pytest.mark.parametrize(
    "damage",
    [
        "update decisions set arm = (arm + 1) % 4 where round = 30 and trajectory = ''",
        "update decisions set context = zeroblob(16) where round = 30 and trajectory = ''",
        "update measurements set value = value + 1e-9 where first_round between 24 and 26",
        "delete from decisions where round = 33 and trajectory = 'b'",
        "update decisions set propensity = 0.75 where round = 2",
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # sqlite3 does the damage
async def test_replay_notices(serve: Serve, damage: str) -> None:
    async with serve() as client:
        session = await lived(client, refit="blocking")
        url = client.service.settings.database_url
        assert replayed(client, session).differences == []
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            assert connection.execute(damage).rowcount > 0
        connection.close()
        try:
            assert replayed(client, session).differences
        except ValueError:
            assert "x'00'" in damage
