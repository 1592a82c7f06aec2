"""Keys are made, rotated and revoked through the API, and what was done stands in the audit log."""

from typing import Any

import httpx
import pytest

from service.base.recurring import Intervals
from service.commands.keys import new_key, save_key
from tests.service.conftest import Client, Serve, problem, until
from tests.service.web.test_api_keys import bearer

pytestmark = pytest.mark.anyio


async def make(client: Client, **body: Any) -> Any:
    """A new key, as answered."""
    answer = await client.post("/v1/keys", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def status_with(client: Client, key: str, path: str = "/v1/sessions") -> int:
    return (await client.get(path, headers=bearer(key))).status_code


async def test_the_first_key_closes_the_door_at_once_and_is_an_admins(serve: Serve) -> None:
    async with serve() as client:
        problem(await client.post("/v1/keys", json={}), 422, "bad_option", "role")
        assert (await client.get("/v1/keys")).json()["items"] == []
        made = await make(client, role="admin", label="me")
        assert (made["role"], made["tenant"], made["expires_at"]) == ("admin", "", None)
        problem(await client.get("/v1/keys"), 401, "unauthorized")
        client.headers.update(bearer(made["key"]))
        [row] = (await client.read("/v1/keys"))["items"]
        assert row == {name: value for name, value in made.items() if name != "key"}


async def test_a_key_lives_from_its_creation_to_its_revocation(serve: Serve) -> None:
    """Without a restart, on either database."""
    async with serve() as client:
        admin = await make(client, role="admin")
        client.headers.update(bearer(admin["key"]))
        shop = await make(client, label="shop", expires_in_seconds=3600)
        assert await status_with(client, shop["key"]) == 200
        assert shop["expires_at"] > shop["created_at"]
        gone = await client.delete(f"/v1/keys/{shop['id']}")
        assert gone.status_code == 204
        assert await status_with(client, shop["key"]) == 401
        assert (await client.delete(f"/v1/keys/{shop['id']}")).status_code == 204
        problem(await client.delete("/v1/keys/none"), 404, "unknown_key", "key_id")
        listed = {row["id"]: row for row in (await client.read("/v1/keys"))["items"]}
        assert listed[shop["id"]]["revoked_at"] is not None
        again = await client.post(f"/v1/keys/{shop['id']}/rotation", json={})
        problem(again, 409, "key_not_in_use", "key_id")
        actions = [one["action"] for one in (await client.read("/v1/audit"))["items"]]
        assert actions == ["key_created", "key_created", "key_revoked"]  # once, though asked twice
    async with serve() as client:  # and after one
        assert await status_with(client, shop["key"]) == 401
        assert await status_with(client, admin["key"]) == 200


async def test_both_keys_of_a_rotation_are_valid_while_they_overlap(serve: Serve) -> None:
    async with serve() as client:
        admin = await make(client, role="admin")
        client.headers.update(bearer(admin["key"]))
        body = {"role": "reader", "label": "prometheus", "expires_in_seconds": 1000.0}
        old = await make(client, **body)
        path = f"/v1/keys/{old['id']}/rotation"
        new = (await client.post(path, json={"overlap_seconds": 3600})).json()
        assert (new["role"], new["label"], new["tenant"]) == ("reader", "prometheus", "")
        assert new["id"] != old["id"]
        for key in (old, new):
            assert await status_with(client, key["key"]) == 200
        listed = {row["id"]: row for row in (await client.read("/v1/keys"))["items"]}
        assert listed[old["id"]]["expires_at"] == old["expires_at"]  # not put off
        assert new["expires_at"] > old["expires_at"]
        entries = (await client.read("/v1/audit"))["items"]
        told = [one["detail"] for one in entries if one["action"] == "key_rotated"][-1]
        assert told["expires_at"] == new["expires_at"]
        assert told["old_expires_at"] == listed[old["id"]]["expires_at"]
        last = await client.post(f"/v1/keys/{new['id']}/rotation", json={"overlap_seconds": 0.05})
        assert await status_with(client, last.json()["key"]) == 200

        async def is_refused() -> bool:
            return await status_with(client, new["key"]) == 401

        await until(is_refused)
        assert await status_with(client, last.json()["key"]) == 200


async def test_an_admin_manages_its_own_tenant_and_that_of_the_house_all(serve: Serve) -> None:
    async with serve() as client:
        house = await make(client, role="admin")
        client.headers.update(bearer(house["key"]))
        north = await make(client, role="admin", tenant="north")
        south = await make(client, tenant="south")
        client.headers.update(bearer(north["key"]))
        theirs = await make(client, label="theirs")
        assert theirs["tenant"] == "north"
        problem(await client.post("/v1/keys", json={"tenant": ""}), 403, "forbidden", "tenant")
        assert {row["tenant"] for row in (await client.read("/v1/keys"))["items"]} == {"north"}
        for other in (house, south):
            gone = await client.delete(f"/v1/keys/{other['id']}")
            problem(gone, 404, "unknown_key", "key_id")
            gone = await client.post(f"/v1/keys/{other['id']}/rotation", json={})
            problem(gone, 404, "unknown_key", "key_id")
        assert {one["tenant"] for one in (await client.read("/v1/audit"))["items"]} == {"north"}
        client.headers.update(bearer(house["key"]))
        pages = await pages_of(client, "/v1/keys?limit=2")
        assert [len(page) for page in pages] == [2, 2]
        assert {row["id"] for page in pages for row in page} == {
            key["id"] for key in (house, north, south, theirs)
        }
        assert (await client.delete(f"/v1/keys/{theirs['id']}")).status_code == 204


async def pages_of(client: Client, path: str) -> list[Any]:
    found, cursor = [], ""
    while cursor is not None:
        page = await client.read(f"{path}&cursor={cursor}")
        found.append(page["items"])
        cursor = page["next"]
    return found


async def test_changes_of_sessions_and_keys_are_in_the_audit_log(serve: Serve) -> None:
    """Who, by which request, what; in order; neither refused changes nor repeated creations."""
    async with serve() as client:
        open_session = await client.create(name="open")
        admin = await make(client, role="admin")
        client.headers.update(bearer(admin["key"]) | {"x-request-id": "mine"})
        session = await client.create(name="shop", algorithm="lin_ucb", options={"ridge": 0.5})
        again = {"name": "shop", "algorithm": "lin_ucb", "dim": 2, "horizon": 4, "seed": 1}
        again["options"] = {"ridge": 0.5}
        assert (await client.post("/v1/sessions", json=again)).status_code == 200
        problem(await client.patch("/v1/sessions/none", json={"name": "x"}), 404, "unknown_session")
        await client.patch(f"/v1/sessions/{session}", json={"name": "store", "archived": True})
        events = await client.get(f"/v1/sessions/{session}/events")
        imported = await imported_id(client, events)
        await client.delete(f"/v1/sessions/{session}")
        entries = [one for page in await pages_of(client, "/v1/audit?limit=2") for one in page]
    said = [(one["action"], one["subject"], one["actor"]) for one in entries]
    assert said == [
        ("session_created", open_session, None),
        ("key_created", admin["id"], None),
        ("session_created", session, admin["id"]),
        ("session_changed", session, admin["id"]),
        ("session_imported", imported, admin["id"]),
        ("session_deleted", session, admin["id"]),
    ]
    assert {one["request_id"] for one in entries[2:]} == {"mine"}
    assert entries[2]["detail"]["options"] == {"ridge": 0.5}
    assert entries[3]["detail"] == {"name": "store", "archived": True}
    assert [one["at"] for one in entries] == sorted(one["at"] for one in entries)
    assert admin["key"] not in str(entries)


async def imported_id(client: Client, events: httpx.Response) -> str:
    typed = {"content-type": "application/x-ndjson"}
    made = await client.post("/v1/sessions/import?name=copy", content=events.content, headers=typed)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def test_long_options_are_left_out_of_the_audit_log(serve: Serve) -> None:
    async with serve(allow_oracles=True) as client:
        body = {"algorithm": "oracle", "dim": 800, "options": {"theta": [0.25] * 800}}
        answer = await client.post("/v1/sessions", json={"horizon": 4, **body})
        assert answer.status_code == 201, answer.text
        [entry] = (await client.read("/v1/audit"))["items"]
        assert entry["detail"] == {"name": None, "algorithm": "oracle", "left_out": ["options"]}


async def test_last_use_is_stored_once_in_a_while_and_at_the_end(serve: Serve) -> None:
    async with serve() as client:
        key, row = new_key("", "", 1000.0, "admin")
        _, idle_row = new_key("", "", 1000.0, "admin")
        for one in (row, idle_row):
            await client.service.writer.submit(save_key(one))

    async def used(client: Client) -> dict[str, Any]:
        listed = (await client.read("/v1/keys"))["items"]
        return {one["id"]: one["last_used_at"] for one in listed}

    async with serve() as client:
        client.headers.update(bearer(key))
        n_before = client.service.writer.n_commands
        for _ in range(20):
            await client.read("/v1/sessions")
        assert client.service.writer.n_commands == n_before  # no write for a request
        assert await used(client) == {row.id: None, idle_row.id: None}
    async with serve(Intervals(use_of_keys=0.05)) as client:
        client.headers.update(bearer(key))
        first = await used(client)
        assert first[row.id] is not None  # by the stop of the server before
        assert first[idle_row.id] is None

        async def is_later() -> bool:
            return bool((await used(client))[row.id] > first[row.id])

        await until(is_later)
