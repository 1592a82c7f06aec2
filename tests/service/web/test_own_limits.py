"""Limits of a tenant and of a key, taken by running servers without a restart."""

from typing import Any

import pytest

from service.base.recurring import Intervals
from service.web.rate_limit import RateLimit, of_tenant
from tests.service.api.test_keys import make, status_with
from tests.service.conftest import Client, Serve, problem, until
from tests.service.web.test_api_keys import bearer

pytestmark = pytest.mark.anyio
NEW = {"algorithm": "uniform", "dim": 2, "horizon": 4}


async def limit(client: Client, **body: Any) -> Any:
    """Set limits; the answer."""
    answer = await client.patch("/v1/limits", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def statuses(client: Client, key: Any, n: int = 4) -> list[int]:
    return [await status_with(client, key["key"]) for _ in range(n)]


async def test_a_key_and_a_tenant_are_limited_at_once(serve: Serve) -> None:
    async with serve(request_burst=2) as client:
        admin = await make(client, role="admin")
        client.headers.update(bearer(admin["key"]))
        one, two = [await make(client, tenant="north") for _ in range(2)]
        assert await statuses(client, one) == [200] * 4
        said = await limit(client, key_id=one["id"], requests_per_second=0.01)
        assert (said["tenant"], said["key_id"], said["requests_per_second"]) == (
            *("north", one["id"]),
            0.01,
        )
        assert await statuses(client, one) == [200, 200, 429, 429]
        assert await statuses(client, two) == [200] * 4
        await limit(client, key_id=one["id"], requests_per_second=0.0)
        assert await statuses(client, one) == [200] * 4
        await limit(client, tenant="north", requests_per_second=0.01)
        assert await statuses(client, one, 1) + await statuses(client, two) == [
            *(200, 200, 429, 429, 429),
        ]
        await limit(client, tenant="north", requests_per_second=None)
        assert await statuses(client, one) == [200] * 4
        found = (await client.read("/v1/limits"))["items"]
        assert {row["requests_per_second"] for row in found} == {0.0, None}
        told = (await client.read("/v1/audit"))["items"][3:]
        assert [entry["action"] for entry in told] == ["limit_set"] * 4
    async with serve(request_burst=2, requests_per_second=0.01) as client:
        assert await statuses(client, one) == [200] * 4  # its own, also after a restart
        assert await statuses(client, two) == [200, 200, 429, 429]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)  # a file is one server's
async def test_another_server_obeys_soon(serve: Serve) -> None:
    soon = Intervals(keys=0.05)
    async with serve(soon, request_burst=1) as first:
        admin = await make(first, role="admin")
        first.headers.update(bearer(admin["key"]))
        async with serve(soon, request_burst=1) as second:
            assert await statuses(second, admin) == [200] * 4
            await limit(first, key_id=admin["id"], requests_per_second=0.001)

            async def is_limited() -> bool:
                return await status_with(second, admin["key"]) == 429

            await until(is_limited)


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)  # both count
async def test_sessions_and_bytes_of_a_tenant(serve: Serve) -> None:
    async with serve(Intervals(full_tenants=3600.0), max_sessions=1) as client:
        session = await client.create(dim=2000)
        problem(await client.post("/v1/sessions", json=NEW), 409, "limit_reached")
        await limit(client, tenant="", max_sessions=2)
        assert (await client.post("/v1/sessions", json=NEW)).status_code == 201
        problem(await client.post("/v1/sessions", json=NEW), 409, "limit_reached")
        await limit(client, tenant="", max_sessions=0)
        assert (await client.post("/v1/sessions", json=NEW)).status_code == 201
        body = {"contexts": [[0.25] * 2000] * 80}
        path = f"/v1/sessions/{session}/history"
        assert (await client.post(path, json=body)).status_code == 201
        await limit(client, tenant="", max_tenant_mb=1)

        async def is_full() -> bool:
            return (await client.post(path, json={"contexts": []})).status_code == 409

        await until(is_full)  # at once, and not at the next look
        detail = (await client.post("/v1/sessions", json=NEW)).json()["detail"]
        assert "about 1 MB" in detail
        await limit(client, tenant="", max_tenant_mb=0)

        async def is_open() -> bool:
            return (await client.post("/v1/sessions", json=NEW)).status_code == 201

        await until(is_open)


async def test_who_sets_limits(serve: Serve) -> None:
    async with serve() as client:
        admin = await make(client, role="admin")
        client.headers.update(bearer(admin["key"]))
        north = await make(client, role="admin", tenant="north")
        await limit(client, tenant="south", max_sessions=3)
        unknown = await client.patch("/v1/limits", json={"key_id": "none"})
        problem(unknown, 404, "unknown_key", "key_id")
        both = {"key_id": north["id"], "max_sessions": 1}
        problem(await client.patch("/v1/limits", json=both), 422, "ambiguous", "key_id")
        for nobody in ({"max_sessions": 1}, {"tenant": "", "key_id": north["id"]}):
            problem(await client.patch("/v1/limits", json=nobody), 422, "ambiguous", "tenant")
        client.headers.update(bearer(north["key"]))
        problem(await client.patch("/v1/limits", json={"tenant": "north"}), 403, "forbidden")
        assert (await client.read("/v1/limits"))["items"] == []


def test_no_caller_is_taken_for_a_tenant() -> None:
    rates = RateLimit(0.01, 1, lambda: 0.0)
    assert of_tenant("") != ""
    rates.count_caller("")
    rates.count_caller(of_tenant(""))
