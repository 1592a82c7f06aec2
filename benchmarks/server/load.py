"""Load on servers: as many decisions a second as they answer, or a given rate.

The generator is wrk where it is installed, else asyncio. Both have one request at a time under way
on every connection. wrk needs less CPU; a run uses one generator throughout, and its report says
which.
"""

import json
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

N_CONNECTIONS, N_ARMS, DIM = 64, 20, 10
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_SCRIPT = """
local ids = {%s}
local body = '%s'
local n = 0
request = function()
  n = n + 1
  local path = "/v1/sessions/" .. ids[n %% #ids + 1] .. "/decisions"
  return wrk.format("POST", path, {["content-type"] = "application/json"%s}, %s)
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


def decide_all(
    urls: list[str],
    ids: list[str],
    seconds: float,
    one_session: bool,
    headers: Mapping[str, str] = NO_HEADERS,
    body: str | None = None,
) -> Answered:
    """Ask for decisions of all sessions in turn, or of 64 trajectories of the only one.

    `headers` are sent with every request, beside the content type. `body` is another than that of
    N_ARMS contexts.

    Raises
    ------
    SystemExit
        A request was not answered with success.
    """
    play = by_wrk if generator() == "wrk" else by_asyncio
    return play(urls, ids, body or decision_body(), seconds, one_session, headers=headers)


def decision_body() -> str:
    """Return a body that asks for a decision, with N_ARMS contexts."""
    rng = random.Random(1)
    contexts = [[round(rng.uniform(-1, 1), 12) for _ in range(DIM)] for _ in range(N_ARMS)]
    return json.dumps({"contexts": contexts})


def by_wrk(
    urls: list[str],
    ids: list[str],
    body: str,
    seconds: float,
    one_session: bool,
    pause_ms: float = 0.0,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Answered:
    """Run one wrk process a server; connections pause `pause_ms` on average between requests."""
    n, options = N_CONNECTIONS // len(urls), (seconds, one_session, pause_ms, headers)
    with tempfile.TemporaryDirectory() as folder:
        running = [
            subprocess.Popen(
                _command(Path(folder), url, ids, body, *options, n),
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


def _command(
    folder: Path,
    url: str,
    ids: list[str],
    body: str,
    seconds: float,
    one_session: bool,
    pause_ms: float,
    headers: Mapping[str, str],
    n_connections: int,
) -> list[str]:
    """Write wrk's script into a folder; return its command."""
    named = ",".join(f'"{id}"' for id in ids)
    script = folder / "decide.lua"
    more = "".join(f', ["{name}"] = "{value}"' for name, value in headers.items())
    lua = _SCRIPT % (named, body, more, _TRAJECTORIES if one_session else _PLAIN)
    script.write_text(lua + (_PAUSE % pause_ms if pause_ms else ""))
    return [
        *("wrk", "-t1", "-c", str(n_connections), "-d", f"{seconds:g}s"),
        *("-s", str(script), "--timeout", "30s", "--latency", url),
    ]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"wrk said:\n{text}")
    return match[1]


def _milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def by_asyncio(
    urls: list[str],
    ids: list[str],
    body: str,
    seconds: float,
    one_session: bool,
    rate: float | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Answered:
    """Load all servers from one event loop of this process; see `asyncio_load`."""
    import uvloop

    from benchmarks.server.asyncio_load import latencies

    paths = [f"/v1/sessions/{id}/decisions" for id in ids]
    if one_session:
        bodies = [f'{{"trajectory":"{i}",{body[1:]}' for i in range(64)]
        requests = [request_of(paths[0], text, headers) for text in bodies]
    else:
        requests = [request_of(path, body, headers) for path in paths]
    began = time.perf_counter()
    found = sorted(uvloop.run(latencies(urls, N_CONNECTIONS, cycle(requests), seconds, rate)))
    elapsed, n = time.perf_counter() - began, len(found)
    return Answered(n / elapsed, found[int(0.99 * n)] * 1e3, n)


def request_of(path: str, body: str, headers: Mapping[str, str] = NO_HEADERS) -> bytes:
    """Return a whole POST request."""
    content = body.encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head += f"content-length: {len(content)}\r\n\r\n"
    return head.encode() + content
