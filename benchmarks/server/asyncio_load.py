"""The load generator on asyncio, for machines without wrk.

The load begins once all connections are made. At full load a connection sends its next request as
soon as the last one is answered. At a fixed rate, latency counts from when a request was due, not
from when it was sent.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from typing import Any


async def latencies(
    urls: list[str],
    n_connections: int,
    requests: Iterator[bytes],
    seconds: float,
    rate: float | None,
) -> list[float]:
    """Return the seconds that each request took.

    Parameters
    ----------
    urls : list of str
        Servers, which share the connections.
    n_connections : int
        Connections, with one request at a time under way on each.
    requests : iterator of bytes
        Whole requests, one after another, without end.
    seconds : float
        How long requests are sent.
    rate : float or None
        Requests per second; None sends as many as are answered.

    Raises
    ------
    SystemExit
        A request was not answered with success.
    """
    loop = asyncio.get_running_loop()
    load = _Load(requests)
    try:
        for i in range(n_connections):
            host, _, port = urls[i % len(urls)].removeprefix("http://").partition(":")
            await loop.create_connection(lambda: _Connection(load), host, int(port))
        load.begin(seconds if rate is None else None)
        if rate is not None:
            for i in range(int(rate * seconds)):
                due = load.began + i / rate
                if (pause := due - time.perf_counter()) > 0:
                    await asyncio.sleep(pause)
                if load.end.done():
                    break
                load.add(due)
            load.close()
        await load.end
    finally:
        for connection in load.connections:
            connection.transport.close()
    return load.latencies


class _Load:
    """Hands due requests to free connections; one that waits for a connection is timed meanwhile.

    Parameters
    ----------
    requests : iterator of bytes
        What to send.
    """

    def __init__(self, requests: Iterator[bytes]) -> None:
        self.began = 0.0
        self.connections: list[_Connection] = []
        self.latencies: list[float] = []
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._until = 0.0
        self._is_closed = False
        self._late: deque[float] = deque()
        self._free: deque[_Connection] = deque()

    def begin(self, seconds: float | None) -> None:
        """Begin with the connections that there are.

        Parameters
        ----------
        seconds : float or None
            At full load, how long a free connection sends another request at once; each sends at
            least one. None waits for `add`.
        """
        self.began = time.perf_counter()
        if seconds is not None:
            self._until, self._is_closed = self.began + seconds, True
            for _ in range(len(self._free)):
                self._free.popleft().ask(time.perf_counter(), next(self._requests))

    def add(self, due: float) -> None:
        """Send a request that is due now, or as soon as a connection is free."""
        if self._free:
            self._free.popleft().ask(due, next(self._requests))
        else:
            self._late.append(due)

    def close(self) -> None:
        """Add no more; the load ends with the last answer."""
        self._is_closed = True
        self._end_if_idle()

    def released(self, connection: "_Connection") -> None:
        """Use a connection that is new or has its answer."""
        now = time.perf_counter()
        if now < self._until:
            connection.ask(now, next(self._requests))
        elif self._late:
            connection.ask(self._late.popleft(), next(self._requests))
        else:
            self._free.append(connection)
            self._end_if_idle()

    def fail(self, reason: str) -> None:
        """End the load with an error."""
        if not self.end.done():
            self.end.set_exception(SystemExit(reason))

    def _end_if_idle(self) -> None:
        is_idle = len(self._free) == len(self.connections)
        if self._is_closed and is_idle and not self.end.done():
            self.end.set_result(None)


class _Connection(asyncio.Protocol):
    """A connection with one request at a time under way.

    It is a protocol rather than a stream with a task, which takes more of the processor.
    """

    def __init__(self, load: _Load) -> None:
        self._load = load
        self._answer = b""
        self._due = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._load.connections.append(self)
        self._load.released(self)

    def ask(self, due: float, request: bytes) -> None:
        self._due, self._answer = due, b""
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, separator, rest = self._answer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not separator or len(rest) < int(length):
            return
        self._load.latencies.append(time.perf_counter() - self._due)
        if head.startswith(b"HTTP/1.1 201 "):
            self._load.released(self)
        else:
            self._load.fail(f"the server answered {self._answer!r}")

    def connection_lost(self, error: Exception | None) -> None:
        self._load.fail(f"a connection was lost: {error}")
