"""Every route asks for a role, which its declaration says."""

import re
from typing import Any

import pytest
from fastapi.routing import APIRoute

from service.api.access import ADMIN, NEEDED, NO_KEY, READER, ROLES, WRITER
from service.commands.keys import new_key, save_key
from service.operation.app import ROUTERS
from service.web.middleware import refuse_role
from tests.examples import on_one_database
from tests.service.conftest import Serve, problem
from tests.service.web.test_api_keys import bearer

pytestmark = pytest.mark.anyio
BODIES = {  # enough to get beyond the role; what is wrong with a body is found later
    "/v1/sessions": {"dim": 2, "horizon": 4},
    "/v1/keys": {"role": "reader"},
}


def routes() -> set[tuple[str, str]]:
    """Method and path of every route, also of those that the schema does not show."""
    found = {
        (method, route.path)
        for module in ROUTERS
        for route in module.router.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }
    assert len(found) > 20
    return found


def test_every_route_declares_its_role() -> None:
    assert set(NEEDED) == routes()


def test_a_route_without_a_declared_role_needs_an_admin() -> None:
    refuse_role(ADMIN, "GET", "/new")
    with pytest.raises(Exception, match="admin"):
        refuse_role(WRITER, "GET", "/new")


def test_only_what_shows_no_data_needs_no_key() -> None:
    """And what writes needs more than a reader, but for two routes that compute."""
    without = {route for route, rank in NEEDED.items() if rank == NO_KEY}
    assert without == {("GET", path) for path in OPEN}
    writing = {route for route in NEEDED if route[0] != "GET"}
    computing = {("POST", "/v1/sessions/{session_id}/rank"), ("POST", "/dashboard/playground")}
    assert {route for route in writing if NEEDED[route] <= READER} == computing


OPEN = ("/", "/dashboard/{name:path}", "/docs", "/healthz", "/readyz")


@on_one_database
async def test_every_route_of_the_schema_asks_for_its_role(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        schema = await client.read("/openapi.json")
        made = {role: new_key("", role, 1000.0, role) for role in ROLES}
        for _, row in made.values():
            await client.service.writer.submit(save_key(row))
    async with serve() as client:
        for path, operations in schema["paths"].items():
            for method in operations:
                if path.endswith("/changes"):
                    continue  # an endless answer; the test of the declarations has it
                template = re.sub(r"\{(event_id|key|name)\}", r"{\1:text}", path)
                needed = NEEDED[method.upper(), template]
                for rank, role in enumerate(ROLES):
                    client.headers.update(bearer(made[role][0]))
                    # an id that is not there: nothing of the session is changed on the way
                    asked = path.format(
                        session_id="none",
                        event_id="x",
                        key_id="none",
                        key="x",
                        name="x",
                        webhook_id="x",
                    )
                    has_body = method not in ("get", "delete")
                    content: Any = {"json": BODIES.get(path, {})} if has_body else {}
                    answer = await client.request(method, asked, **content)
                    if rank < needed:
                        problem(answer, 403, "forbidden", "authorization")
                        assert "403" in operations[method]["responses"]
                    else:
                        assert answer.status_code not in (401, 403), (method, path, role)
        client.headers.update(bearer(made["reader"][0]))
        batch = {"items": [{"session_id": session, "decision": {"skip": True}}]}
        decisions = f"/v1/sessions/{session}/decisions"
        for path, body in ((decisions, {"skip": True}), ("/v1/batch", batch)):
            problem(await client.post(path, json=body), 403, "forbidden")
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0
        head = await client.head(f"/v1/sessions/{session}")
        assert head.status_code == 200
        problem(await client.get("/v1/keys"), 403, "forbidden")
        assert (await client.head("/v1/keys")).status_code == 403
