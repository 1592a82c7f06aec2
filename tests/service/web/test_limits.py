"""A tenant makes and stores as much as the operator lets it, and no more."""

from typing import Any

import pytest

from service.base.recurring import Intervals
from tests.service.conftest import Serve, problem, until

pytestmark = pytest.mark.anyio
NEW = {"algorithm": "uniform", "dim": 2, "horizon": 4}
ARMS = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


async def test_sizes_of_sessions_and_decisions_are_limited(serve: Serve) -> None:
    async with serve(max_arms=2, max_dim=3, max_horizon=5) as client:
        for field, value in (("dim", 4), ("horizon", 6)):
            answer = await client.post("/v1/sessions", json={**NEW, field: value})
            problem(answer, 422, "out_of_range", field)
        session = await client.create(dim=2, horizon=5)
        path = f"/v1/sessions/{session}"
        for route in ("decisions", "rank"):
            answer = await client.post(f"{path}/{route}", json={"contexts": ARMS})
            problem(answer, 422, "out_of_range", "contexts")
        batch = {"items": [{"session_id": session, "decision": {"contexts": ARMS}}]}
        [item] = (await client.post("/v1/batch", json=batch)).json()["items"]
        assert item["problem"]["code"] == "out_of_range"
        assert (await client.decide(session, ARMS[:2]))["round"] == 1
    async with serve() as client:  # without limits
        assert (await client.decide(session, ARMS))["round"] == 2


async def test_a_tenant_has_so_many_sessions(serve: Serve) -> None:
    async with serve(max_sessions=2) as client:
        first = await client.create(name="one")
        events = (await client.get(f"/v1/sessions/{first}/events")).content
        typed = {"content-type": "application/x-ndjson"}
        imported = "/v1/sessions/import?name=two"
        assert (await client.post(imported, content=events, headers=typed)).status_code == 201
        problem(await client.post("/v1/sessions", json=NEW), 409, "limit_reached")
        third = await client.post("/v1/sessions/import?name=3", content=events, headers=typed)
        problem(third, 409, "limit_reached")
        # what is there is found again
        again = await client.post("/v1/sessions", json={**NEW, "name": "one", "seed": 1})
        assert again.status_code == 200
        assert (await client.post(imported, content=events, headers=typed)).status_code == 200
        await client.delete(f"/v1/sessions/{first}")
        await client.create()


async def test_a_session_has_so_many_trajectories(serve: Serve) -> None:
    async with serve(max_trajectories=2) as client:
        session = await client.create()
        path = f"/v1/sessions/{session}"
        for key in ("ann", "bob", "ann"):
            await client.decide(session, trajectory=key)
        third: dict[str, Any] = {"contexts": ARMS, "trajectory": "eve"}
        problem(await client.post(f"{path}/decisions", json=third), 409, "limit_reached")
        history = {"contexts": ARMS, "trajectory": "eve", "rewards": [1.0, 1.0, 1.0]}
        problem(await client.post(f"{path}/history", json=history), 409, "limit_reached")
        rewarded = {**third, "rewards": [{"trajectory": "ann", "round": 1, "value": 1.0}]}
        problem(await client.post(f"{path}/decisions", json=rewarded), 409, "limit_reached")
        assert (await client.reward(session, trajectory="ann", round=1, value=2.0)).json() == {
            "accepted": 1,
            "repeated": 0,
        }  # nothing of the refused body was stored
        ok = await client.post(f"{path}/history", json={**history, "trajectory": "bob"})
        assert ok.status_code == 201


async def test_an_imported_session_has_no_more_trajectories_than_another(serve: Serve) -> None:
    typed = {"content-type": "application/x-ndjson"}
    async with serve() as client:
        session = await client.create()
        for key in ("ann", "bob", "eve"):
            await client.decide(session, trajectory=key)
        events = (await client.get(f"/v1/sessions/{session}/events")).content
    async with serve(max_trajectories=2) as client:
        refused = await client.post("/v1/sessions/import", content=events, headers=typed)
        problem(refused, 409, "limit_reached", "trajectory")
        assert len((await client.read("/v1/sessions"))["items"]) == 1
    async with serve(max_trajectories=3) as client:
        taken = await client.post("/v1/sessions/import", content=events, headers=typed)
        assert taken.status_code == 201, taken.text


async def test_a_tenant_that_has_stored_enough_reads_and_deletes(serve: Serve) -> None:
    async with serve(Intervals(full_tenants=0.02), max_tenant_mb=1) as client:
        sessions = [await client.create(dim=2000) for _ in range(2)]
        contexts = [[0.25] * 2000] * 40
        for session in sessions:
            body = {"contexts": contexts, "rewards": [1.0] * 40}
            answer = await client.post(f"/v1/sessions/{session}/history", json=body)
            assert answer.status_code == 201
        one_arm = {"contexts": contexts[:1]}
        path = f"/v1/sessions/{sessions[0]}"

        async def is_refused() -> bool:
            return (await client.post(f"{path}/decisions", json=one_arm)).status_code == 409

        await until(is_refused)
        for route, body in (
            (f"{path}/decisions", one_arm),
            (f"{path}/rewards", {"round": 1, "value": 1.0}),
            ("/v1/batch", {"items": [{"session_id": sessions[0], "decision": one_arm}]}),
            (f"{path}/history", {"contexts": contexts}),
            ("/v1/sessions", NEW),
        ):
            problem(await client.post(route, json=body), 409, "limit_reached")
        assert (await client.read(path))["n_rounds"] >= 40
        assert (await client.post(f"{path}/rank", json=one_arm)).status_code == 200
        assert (await client.delete(path)).status_code == 204
        path = f"/v1/sessions/{sessions[1]}"

        async def is_taken() -> bool:
            return (await client.post(f"{path}/decisions", json=one_arm)).status_code == 201

        await until(is_taken)
