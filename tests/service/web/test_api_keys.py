"""Once there is a key nobody gets in without one, and it opens its tenant's data only."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from service.api import transfer
from service.api.access import EVERYBODY
from service.base.problems import Problem
from service.base.recurring import Intervals
from service.commands.keys import PREFIX, new_key, revoke_key, save_key
from service.session.records import ApiKey
from service.transfer.without_server import NotPossible, all_sessions, find
from service.web.api_keys import KeyWatch
from tests.service.conftest import Client, Serve, problem, until

pytestmark = pytest.mark.anyio
SESSION = {"name": "shop", "algorithm": "uniform", "dim": 2, "horizon": 4}
ARMS = [[1.0, 0.0], [0.0, 1.0]]


async def make_key(client: Client, tenant: str = "") -> tuple[str, ApiKey]:
    """A key in the database; this server has not read it yet."""
    key, row = new_key(tenant, "a test", 1000.0)
    await client.service.writer.submit(save_key(row))
    return key, row


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_a_key_is_256_random_bits_and_only_its_digest_is_a_row() -> None:
    made = [new_key("", "", 0.0) for _ in range(50)]
    assert len({key for key, _ in made}) == len({row.digest for _, row in made}) == 50
    for key, row in made:
        assert len(key.removeprefix(PREFIX)) == 43  # 6 bits a character
        assert len(row.digest) == 32
        assert key not in repr(row)


async def test_without_keys_everybody_is_let_in(serve: Serve) -> None:
    async with serve() as client:
        client.headers["authorization"] = "Bearer whatever"
        await client.create()


async def test_from_the_first_key_on_every_route_asks_for_one(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        key, _ = await make_key(client)
    path = f"/v1/sessions/{session}"
    async with serve() as client:
        asked: list[tuple[str, str, Any]] = [
            ("GET", "/v1/sessions", None),
            ("POST", "/v1/sessions", SESSION),
            ("POST", f"{path}/decisions", {"contexts": ARMS}),
            ("POST", f"{path}/rewards", {"round": 1, "value": 1.0}),
            ("POST", "/v1/batch", {"items": [{"session_id": session, "decision": {}}]}),
            ("DELETE", path, None),
            ("GET", f"{path}/events", None),
            ("GET", "/metrics", None),
            ("GET", "/v1/algorithms", None),
            ("GET", "/nowhere", None),
        ]
        wrong = [{}, bearer("lhb_no"), bearer(""), bearer(key[:-1]), {"authorization": key}]
        wrong += [{"authorization": f"Basic {key}"}, bearer(f"{key} {key}")]
        for method, route, body in asked:
            for headers in wrong:
                answer = await client.request(method, route, json=body, headers=headers)
                problem(answer, 401, "unauthorized", "authorization")
                assert answer.headers["www-authenticate"] == "Bearer"
                assert key not in answer.text
        for route in ("/healthz", "/readyz", "/openapi.json"):
            assert (await client.get(route)).status_code == 200
        client.headers.update(bearer(key))
        assert (await client.read(path))["n_rounds"] == 0  # nothing was written
        assert (await client.decide(session))["round"] == 1
        lower = {"authorization": f"bearer  {key} "}
        assert (await client.get(path, headers=lower)).status_code == 200


async def test_a_key_opens_its_tenants_data_only(serve: Serve) -> None:
    async with serve() as client:
        own = await client.create(name="shop")
        keys = {tenant: (await make_key(client, tenant))[0] for tenant in ("", "a", "b")}
    async with serve() as client:
        made = {"": own}
        for tenant in ("a", "b"):
            client.headers.update(bearer(keys[tenant]))
            made[tenant] = await client.create(name="shop")
        assert len(set(made.values())) == 3
        for tenant, key in keys.items():
            client.headers.update(bearer(key))
            listed = (await client.read("/v1/sessions"))["items"]
            assert [item["id"] for item in listed] == [made[tenant]]
            assert (await client.read("/v1/sessions/shop"))["id"] == made[tenant]
            for other, session in made.items():
                path = f"/v1/sessions/{session}"
                status = 200 if other == tenant else 404
                assert (await client.get(path)).status_code == status
                decided = await client.post(f"{path}/decisions", json={"contexts": ARMS})
                assert decided.status_code == (201 if other == tenant else 404)
                batch = {"items": [{"session_id": session, "decision": {"contexts": ARMS}}]}
                [item] = (await client.post("/v1/batch", json=batch)).json()["items"]
                assert item["status"] == (201 if other == tenant else 404)
                if other != tenant:
                    assert (await client.delete(path)).status_code == 404


async def test_a_revoked_key_lets_nobody_in_and_opens_nothing(serve: Serve) -> None:
    async with serve() as client:
        key, row = await make_key(client)
        with pytest.raises(Problem, match="no key"):
            await client.service.writer.submit(revoke_key("other"))
        first, again = [await client.service.writer.submit(revoke_key(row.id)) for _ in range(2)]
        assert first.revoked_at == again.revoked_at
    async with serve() as client:
        for headers in ({}, bearer(key)):
            answer = await client.get("/v1/sessions", headers=headers)
            problem(answer, 401, "unauthorized")


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
async def test_servers_on_a_shared_database_hear_of_keys(serve: Serve) -> None:
    assert Intervals().keys <= 1
    async with serve(Intervals(keys=0.05)) as client:
        assert (await client.get("/v1/sessions")).status_code == 200
        key, row = await make_key(client)

        async def answers(headers: dict[str, str], status: int) -> bool:
            return (await client.get("/v1/sessions", headers=headers)).status_code == status

        await until(lambda: answers({}, 401))
        assert await answers(bearer(key), 200)
        await client.service.writer.submit(revoke_key(row.id))
        await until(lambda: answers(bearer(key), 401))


async def test_a_door_once_closed_stays_closed() -> None:
    """Whatever happens to the table."""
    keys = KeyWatch()
    keys.load([new_key("", "", 0.0)[1]])
    keys.load([])
    assert keys.access_of({"path": "/healthz", "headers": []}) is not EVERYBODY
    with pytest.raises(Problem):
        keys.access_of({"path": "/v1/sessions", "headers": []})


async def test_the_command_line_sees_every_tenants_sessions(serve: Serve) -> None:
    async with serve() as client:
        key, _ = await make_key(client, "north")
        theirs = await client.create(name="shop")  # made without a key
    async with serve() as client:
        client.headers.update(bearer(key))
        ours, alone = await client.create(name="shop"), await client.create(name="farm")
        with client.service.store.reader() as reader:
            assert [session.id for session in all_sessions(reader)] == [theirs, ours, alone]
            assert [find(reader, name).id for name in (theirs, ours, "farm")] == [
                theirs,
                ours,
                alone,
            ]
            with pytest.raises(NotPossible, match=f"{theirs} and {ours}"):
                find(reader, "shop")
            with pytest.raises(NotPossible, match="no session"):
                find(reader, "barn")


def test_a_key_is_refused_from_the_second_of_its_expiry_on() -> None:
    now = [50.0]
    keys = KeyWatch(lambda: now[0])
    key, row = new_key("a", "", 0.0, "reader", 100.0)
    keys.load([row])
    headers = [(b"authorization", f"Bearer {key}".encode())]
    scope = {"path": "/v1/sessions", "headers": headers}
    assert keys.access_of(scope).tenant == "a"
    now[0] = 99.9
    assert keys.access_of(scope).key_id == row.id
    now[0] = 100.0
    with pytest.raises(Problem, match="valid key"):
        keys.access_of(scope)
    assert keys.access_of({**scope, "path": "/readyz"}).rank < 0  # like a request without a key


def test_uses_are_collected_once_a_key_until_they_are_stored() -> None:
    keys = KeyWatch()
    made = [new_key("a", "", 0.0) for _ in range(3)]
    keys.load([row for _, row in made])
    for _ in range(100):
        for key, _ in made[:2]:
            header = (b"authorization", f"Bearer {key}".encode())
            keys.access_of({"path": "/v1/sessions", "headers": [header]})
    assert set(keys.used) == {row.id for _, row in made[:2]}


async def two_keys(client: Client) -> tuple[str, str, ApiKey]:
    """An administrator's key, and another with its row."""
    administrator, admin = new_key("", "of an administrator", 1000.0, role="admin")
    await client.service.writer.submit(save_key(admin))
    return administrator, *await make_key(client)


