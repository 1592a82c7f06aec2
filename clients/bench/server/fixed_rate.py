"""Load at a fixed rate: latency counts from when a request was due, not from when it was sent."""

import asyncio
import time
from collections import deque
from typing import Any

from clients.bench.server.load import answer_length

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(url: str) -> Streams:
    """Open a connection to a server."""
    host, _, port = url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


async def post(connection: Streams, request: bytes) -> bytes:
    """Send a request; return the head of its answer once the whole answer has arrived."""
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(answer_length(head))
    return head


class _Steady(asyncio.Protocol):
    """A connection that has one request at a time under way, and is then free again.

    It is a protocol rather than a stream with a task because the generator shares the machine with
    the server.
    """

    def __init__(self, load: "_DueRequests") -> None:
        self._load = load
        self._answer = b""
        self._due = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def ask(self, due: float, request: bytes) -> None:
        self._due, self._answer = due, b""
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, separator, rest = self._answer.partition(b"\r\n\r\n")
        if not separator or len(rest) < answer_length(head):
            return
        self._load.answered(self, self._due, head)

    def connection_lost(self, error: Exception | None) -> None:
        self._load.fail(f"a connection was lost: {error}")


class _DueRequests:
    """Requests sent when they are due; one that waits for a free connection is timed meanwhile."""

    def __init__(self, n: int) -> None:
        self.free: deque[_Steady] = deque()
        self.late: deque[tuple[float, bytes]] = deque()
        self.latencies: list[float] = []
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._n = n

    def ask(self, due: float, request: bytes) -> None:
        if self.free:
            self.free.popleft().ask(due, request)
        else:
            self.late.append((due, request))

    def answered(self, connection: _Steady, due: float, head: bytes) -> None:
        self.latencies.append(time.perf_counter() - due)
        if not head.startswith(b"HTTP/1.1 201 "):
            self.fail(f"the server answered {head!r}")
        elif self.late:
            connection.ask(*self.late.popleft())
        else:
            self.free.append(connection)
        if len(self.latencies) == self._n and not self.end.done():
            self.end.set_result(None)

    def fail(self, reason: str) -> None:
        if not self.end.done():
            self.end.set_exception(SystemExit(reason))


async def _play(url: str, requests: list[bytes], rate: float, seconds: float) -> list[float]:
    load = _DueRequests(int(rate * seconds))
    host, _, port = url.removeprefix("http://").partition(":")
    for _ in range(64):
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Steady(load), host, int(port)
        )
        load.free.append(connection)
    connections = list(load.free)
    began, i, n = time.perf_counter(), 0, int(rate * seconds)
    while i < n and not load.end.done():
        due = began + i / rate
        pause = due - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        load.ask(due, requests[i % len(requests)])
        i += 1
    await load.end
    for connection in connections:
        connection.transport.close()
    return load.latencies


def steady_latencies(url: str, requests: list[bytes], rate: float, seconds: float) -> list[float]:
    """Return the seconds that every request took, sorted."""
    import uvloop

    return sorted(uvloop.run(_play(url, requests, rate, seconds)))
