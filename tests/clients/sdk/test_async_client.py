"""The asynchronous client does what the synchronous one does; both keep their connections."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from clients.sdk.wire import backoff
from lhb import AsyncClient, Client, NotFound, Unavailable

CONTEXTS = [[0.3, -0.1], [0.2, 0.9]]


def test_a_loop_that_is_awaited(url: str) -> None:
    async def play() -> None:
        async with AsyncClient(url) as client:
            session = await client.create_session(
                "awaited", algorithm="uniform", dim=2, horizon=5, reward_mode="sum"
            )
            for i in range(3):
                decision = await session.decide(CONTEXTS, trajectory="a")
                assert decision.round == i + 1
                got = await session.reward(0.5, round=decision.round, trajectory="a")
                assert got == {"accepted": 1, "repeated": 0, "kept": 0}
            skipped = await session.skip(
                trajectory="a", rewards=[{"at": datetime.now(UTC), "value": 1.0}]
            )
            assert skipped["round"] == 4
            log = [one["reward"] async for one in session.rounds(trajectory="a", limit=2)]
            assert log == [0.5, 0.5, 1.5, None]
            found = await client.get_or_create("awaited", dim=9, horizon=9)
            assert found.id == session.id
            assert [one.id async for one in client.sessions(name="awaited")] == [session.id]
            item = {"session_id": "awaited", "reward": {"round": 9, "value": 1.0}}
            [answer] = await client.batch([item])
            assert answer["problem"]["code"] == "missing"  # sum mode wants a reward_id of items
            await session.delete()
            with pytest.raises(NotFound):
                await session.read()

    asyncio.run(play())


def test_many_are_under_way_at_once(url: str) -> None:
    async def play() -> list[int]:
        async with AsyncClient(url) as client:
            session = await client.create_session(algorithm="uniform", dim=2, horizon=5)
            made = await asyncio.gather(*(session.decide(CONTEXTS) for _ in range(20)))
            return sorted(one.round for one in made)

    assert asyncio.run(play()) == list(range(1, 21))


@pytest.fixture
def counting() -> Iterator[tuple[str, list[str]]]:
    """A server that counts connections; it is busy twice, then has a page of two and one of one."""
    connections: list[str] = []
    n_requests = 0

    class Counting(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            connections.append("one")
            super().setup()

        def do_GET(self) -> None:
            nonlocal n_requests
            n_requests += 1
            if n_requests <= 2:
                status, body = 503, b'{"code": "overloaded"}'
            elif "cursor" in self.path:
                status, body = 200, b'{"items": [{"id": "c"}], "next": null}'
            else:
                status, body = 200, b'{"items": [{"id": "a"}, {"id": "b"}], "next": "2"}'
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", connections
    server.shutdown()
    thread.join()
    server.server_close()


def test_one_connection_serves_retries_and_pages(counting: tuple[str, list[str]]) -> None:
    url, connections = counting
    with Client(url) as client:
        assert [one.id for one in client.sessions()] == ["a", "b", "c"]
    assert len(connections) == 1


def test_one_awaited_connection_serves_retries_and_pages(counting: tuple[str, list[str]]) -> None:
    url, connections = counting

    async def read() -> list[str]:
        async with AsyncClient(url) as client:
            return [one.id async for one in client.sessions()]

    assert asyncio.run(read()) == ["a", "b", "c"]
    assert len(connections) == 1


def test_what_does_not_pass_is_an_error_after_the_retries(counting: tuple[str, list[str]]) -> None:
    url, _ = counting

    async def read() -> None:
        async with AsyncClient(url, n_retries=0) as client:
            await client.algorithms()

    with pytest.raises(Unavailable) as refused:
        asyncio.run(read())
    assert (refused.value.status, refused.value.code) == (503, "overloaded")
    with Client(url, n_retries=1) as client:
        assert client.request("GET", "/")["next"] == "2"


def test_no_server_is_an_error_of_the_awaited_client_too() -> None:
    async def read() -> None:
        async with AsyncClient("http://127.0.0.1:9", n_retries=1) as client:
            await client.algorithms()

    with pytest.raises(Unavailable):
        asyncio.run(read())


def test_clients_that_failed_together_do_not_come_back_together() -> None:
    for retry_after, least in ((None, 0.0), ("2", 2.0)):
        delays = {backoff(4, retry_after) for _ in range(50)}
        assert len(delays) > 40
        assert least <= min(delays) <= max(delays) <= least + 1.6
    assert backoff(60, None) <= 5.0
    assert backoff(0, "3600") <= 30.1


def test_a_handle_asks_nothing_until_it_is_read(url: str) -> None:
    with Client(url) as client:
        made = client.create_session("by handle / ?", algorithm="uniform", dim=2, horizon=5)
        handle = client.session_handle("by handle / ?")
        with pytest.raises(LookupError, match="was not read yet"):
            handle.info  # noqa: B018
        assert handle.decide(CONTEXTS).round == 1
        assert handle.read()["id"] == made.id
        assert handle.info["n_rounds"] == 1
    with Client("http://127.0.0.1:9") as away:
        assert away.session_handle("shop").id == "shop"


def test_get_or_create_makes_it_once_and_finds_an_archived_one(url: str) -> None:
    with Client(url) as client:
        made = client.get_or_create("once", dim=2, horizon=5, algorithm="uniform", seed=3)
        assert (made.info["algorithm"], made.info["seed"]) == ("uniform", 3)
        client.request("PATCH", f"/v1/sessions/{made.id}", json={"archived": True})
        again = client.get_or_create("once", dim=3, horizon=7)
        assert again.id == made.id
        assert (again.info["dim"], again.info["archived"]) == (2, True)
