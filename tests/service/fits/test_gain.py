"""What choices earn, in the estimate of a session: from the context sets that it keeps."""

import json
from typing import Any

import numpy as np
import pytest

from service.session.kept_contexts import FEW_NUMBERS
from service.transfer.replay import replay_session
from tests.examples import on_one_database, repeats
from tests.service.conftest import Client, Serve, until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("fully_drawn")]
THETA = np.array([1.0, -1.0])


async def lived(client: Client, n: int, names: str, **body: Any) -> str:
    session = await client.create(algorithm="anytime", **body)
    rng = np.random.default_rng(5)
    for i in range(n):
        name, contexts = names[i % len(names)].strip(), rng.uniform(-1.0, 1.0, (3, 2))
        more = {"at": 1000.0 + i} if "clock" in body else {}
        answer = await client.decide(session, contexts.tolist(), trajectory=name, **more)
        value = float(contexts[answer["arm"]] @ THETA) + 0.1 * float(rng.standard_normal())
        place = {"at": 1000.0 + i} if "clock" in body else {"round": answer["round"]}
        await client.reward(session, value=value, trajectory=name, **place)
    await client.post(f"/v1/sessions/{session}/fits")

    async def settled() -> bool:
        return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]

    await until(settled)
    return session


async def gain_of(client: Client, session: str) -> dict[str, Any]:
    estimate = await client.read(f"/v1/sessions/{session}/estimate")
    assert estimate["no_gain"] is None
    found: dict[str, Any] = estimate["gain"]
    return found


@on_one_database
@pytest.mark.parametrize("names", [*repeats(" "), "ab"])
async def test_an_estimate_says_what_choices_earn(serve: Serve, names: str) -> None:
    """It does so to the bit in a replay, of the session and of its import."""
    async with serve() as client:
        session = await lived(client, 100, names, horizon=2)
        gain = await gain_of(client, session)
        for one in ("over_chance", "over_best_arm", "still_to_gain"):
            assert gain[one]["low"] <= gain[one]["value"] <= gain[one]["high"]
        assert 0.5 < gain["over_chance"]["value"] < 1.3  # 0.8 with the best choices
        assert gain["best_is_right"] > 0.7
        content = (await client.get(f"/v1/sessions/{session}/events")).content
        lines = [json.loads(line) for line in content.splitlines()]
        kept = [d["position"] for d in lines if d["record"] == "decision" and d["contexts"]]
        assert sorted(kept) == [*range(4, 101, 4)]
        typed = {"content-type": "application/x-ndjson"}
        made = await client.post("/v1/sessions/import", content=content, headers=typed)
        assert made.status_code == 201, made.text
        for one in (session, made.json()["id"]):
            with client.service.store.reader() as reader:
                found = reader.session(("", one))
                assert found is not None
                replay = replay_session(reader, found)
            assert (replay.differences, replay.estimates > 0) == ([], True)
        assert await gain_of(client, made.json()["id"]) == gain


@on_one_database
async def test_large_sets_are_not_kept_and_the_estimate_says_so(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="anytime", dim=1, horizon=1)
        arms = [[float(i % 7)] for i in range(FEW_NUMBERS + 1)]
        for i in range(12):
            answer = await client.decide(session, arms[i:] + arms[:i])
            await client.reward(session, value=1.0 + answer["arm"] % 3, round=answer["round"])
        await client.post(f"/v1/sessions/{session}/fits")

        async def fitted() -> bool:
            estimate = await client.read(f"/v1/sessions/{session}/estimate")
            return bool(estimate["status"] == "ok")

        await until(fitted)
        estimate = await client.read(f"/v1/sessions/{session}/estimate")
        assert estimate["gain"] is None
        assert estimate["no_gain"].startswith("Fewer than 4 context sets")
