"""`/mcp` serves the service's calls as tools, to the keys that may make them."""

import logging
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI

from service.api.request_bodies import DecisionBody, RewardsBody
from service.commands.keys import new_key, save_key
from service.web.admission import may_refuse
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio
HEADERS = {"accept": "application/json, text/event-stream"}
READING = {"sessions", "session", "estimate", "trajectory"}
READING |= {"credit", "credit_by_feature", "lift", "explain"}
WRITING = {"create_session", "decide", "reward", "append_history"}


async def ask(client: Client, method: str, key: str | None = None, **params: Any) -> Any:
    """The result of a message."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {**HEADERS, **({"authorization": f"Bearer {key}"} if key else {})}
    answer = await client.post("/mcp", json=message, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def call(client: Client, tool: str, key: str | None = None, **arguments: Any) -> Any:
    """What a tool answers, or the text of its refusal."""
    result = await ask(client, "tools/call", key, name=tool, arguments=arguments)
    return result["content"][0]["text"] if result.get("isError") else result["structuredContent"]


async def tools(client: Client, key: str | None = None) -> set[str]:
    """The names of the tools; a tool says whether it writes."""
    listed = (await ask(client, "tools/list", key))["tools"]
    reading = {one["name"] for one in listed if one["annotations"].get("readOnlyHint")}
    named = {one["name"] for one in listed}
    assert reading == named - WRITING
    return named


async def keys(client: Client) -> dict[str, str]:
    """A key of each role."""
    made = {role: new_key("", "a test", 1000.0, role) for role in ("reader", "writer")}
    for _, row in made.values():
        await client.service.writer.submit(save_key(row))
    return {role: key for role, (key, _) in made.items()}


@on_one_database
async def test_tools_read_where_there_are_no_keys(serve: Serve) -> None:
    async with serve(mcp=True) as client:
        session = await client.create(name="shop")
        await client.decide(session, event_id="a")
        assert await tools(client) == READING
        listed = await call(client, "sessions")
        assert [one["name"] for one in listed["items"]] == ["shop"]
        assert (await call(client, "explain", session="shop", event_id="a"))["round"] == 1
        assert (await call(client, "lift", session="shop"))["lift"] is None
        await client.decide(session, trajectory="ann")
        ann = await call(client, "trajectory", session="shop", trajectory="ann")
        assert ann["n_rounds"] == 1, ann
        by_feature = await call(client, "credit_by_feature", session="shop")
        assert "items" in by_feature, by_feature
        for step in (".", "..", ""):
            assert "unknown_session" in await call(client, "session", session=step)
        refused = await call(client, "estimate", session="nobody")
        assert "unknown_session" in refused


async def test_a_key_decides_which_tools_there_are(serve: Serve) -> None:
    async with serve() as client:
        known = await keys(client)
    async with serve(mcp=True) as client:
        assert await tools(client, known["reader"]) == READING
        assert await tools(client, known["writer"]) == READING | WRITING
        arguments = {"name": "made", "dim": 2, "horizon": 4}
        refused = await call(client, "create_session", known["reader"], **arguments)
        assert "Unknown tool" in refused
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        stranger = await client.post("/mcp", json=message, headers=HEADERS)
        problem(stranger, 401, "unauthorized")


async def test_a_site_is_set_up_in_eight_calls(serve: Serve) -> None:
    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(300, 2))
    rewards = np.roll(contexts[:, 0], 1) + 0.1 * rng.normal(size=300)
    async with serve() as client:
        key = (await keys(client))["writer"]
    async with serve(mcp=True) as client:
        made = {"refit": "blocking", "seed": 1}
        await call(client, "create_session", key, name="news", dim=2, horizon=4, **made)
        logged = {"contexts": contexts.tolist(), "rewards": rewards.tolist(), "import_id": "log"}
        await call(client, "append_history", key, session="news", **logged)
        arms = {"contexts": [[1.0, 0.0], [-1.0, 0.0]], "event_id": "today"}
        decision = await call(client, "decide", key, session="news", **arms)
        assert decision["arm"] == 0
        stored = {"value": 0.5, "round": decision["round"]}
        assert (await call(client, "reward", key, session="news", **stored))["accepted"] == 1
        estimate = await call(client, "estimate", key, session="news")
        assert int(np.argmax(estimate["lag_weights"])) == 1


@on_one_database
async def test_tools_take_what_their_routes_take(serve: Serve) -> None:
    """Every member of a body, `from` included, and what the route refuses."""
    async with serve() as client:
        key = (await keys(client))["writer"]
    async with serve(mcp=True) as client:
        listed = {one["name"]: one for one in (await ask(client, "tools/list", key))["tools"]}
        for tool, body in [("decide", DecisionBody), ("reward", RewardsBody)]:
            members = listed[tool]["inputSchema"]["properties"]
            assert members.keys() == {"session", *body.__annotations__}
        assert listed["decide"]["inputSchema"]["required"] == ["session", "event_id"]
        holdout = {"share": 0.5}
        created = {"name": "trial", "dim": 1, "horizon": 2, "holdout": holdout}
        assert (await call(client, "create_session", key, **created))["holdout"]["share"] == 0.5
        contexts = [[1.0], [0.5]]
        said = {"session": "trial", "contexts": contexts, "default_arm": 1, "forced_arm": 0}
        decision = await call(client, "decide", key, event_id="a", **said)
        assert decision["arm"] == 0, decision
        skipped = await call(client, "decide", key, session="trial", event_id="b", skip=True)
        assert (skipped["round"], skipped["arm"]) == (2, None)
        past = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
        refused = await call(client, "reward", key, session="trial", value=1.0, **past)
        assert "unknown_round" in refused, refused
        log = {"contexts": [[1.0]], "rewards": [2.0], "at": ["2026-01-01T00:00:00Z"]}
        more = {"session": "trial", "trajectory": "log", "import_id": "log"}
        assert (await call(client, "append_history", key, **more, **log))["rewards"] == 1


async def test_the_door_is_shut_by_default(serve: Serve) -> None:
    async with serve() as client:
        problem(await client.post("/mcp", json={}), 404, "unknown_route")


@on_one_database
async def test_it_is_limited_as_other_doors_are(serve: Serve) -> None:
    """In requests, in bytes, and under overload; and there is no stream without an end."""
    async with serve() as client:
        key = (await keys(client))["writer"]
    async with serve(mcp=True, requests_per_second=0.01, request_burst=2) as client:
        assert await tools(client, key)
        assert await tools(client, key)
        headers = {**HEADERS, "authorization": f"Bearer {key}"}
        problem(await client.post("/mcp", json={}, headers=headers), 429, "too_many_requests")
    async with serve(mcp=True) as client:
        problem(await client.get("/mcp", headers=headers), 405, "method_not_allowed")
        large = await client.post("/mcp", content=b" " * 300_000, headers=headers)
        problem(large, 413, "body_too_large")
    assert may_refuse({"method": "POST", "path": "/mcp"})


async def test_its_sdk_writes_no_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from service.operation.mcp_door import Door  # its SDK takes a second, in each process of tests

    monkeypatch.setattr(logging.root, "handlers", [])
    Door(FastAPI())
    assert logging.root.handlers == []
