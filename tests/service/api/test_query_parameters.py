"""Query parameters that a route does not take are refused, not ignored."""

import pytest

from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio


@on_one_database
async def test_no_route_takes_an_unknown_parameter(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        schema = await client.read("/openapi.json")
        bodies = {
            "/v1/sessions": {"dim": 2, "horizon": 4},
            "/v1/batch": {"items": [{"session_id": session, "decision": {"skip": True}}]},
        }
        for path, operations in schema["paths"].items():
            ids = dict.fromkeys(("event_id", "key_id", "key", "name", "webhook_id"), "x")
            asked = path.format(session_id=session, **ids)
            for method in operations:
                content = {} if method in ("get", "delete") else {"json": bodies.get(path, {})}
                answer = await client.request(method, f"{asked}?colour=blue", **content)
                problem(answer, 422, "unknown_parameter", "colour")
        problem(await client.post("/v1/batch?empty=", json={}), 422, "unknown_parameter", "empty")
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0


async def test_sessions_are_found_by_name(serve: Serve) -> None:
    async with serve() as client:
        shop, farm = [await client.create(name=name) for name in ("shop", "farm")]
        await client.create()
        for name, session in (("shop", shop), ("farm", farm)):
            page = await client.read(f"/v1/sessions?name={name}")
            assert [item["id"] for item in page["items"]] == [session]
            assert page["next"] is None
        assert (await client.read("/v1/sessions?name=sho"))["items"] == []
        assert (await client.read(f"/v1/sessions?name=shop&cursor={shop}"))["items"] == []
        await client.patch(f"/v1/sessions/{shop}", json={"archived": True})
        assert (await client.read("/v1/sessions?name=shop"))["items"] == []
        [found] = (await client.read("/v1/sessions?name=shop&archived=true"))["items"]
        assert found["id"] == shop


@pytest.mark.parametrize("key", ["a%00b", "a" * 257])
async def test_a_key_that_no_trajectory_can_have_is_refused(serve: Serve, key: str) -> None:
    async with serve() as client:
        session = f"/v1/sessions/{await client.create()}"
        calls = [("POST", "decisions/x/void"), ("GET", "decisions/x"), ("GET", "credit")]
        for method, path in [*calls, ("GET", "rounds")]:
            answer = await client.request(method, f"{session}/{path}?trajectory={key}")
            problem(answer, 422, "invalid", "trajectory")