async def test_a_stream_of_changes_ends_with_its_key(serve: Serve) -> None:
    """It ends at the first look after the revocation is known."""
    async with serve() as client:
        session = await client.create()
        other, key, row = await two_keys(client)
    often = Intervals(changes=0.01, stream=1e6)
    async with serve(often) as client, asyncio.timeout(120):
        path = f"/v1/sessions/{session}/changes"
        stream = asyncio.create_task(client.get(path, headers=bearer(key)))
        while not client.service.streams.n_taken:
            await asyncio.sleep(0)
        answer = await client.delete(f"/v1/keys/{row.id}", headers=bearer(other))
        assert answer.is_success, answer.text
        assert (await stream).text.count("data: ") == 1


async def test_an_export_is_cut_off_with_its_key(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has no end line knows that lines are missing."""
    n = transfer.CHUNK_LINES
    async with serve() as client:
        session = await client.create()
        log = {"contexts": [[1.0, 0.0]] * n, "rewards": [1.0] * n}
        await client.post(f"/v1/sessions/{session}/history", json=log)
        whole = (await client.get(f"/v1/sessions/{session}/events")).text
        other, key, row = await two_keys(client)
    async with serve() as client:
        following = transfer._next_chunk
        revoked = threading.Event()

        def revoke() -> None:
            asyncio.run_coroutine_threadsafe(
                client.delete(f"/v1/keys/{row.id}", headers=bearer(other)), loop
            ).result()
            revoked.set()

        def next_chunk(lines: Iterator[bytes]) -> bytes:
            if not revoked.is_set():
                revoke()
            return following(lines)

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(transfer, "_next_chunk", next_chunk)
        part = (await client.get(f"/v1/sessions/{session}/events", headers=bearer(key))).text
        assert whole.startswith(part)
        assert len(part.splitlines()) == n
