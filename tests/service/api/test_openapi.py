"""The schema says what can be answered."""

from typing import Any

import pytest

from service.base.problems import ProblemCode, Unavailable
from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.0], [0.0, 1.0]]


def responses(schema: Any, method: str, path: str) -> Any:
    """The documented answers of a route, by status."""
    return schema["paths"][path][method]["responses"]


async def test_every_route_that_reads_may_find_the_store_away(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as client:
        schema = await client.read("/openapi.json")
        session = await client.create()

        def away(*_: object, **__: object) -> None:
            raise Unavailable(ProblemCode.STORAGE_FAILING, "the store is away")

        monkeypatch.setattr(client.service.store, "reader", away)
        monkeypatch.setattr(client.service.store, "begin", away)
        for path, operations in schema["paths"].items():
            for method in operations:
                if path in ("/healthz", "/metrics", "/v1/algorithms") or path.endswith("import"):
                    continue  # they need no store, or a body first
                bodies: dict[str, Any] = {
                    "/v1/sessions": {"dim": 2, "horizon": 4},
                    "/v1/batch": {"items": [{"session_id": session, "decision": {"skip": True}}]},
                    "/v1/sessions/{session_id}": {"archived": True},
                    "/v1/keys": {"role": "admin"},
                    "/v1/keys/{key_id}/rotation": {},
                    "/v1/limits": {"tenant": "north"},
                    "/v1/webhooks": {"url": "https://example.com/"},
                    "/v1/sessions/{session_id}/fits": {},
                    "/v1/sessions/{session_id}/copy": {},
                    "/v1/sessions/{session_id}/decisions/{event_id}/void": {},
                    "/v1/sessions/{session_id}/rewards": {"round": 1, "value": 1.0},
                }
                body = bodies.get(path, {"contexts": ARMS})
                content = {} if method in ("get", "delete") else {"json": body}
                asked = path.format(
                    session_id=session, event_id="x", key_id="x", key="x", name="x", webhook_id="x"
                )
                answer = await client.request(method, asked, **content)
                if path == "/v1/batch":
                    assert answer.json()["items"][0]["status"] == 503
                    continue
                problem(answer, 503, "storage_failing")
                assert answer.headers["retry-after"] == "1"
                assert "503" in responses(schema, method, path), (method, path)


@on_one_database
async def test_ranked_arm_ids_that_stand_twice(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        body = {"contexts": ARMS, "arm_ids": ["a", "a"]}
        answer = await client.post(f"/v1/sessions/{session}/rank", json=body)
        problem(answer, 409, "duplicate_arm_ids", "arm_ids[1]")
        schema = await client.read("/openapi.json")
        assert "409" in responses(schema, "post", "/v1/sessions/{session_id}/rank")


@on_one_database
async def test_what_is_not_json_is_documented_as_what_it_is(serve: Serve) -> None:
    async with serve() as client:
        schema = await client.read("/openapi.json")
        session = await client.create()
        for path in ("/metrics", "/v1/sessions/{session_id}/events"):
            answer = await client.get(path.format(session_id=session))
            [documented] = responses(schema, "get", path)["200"]["content"]
            assert answer.headers["content-type"].split(";")[0] == documented
