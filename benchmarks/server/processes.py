"""Server processes under load: throughput, CPU a request, latency.

On a shared machine the CPU time of the servers and of the database is steadier than throughput, so
it is measured as well.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.server.load import DIM, decide_all

N_SESSIONS = 64
SERVE = "from service.operation.server import run; run(port=0)"
# before it under valgrind: a transaction takes what waits, though its commands take long
UNHURRIED = """
import contextlib
with contextlib.suppress(ImportError):  # an older checkout
    from service.storage.sqlite.store import SqliteStore
    SqliteStore.transaction_seconds = 3600.0
"""


@dataclass(frozen=True)
class LoadResult:
    """What one load on some servers measured."""

    requests_per_second: float
    cpu_us: float
    database_cpu_us: float
    p99_ms: float
    commands_per_commit: float


@contextmanager
def servers(
    n: int, code: str, log: str = "", under: Sequence[str] = (), **environment: str
) -> Iterator[list[tuple[str, int]]]:
    """Run `n` processes of `code`; yield the URL and the process id of each.

    Their log goes to the file `log`, or where ours goes. `under` is a command that runs them, like
    valgrind.
    """
    with ExitStack() as stack:
        started = []
        errors = stack.enter_context(Path(log).open("a")) if log else None
        for _ in range(n):
            process = subprocess.Popen(
                [*under, sys.executable, "-c", code],
                env={**os.environ, "LHB_LOG_LEVEL": "error", **environment},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert process.stdout is not None
            stack.enter_context(process.stdout)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            line = process.stdout.readline()
            if "http" not in line:
                raise SystemExit("a server did not start; see its message above")
            started.append((line.split()[-1], process.pid))
        yield started


def measure(
    started: Sequence[tuple[str, int]], seconds: int, *, one_session: bool = False
) -> LoadResult:
    """Load the servers with single decisions; all of them serve the same sessions.

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
        decide_all(urls, ids, 1, one_session)
        before, base = cpu_seconds([pid for _, pid in started]), cpu_seconds(_database())
        counts = [_counts(url) for url in urls]
        answered = decide_all(urls, ids, seconds, one_session)
        used = cpu_seconds([pid for _, pid in started]) - before
        base = cpu_seconds(_database()) - base
        after = [_counts(url) for url in urls]
        for id in ids:
            client.delete(f"/v1/sessions/{id}")
    commands, commits = (
        sum(b[i] - a[i] for a, b in zip(counts, after, strict=True)) for i in (0, 1)
    )
    rps, p99, n = answered
    return LoadResult(rps, used / n * 1e6, base / n * 1e6, p99, commands / max(1.0, commits))


def _counts(url: str) -> tuple[float, float]:
    text = httpx.get(f"{url}/metrics", timeout=60).text
    found = dict(re.findall(r"(?m)^(lhb_commands_total|lhb_commits_total) ([\d.e+]+)$", text))
    return float(found["lhb_commands_total"]), float(found["lhb_commits_total"])


def _database() -> list[int]:
    """Return all postgres processes of this machine; another user's load is counted with ours."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "comm").read_text().strip() in ("postgres", "postmaster"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def key_of(url: str, tenant: str) -> dict[str, str]:
    """Make an admin's key for a tenant in a database; return the header that presents it."""
    from service.commands.keys import new_key, save_key
    from service.transfer.without_server import run as run_command

    key, row = new_key(tenant, "lhb bench", time.time())
    run_command(url, save_key(row), "")
    return {"authorization": f"Bearer {key}"}


def cpu_seconds(pids: Sequence[int]) -> float:
    """Return the CPU seconds of processes so far, without those of their children.

    From each process's own clock (Linux, clock_getcpuclockid), which counts nanoseconds: ticks of
    /proc are 10 ms.
    """
    total = 0.0
    for pid in pids:
        with suppress(OSError):  # it has ended
            total += time.clock_gettime(~pid << 3 | 2)
    return total


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB of 10^6 bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def as_json(load: LoadResult) -> dict[str, Any]:
    """Return the fields, rounded."""
    return {name: round(value, 2) for name, value in vars(load).items()}
