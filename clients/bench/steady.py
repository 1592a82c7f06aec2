"""Load at a fixed rate: latency counts from when a request was due, not from when it was sent."""

import asyncio
import time
from typing import Any

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(url: str) -> Connection:
    """A connection to a server."""
    host, _, port = url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


async def post(connection: Connection, request: bytes) -> bytes:
    """Send a whole request; the head of its answer, once all of it has come."""
    reader, writer = connection
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return head


async def _play(url: str, requests: list[bytes], rate: float, seconds: float) -> list[float]:
    free: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(64):
        free.put_nowait(await connect(url))
    latencies: list[float] = []

    async def one(due: float, request: bytes) -> None:
        connection = await free.get()
        head = await post(connection, request)
        latencies.append(time.perf_counter() - due)
        free.put_nowait(connection)
        if b" 201 " not in head:
            raise SystemExit(f"the server answered {head!r}")

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for i in range(int(rate * seconds)):
            due = began + i / rate
            pause = due - time.perf_counter()
            if pause > 0:
                await asyncio.sleep(pause)
            group.create_task(one(due, requests[i % len(requests)]))
    while not free.empty():
        free.get_nowait()[1].close()
    return latencies


def steady_latencies(url: str, requests: list[bytes], rate: float, seconds: float) -> list[float]:
    """Seconds of every request, sorted."""
    import uvloop

    return sorted(uvloop.run(_play(url, requests, rate, seconds)))
