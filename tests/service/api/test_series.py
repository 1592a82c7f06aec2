"""Rewards over time: bins of all trajectories, and what the estimate in use expects of them."""

import asyncio
import json

import numpy as np
import pytest

from service.api import changes
from tests.service.conftest import Client, Serve

pytestmark = pytest.mark.anyio


async def read(client: Client, session: str, **query: int) -> list[dict[str, float]]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return list((await client.read(f"/v1/sessions/{session}/series?{asked}"))["items"])


async def test_bins_hold_means_of_all_trajectories(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for key, value in (("a", 1.0), ("b", 3.0), ("a", 5.0), ("b", 7.0)):
            round = (await client.decide(session, trajectory=key))["round"]
            await client.reward(session, trajectory=key, round=round, value=value)
        await client.decide(session, trajectory="a")  # not measured
        found = await read(client, session, rounds=10, bins=5)
        assert [item["reward"] for item in found] == [1.0, 3.0, 5.0, 7.0, None]
        assert [item["n_measured"] for item in found] == [1, 1, 1, 1, 0]
        assert {item["expected"] for item in found} == {None}
        assert {item["explored"] for item in found} == {1.0}  # uniform play
        [last] = await read(client, session, rounds=3, bins=1)
        assert (last["first_round"], last["last_round"], last["reward"]) == (3, 5, 6.0)


async def test_a_span_counts_all_its_rounds(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for _ in range(4):
            await client.decide(session)
        await client.reward(session, first_round=1, last_round=3, value=6.0)
        await client.reward(session, round=4, value=10.0)
        [item] = await read(client, session, bins=1)
        assert (item["n_measured"], item["reward"]) == (4, 4.0)


async def test_what_is_expected_is_the_models_sum(serve: Serve) -> None:
    """Checked against the definition, lag by lag, on the contexts that the log shows."""
    async with serve() as client:
        session = await client.create(algorithm="anytime", refit="blocking")
        rng, past = np.random.default_rng(1), [0.0] * 2
        for t in range(60):
            contexts = rng.uniform(-1, 1, (3, 2))
            arm = (await client.decide(session, contexts.tolist()))["arm"]
            past.append(float(contexts[arm][0]))
            await client.reward(session, round=t + 1, value=2 + past[-3])
        estimate = await client.read(f"/v1/sessions/{session}/estimate")
        log = (await client.read(f"/v1/sessions/{session}/rounds?limit=1000"))["items"]
        scores = [float(np.dot(item["context"], estimate["theta"])) for item in log]
        weights = estimate["lag_weights"]
        found = await read(client, session, rounds=20, bins=20)
        for item in found:
            t = int(item["last_round"])
            expected = estimate["intercept"] + sum(
                w * scores[t - 1 - k] for k, w in enumerate(weights) if t - 1 - k >= 0
            )
            assert item["expected"] == pytest.approx(expected, abs=1e-9)
            assert abs(item["expected"] - item["reward"]) < 0.2


async def test_no_round_is_no_bin(serve: Serve) -> None:
    async with serve() as client:
        assert await read(client, await client.create()) == []


async def test_changes_are_events(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(changes, "STREAM_SECONDS", 1.0)
    async with serve() as client:
        session = await client.create()
        asked = asyncio.create_task(client.get(f"/v1/sessions/{session}/changes"))
        await asyncio.sleep(0.3)
        await client.decide(session)
        answer = await asked
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(one[6:]) for one in answer.text.strip().split("\n\n")]
        assert [event["n_rounds"] for event in events] == [0, 1]
        assert client.service.streams.n_taken == 0
        assert (await client.get("/v1/sessions/nothing/changes")).status_code == 404
