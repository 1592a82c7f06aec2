"""The bodies that a process holds are bounded together, whoever sends them."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from select import select

from service.base.server_settings import Settings
from service.web.request_body import BodyDeadlines, BodyMemory, RequestBody
from tests.faults.server_process import OURS, Server
from tests.faults.test_clients import ARMS, connect, create
from tests.faults.test_connections import everything
from tests.faults.test_deadlines import memory

MB = 2**20


def test_unfinished_bodies_hold_little_memory(tmp_path: Path) -> None:
    """A hundred bodies of 15 MB, each but for its last byte; nobody else is refused meanwhile."""
    limits = {"LHB_MAX_BODIES_BYTES": str(32 * MB), "LHB_BODY_TIMEOUT_SECONDS": "250"}
    with Server(tmp_path / "lhb.db", **limits) as server, server.client() as client:
        session = create(client)
        path = f"/v1/sessions/{session}/decisions"
        head = f"POST {path} HTTP/1.1\r\n{OURS}content-length: {15 * MB}\r\n\r\n".encode()
        body = b" " * (15 * MB - 1)

        def refusal(connection: socket.socket) -> bytes | None:
            """What was answered before the body was sent; None: all of it was taken."""
            left = memoryview(head + body)
            connection.setblocking(False)
            try:
                while left:
                    readable, writable, _ = select([connection], [connection], [])
                    if readable:
                        return everything(connection)
                    if writable:
                        left = left[connection.send(left) :]
            except OSError:  # a reset, which may have overtaken the answer
                return everything(connection)
            return None

        before = memory(server)
        with ExitStack() as stack, ThreadPoolExecutor(10) as threads:
            connections = [stack.enter_context(connect(server)) for _ in range(100)]
            answers = [answer for answer in threads.map(refusal, connections) if answer is not None]
            assert len(answers) > 50
            # a refusal waits a second for its reader; a reset takes with it what was not read
            assert {b'"code":"overloaded"' in answer for answer in answers if answer} == {True}
            assert memory(server) - before < 80 * MB
            assert client.post(path, json={"contexts": ARMS}).status_code == 201
        large = {"contexts": [[0.5, -0.25]] * 50_000}
        assert client.post(path, json=large).status_code == 201  # they are given back


def test_whole_bodies_that_wait_are_counted_too() -> None:
    """All but small ones: a queue of ten thousand commands holds as many bodies."""

    async def held(n_bytes: int) -> int:
        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b" " * n_bytes, "more_body": False}

        scope = {"type": "http", "path": "/v1/batch", "headers": []}
        body = RequestBody(scope, receive, Settings(), BodyDeadlines(1.0), BodyMemory(MB))
        assert len(await body.read()) == n_bytes
        return body.n_held

    assert [asyncio.run(held(n)) for n in (0, 8192, 8193, 60_000)] == [0, 0, 8193, 60_000]
