"""Webhooks over HTTP: made by an admin, signed, again until received, also over a server's end."""

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service.base.recurring import Intervals
from service.operation.webhooks import signed
from tests.service.api.test_keys import make
from tests.service.conftest import Client, Serve, problem, until
from tests.service.web.test_api_keys import bearer

pytestmark = pytest.mark.anyio
SOON = Intervals(webhooks=0.02, attempts=0.05, claim=0.2)
LOOPBACK = {"webhook_networks": "127.0.0.0/8"}


class Receiver:
    """What came: headers and body of each request. `statuses` are its answers, then 200."""

    def __init__(self, *statuses: int) -> None:
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.statuses = list(statuses)
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        self.came.append((headers, await reader.readexactly(int(headers["content-length"]))))
        status = self.statuses.pop(0) if self.statuses else 200
        if not status:  # no answer while somebody listens
            await reader.read()
        writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Receive; the URL."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"

    async def n_came(self, n: int) -> None:
        """Wait for so many requests."""

        async def is_there() -> bool:
            return len(self.came) >= n

        await until(is_there)


async def add(client: Client, url: str, **body: Any) -> Any:
    """A new webhook, as answered."""
    answer = await client.post("/v1/webhooks", json={"url": url, **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def listed(client: Client) -> Any:
    return (await client.read("/v1/webhooks"))["items"]


def assert_signed(secret: str, headers: dict[str, str], body: bytes) -> None:
    """By the text of Standard Webhooks, without our code."""
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.split("_")[1])
    digest = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"


def test_the_signature_is_that_of_the_published_libraries() -> None:
    """The vector of the tests of `standardwebhooks`."""
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    headers = signed(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_message_is_signed_and_comes_again_until_it_is_received(serve: Serve) -> None:
    receiver = Receiver(500)
    async with receiver.open() as url, serve(SOON, **LOOPBACK) as client:
        made = await add(client, url, events=["guard_tripped"])
        secret = made.pop("secret")
        assert [made] == await listed(client)
        assert (made["events"], made["n_waiting"]) == (["guard_tripped"], 0)
        path = f"/v1/webhooks/{made['id']}"
        assert (await client.post(f"{path}/test")).status_code == 204
        await receiver.n_came(2)
        (first, body), (second, again) = receiver.came
        assert first["webhook-id"] == second["webhook-id"]
        assert body == again
        assert json.loads(body)["type"] == "test"
        for headers in (first, second):
            assert_signed(secret, headers, body)

        async def is_noted() -> Any:
            [now] = await listed(client)
            return now["delivered_at"] and now

        now = await until(is_noted)
        assert (now["last_error"], now["n_waiting"], now["next_try_at"]) == (None, 0, None)
        assert made["created_at"] < now["failed_at"] < now["delivered_at"]

        async def is_counted() -> Any:  # once the note is stored, which is seen before
            text = (await client.get("/metrics")).text
            return 'attempts_total{outcome="delivered",tenant=""} 1.0' in text and text

        metrics = await until(is_counted)
        assert 'lhb_webhook_attempts_total{outcome="failed",tenant=""} 1.0' in metrics
        assert 'lhb_webhook_messages_waiting{tenant=""} 0.0' in metrics
        assert 'lhb_webhook_messages_given_up_total{tenant=""} 0.0' in metrics
        assert (await client.delete(path)).status_code == 204
        assert await listed(client) == []
        for answer in (await client.delete(path), await client.post(f"{path}/test")):
            problem(answer, 404, "unknown_webhook", "webhook_id")
        actions = [one["action"] for one in (await client.read("/v1/audit"))["items"]]
        assert actions == ["webhook_created", "webhook_removed"]


async def test_what_a_server_was_sending_when_it_ended_comes_again_with_its_id(
    serve: Serve,
) -> None:
    receiver = Receiver(0)
    async with receiver.open() as url:
        async with serve(SOON, **LOOPBACK) as client:
            made = await add(client, url)
            await client.post(f"/v1/webhooks/{made['id']}/test")
            await receiver.n_came(1)
        async with serve(SOON, **LOOPBACK) as client:
            await receiver.n_came(2)

            async def is_gone() -> bool:
                return bool((await listed(client))[0]["n_waiting"] == 0)

            await until(is_gone)
    (first, _), (second, _) = receiver.came
    assert first["webhook-id"] == second["webhook-id"]


async def test_by_default_no_webhook_leads_inside(serve: Serve) -> None:
    async with serve(SOON) as client:
        for url in ("http://example.com/", "https://127.0.0.1/", "https://[::1]:8080/", "x"):
            problem(await client.post("/v1/webhooks", json={"url": url}), 422, "invalid", "url")
        made = await add(client, "https://localhost/hook")  # resolved when it is told
        await client.post(f"/v1/webhooks/{made['id']}/test")

        async def has_failed() -> Any:
            [now] = await listed(client)
            return now["last_error"] and now

        now = await until(has_failed)
        assert now["last_error"] == "the host has no public address"
        assert now["next_try_at"] > now["failed_at"]
        assert now["n_waiting"] == 1


async def test_webhooks_are_an_admins_and_its_tenants(serve: Serve) -> None:
    async with serve() as client:
        house = await make(client, role="admin")
        client.headers.update(bearer(house["key"]))
        north = await make(client, role="admin", tenant="north")
        writer = await make(client, tenant="north")
        theirs = await add(client, "https://example.com/")
        client.headers.update(bearer(north["key"]))
        assert await listed(client) == []
        problem(await client.delete(f"/v1/webhooks/{theirs['id']}"), 404, "unknown_webhook")
        for _ in range(20):
            await add(client, "https://example.com/")
        answer = await client.post("/v1/webhooks", json={"url": "https://example.com/"})
        problem(answer, 409, "limit_reached")
        client.headers.update(bearer(writer["key"]))
        problem(await client.get("/v1/webhooks"), 403, "forbidden")
