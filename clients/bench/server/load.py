"""Full load: as many decisions a second as a server answers.

The generator is wrk where it is installed, else asyncio. Both keep one request under way on every
connection. wrk needs less CPU; a run uses one generator throughout, and its report says which.
"""

import asyncio
import json
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

N_CONNECTIONS, N_ARMS, DIM = 64, 20, 10
_SCRIPT = """
local ids = {%s}
local body = '%s'
local n = 0
request = function()
  n = n + 1
  local path = "/v1/sessions/" .. ids[n %% #ids + 1] .. "/decisions"
  return wrk.format("POST", path, {["content-type"] = "application/json"}, %s)
end
"""
# exponential pauses between an answer and the next request: requests arrive nearly as Poisson
_PAUSE = """
delay = function() return math.floor(0.5 - %f * math.log(1 - math.random())) end
"""
_PLAIN = "body"
_TRAJECTORIES = """'{"trajectory":"' .. n % 64 .. '",' .. string.sub(body, 2)"""


class Answered(NamedTuple):
    """What a run of the generator measured."""

    requests_per_second: float
    p99_ms: float
    n: int


def generator() -> str:
    """Return the name of the generator that this machine has."""
    return "wrk" if shutil.which("wrk") else "asyncio"


def decide_all(urls: list[str], ids: list[str], seconds: float, one_session: bool) -> Answered:
    """Ask for decisions of all sessions in turn, or of 64 trajectories of the only one.

    Raises
    ------
    SystemExit
        A request was not answered with success.
    """
    rng = random.Random(1)
    contexts = [[round(rng.uniform(-1, 1), 12) for _ in range(DIM)] for _ in range(N_ARMS)]
    play = by_wrk if generator() == "wrk" else by_asyncio
    return play(urls, ids, json.dumps({"contexts": contexts}), seconds, one_session)


def by_wrk(
    urls: list[str],
    ids: list[str],
    body: str,
    seconds: float,
    one_session: bool,
    pause_ms: float = 0.0,
) -> Answered:
    """Run one wrk process a server; connections pause `pause_ms` on average between requests."""
    named = ",".join(f'"{id}"' for id in ids)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "decide.lua")
        lua = _SCRIPT % (named, body, _TRAJECTORIES if one_session else _PLAIN)
        script.write_text(lua + (_PAUSE % pause_ms if pause_ms else ""))
        running = [
            subprocess.Popen(
                [
                    *("wrk", "-t1", "-c", str(N_CONNECTIONS // len(urls)), "-d", f"{seconds:g}s"),
                    *("-s", str(script), "--timeout", "30s", "--latency", url),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for url in urls
        ]
        texts = [process.communicate()[0] for process in running]
    if any("Non-2xx" in text or "Socket errors" in text for text in texts):
        raise SystemExit(f"not every request was answered:\n{''.join(texts)}")
    return Answered(
        sum(float(_found(r"Requests/sec:\s+([\d.]+)", text)) for text in texts),
        max(_milliseconds(_found(r"(?m)^\s+99%\s+(\S+)", text)) for text in texts),
        sum(int(_found(r"(\d+) requests in", text)) for text in texts),
    )


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"wrk said:\n{text}")
    return match[1]


def _milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def by_asyncio(
    urls: list[str], ids: list[str], body: str, seconds: float, one_session: bool
) -> Answered:
    """Load all servers from one event loop of this process."""
    import uvloop

    began = time.perf_counter()
    latencies = sorted(uvloop.run(_play(urls, _requests(ids, body, one_session), seconds)))
    elapsed, n = time.perf_counter() - began, len(latencies)
    return Answered(n / elapsed, latencies[int(0.99 * n)] * 1e3, n)


def request_of(path: str, body: Any) -> bytes:
    """Return a whole POST request; a `body` that is no string is encoded as JSON."""
    content = (body if isinstance(body, str) else json.dumps(body)).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: lhb\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def _requests(ids: list[str], body: str, one_session: bool) -> Iterator[bytes]:
    paths = [f"/v1/sessions/{id}/decisions" for id in ids]
    if one_session:
        bodies = [f'{{"trajectory":"{i}",{body[1:]}' for i in range(64)]
        made = [request_of(paths[0], text) for text in bodies]
    else:
        made = [request_of(path, body) for path in paths]
    return (made[i % len(made)] for i in count())


async def _play(urls: list[str], requests: Iterator[bytes], seconds: float) -> list[float]:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    deadline = time.perf_counter() + seconds
    ends, transports = [], []
    for i in range(N_CONNECTIONS):
        host, _, port = urls[i % len(urls)].removeprefix("http://").partition(":")
        end: asyncio.Future[None] = loop.create_future()
        ends.append(end)
        transport, _ = await loop.create_connection(
            lambda end=end: _LoadConnection(requests, deadline, latencies, end),  # type: ignore[misc]
            host,
            int(port),
        )
        transports.append(transport)
    try:
        await asyncio.gather(*ends)
    finally:
        for transport in transports:
            transport.close()
    return latencies


class _LoadConnection(asyncio.Protocol):
    """A connection that sends a request, waits for the whole answer, and sends the next."""

    def __init__(
        self,
        requests: Iterator[bytes],
        deadline: float,
        latencies: list[float],
        end: "asyncio.Future[None]",
    ) -> None:
        self._requests, self._deadline = requests, deadline
        self._latencies, self._end = latencies, end
        self._answer = b""
        self._asked = 0.0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._answer, self._asked = b"", time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, separator, rest = self._answer.partition(b"\r\n\r\n")
        if not separator or len(rest) < answer_length(head):
            return
        now = time.perf_counter()
        self._latencies.append(now - self._asked)
        if not head.startswith(b"HTTP/1.1 2"):
            self._end.set_exception(SystemExit(f"the server answered {self._answer!r}"))
            self._transport.close()
        elif now < self._deadline:
            self._ask()
        else:
            self._end.set_result(None)
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._end.done():
            self._end.set_exception(SystemExit(f"a connection was lost: {error}"))


def answer_length(head: bytes) -> int:
    """Return the length of an answer's body, in bytes."""
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
