"""Server processes under a load generator: throughput, CPU a request, latency.

The load is wrk's; what is measured is the CPU of the servers (and of the database), because that
stays steady on a shared machine where throughput does not.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

N_CONNECTIONS, N_SESSIONS, N_ARMS, DIM = 64, 64, 20, 10
SERVE = "from service.server import run; run(port=0)"
_TICK = os.sysconf("SC_CLK_TCK")
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
_PLAIN = "body"
_TRAJECTORIES = """'{"trajectory":"' .. n %% 64 .. '",' .. string.sub(body, 2)"""


@dataclass(frozen=True)
class Load:
    """One measurement."""

    requests_per_second: float
    cpu_us: float
    database_cpu_us: float
    p99_ms: float
    commands_per_commit: float


@contextmanager
def servers(n: int, code: str, **environment: str) -> Iterator[list[tuple[str, int]]]:
    """`n` processes that run `code`; URL and process id of each."""
    with ExitStack() as stack:
        started = []
        for _ in range(n):
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, "LHB_LOG_LEVEL": "error", **environment},
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            assert process.stdout is not None
            line = process.stdout.readline()
            if "http" not in line:
                raise SystemExit("a server did not start; its reason is above")
            started.append((line.split()[-1], process.pid))
        yield started


def measure(started: Sequence[tuple[str, int]], seconds: int, *, one_session: bool = False) -> Load:
    """Single decisions, no two of them batched by the client, all processes on the same sessions.

    Parameters
    ----------
    one_session : bool
        One session of 64 trajectories rather than 64 sessions.
    """
    urls = [url for url, _ in started]
    n_sessions = 1 if one_session else N_SESSIONS
    with httpx.Client(base_url=urls[0], timeout=60) as client:
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
        ids = [client.post("/v1/sessions", json=body).json()["id"] for _ in range(n_sessions)]
        _wrk(urls, ids, 1, one_session)
        before, base = cpu_seconds([pid for _, pid in started]), cpu_seconds(_database())
        counts = [_counts(url) for url in urls]
        rps, p99, n = _wrk(urls, ids, seconds, one_session)
        used = cpu_seconds([pid for _, pid in started]) - before
        base = cpu_seconds(_database()) - base
        after = [_counts(url) for url in urls]
        for id in ids:
            client.delete(f"/v1/sessions/{id}")
    commands, commits = (
        sum(b[i] - a[i] for a, b in zip(counts, after, strict=True)) for i in (0, 1)
    )
    return Load(rps, used / n * 1e6, base / n * 1e6, p99, commands / max(1.0, commits))


def _wrk(
    urls: list[str], ids: list[str], seconds: int, one_session: bool
) -> tuple[float, float, int]:
    if shutil.which("wrk") is None:
        raise SystemExit("lhb bench serve needs wrk (Debian: apt-get install wrk)")
    rng = random.Random(1)
    contexts = [[round(rng.uniform(-1, 1), 12) for _ in range(DIM)] for _ in range(N_ARMS)]
    named = ",".join(f'"{id}"' for id in ids)
    body = _TRAJECTORIES.replace("%%", "%") if one_session else _PLAIN
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "decide.lua")
        script.write_text(_SCRIPT % (named, json.dumps({"contexts": contexts}), body))
        running = [
            subprocess.Popen(
                [
                    *("wrk", "-t1", "-c", str(N_CONNECTIONS // len(urls)), "-d", f"{seconds}s"),
                    *("-s", str(script), "--latency", url),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for url in urls
        ]
        texts = [process.communicate()[0] for process in running]
    if any("Non-2xx" in text or "Socket errors" in text for text in texts):
        raise SystemExit(f"not every request was answered:\n{''.join(texts)}")
    rps = sum(float(_found(r"Requests/sec:\s+([\d.]+)", text)) for text in texts)
    n = sum(int(_found(r"(\d+) requests in", text)) for text in texts)
    return rps, max(_milliseconds(_found(r"(?m)^\s+99%\s+(\S+)", text)) for text in texts), n


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"wrk said:\n{text}")
    return match[1]


def _milliseconds(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def _counts(url: str) -> tuple[float, float]:
    text = httpx.get(f"{url}/metrics").text
    return tuple(  # type: ignore[return-value]
        float(_found(rf"(?m)^{name} ([\d.e+]+)$", text))
        for name in ("lhb_commands_total", "lhb_commits_total")
    )


def _database() -> list[int]:
    """Processes called postgres on this machine: whoever else uses one spoils the figure."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text().strip() in ("postgres", "postmaster"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU seconds of processes so far; children that a server waited for are not its own."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / _TICK


def as_json(load: Load) -> dict[str, Any]:
    """Rounded for reading."""
    return {name: round(value, 2) for name, value in vars(load).items()}
