"""A quiet tenant beside one that floods: its decisions, fits and reads, flood by flood.

Every flood has a server of its own, and on SQLite a file of its own. Latency is that of decisions
at a fixed rate, throughput that of as many decisions as are answered, each with the flood and just
before it. Meanwhile a blocking session of the quiet tenant learns, and the tenant exports.

Flood, server and load generator share the machine. What the server itself held is told apart by
its own notes (`stalls`): the longest transaction and the longest stall of the event loop, and the
CPU time that these took.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvloop

from benchmarks.server.asyncio_load import latencies
from benchmarks.server.floods import N_DELETED, Flooded, prepared
from benchmarks.server.large_session import store
from benchmarks.server.load import DIM, N_ARMS, N_CONNECTIONS, decide_all, generator, request_of
from benchmarks.server.processes import N_SESSIONS, SERVE, key_of, resident_mb, servers
from benchmarks.server.stalls import LOG, WATCHED, noted

RATE = 50.0  # of the quiet tenant's decisions, a second
WORK = "from service.operation.worker import run; run()"
EXPORT_SECONDS = 0.2  # from one export to the next
UNDER_WAY_SECONDS = 5.0  # of a flood before it is measured: processes that parse start meanwhile
QUIET, FLOODING = "quiet", "flooding"  # tenants


def run(
    names: list[str],
    seconds: float,
    rounds: int,
    checkout: Path | None = None,
    database: str | None = None,
) -> dict[str, Any]:
    """Measure the quiet tenant beside each flood.

    Parameters
    ----------
    names : list of str
        Floods, of `floods.FLOODS`.
    seconds : float
        How long decisions at the fixed rate are measured; throughput is measured for half of it.
    rounds : int
        Rounds of a large session.
    checkout : Path, optional
        Measure the server of this checkout; without keys, so that all is one tenant's, and without
        notes.
    database : str, optional
        A migrated PostgreSQL database for this alone, with a worker; it needs keys from then on.
        Default: new SQLite files.
    """
    found = {name: _beside(name, seconds, rounds, checkout, database) for name in names}
    settings = {"seconds": seconds, "rounds": rounds, "load_generator": generator()}
    settings["database"] = "sqlite" if database is None else "postgresql"
    return {"settings": settings, "floods": found}


def _beside(
    name: str, seconds: float, rounds: int, checkout: Path | None, database: str | None
) -> dict[str, Any]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = {"LHB_DATABASE_URL": database or f"sqlite:///{folder / 'bench.db'}"}
        code = WATCHED
        if checkout is not None:
            code = f"import sys; sys.path[0] = {str(checkout)!r}; {SERVE}"
            headers: dict[str, dict[str, str]] = {QUIET: {}, FLOODING: {}}
        else:
            where = environment["LHB_DATABASE_URL"]
            headers = {who: key_of(where, who) for who in (QUIET, FLOODING)}
            if name == "deletions":
                _store_large(where, rounds)
        log = folder / "stalls"
        [(url, pid)] = stack.enter_context(servers(1, code, **environment, **{LOG: str(log)}))
        if database is not None:
            stack.enter_context(_worker(environment))
        quiet = Quiet(url, pid, headers[QUIET], log)
        flood = stack.enter_context(prepared(name, url, headers[FLOODING], rounds))
        alone = quiet.measure(seconds)
        flood.begin.set()
        time.sleep(UNDER_WAY_SECONDS)
        beside = quiet.measure(seconds)
        share = beside["throughput"] / alone["throughput"]
        done = {"flood_requests": flood.n_done, "share_of_throughput": round(share, 3)}
        return {"alone": alone, "beside": beside, **done}


def _store_large(url: str, rounds: int) -> None:
    """Store the sessions that are to be deleted; through the API that takes minutes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{Path(folder, 'short.db')}") as [(other, _)],
        httpx.Client(base_url=other, timeout=60) as client,
    ):
        file = Flooded(client, rounds).file()
    store(url, FLOODING, file, N_DELETED)


@contextmanager
def _worker(environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORK],
        env={**os.environ, "LHB_LOG_LEVEL": "error", **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.wait()


class Quiet:
    """The tenant that does not flood."""

    def __init__(self, url: str, pid: int, headers: dict[str, str], log: Path) -> None:
        self._url, self._pid, self._headers, self._log = url, pid, headers, log
        with self._client() as client:
            body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
            made = [client.post("/v1/sessions", json=body).json() for _ in range(N_SESSIONS)]
        self._sessions = [session["id"] for session in made]

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self._url, timeout=60, headers=self._headers)

    def measure(self, seconds: float) -> dict[str, float]:
        """Measure latency, throughput, fits and exports for `seconds` and half as long again."""
        contexts = np.random.default_rng(3).uniform(-1, 1, (N_ARMS, DIM)).tolist()
        body, began = json.dumps({"contexts": contexts}), time.monotonic()
        requests = [
            request_of(f"/v1/sessions/{id}/decisions", body, self._headers) for id in self._sessions
        ]
        with self._at_once(self._learn, self._export) as (learned, exported):
            wait = _waited(self._pid)
            asked = latencies([self._url], N_CONNECTIONS, cycle(requests), seconds, RATE)
            taken = sorted(uvloop.run(asked))
            wait = (_waited(self._pid) - wait) / (time.monotonic() - began)
            notes = {
                f"{kind}_{name}": value
                for kind in ("transaction", "loop")
                for name, value in noted(self._log, kind, began, time.monotonic()).items()
            }
            full = decide_all(
                [self._url], self._sessions, max(1, round(seconds / 2)), False, self._headers
            )
        return {
            "p50_ms": round(taken[len(taken) // 2] * 1e3, 2),
            "p99_ms": round(taken[int(0.99 * len(taken))] * 1e3, 2),
            "longest_ms": round(taken[-1] * 1e3, 2),
            "throughput": full.requests_per_second,
            **_summary("fit", learned),
            **_summary("export", exported),
            "waited_for_processor": round(wait, 3),
            "resident_mb": round(resident_mb(self._pid), 1),
            **notes,
        }

    @contextmanager
    def _at_once(self, *work: Any) -> Iterator[list[list[float]]]:
        """Run work in threads meanwhile; yield the lists to which it adds what it measures."""
        end, found = threading.Event(), [list[float]() for _ in work]
        threads = [
            threading.Thread(target=one, args=(end, list_of), daemon=True)
            for one, list_of in zip(work, found, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            yield found
        finally:
            end.set()
            for thread in threads:
                thread.join(60)

    def _learn(self, end: threading.Event, seconds: list[float]) -> None:
        """Play a blocking session; add the seconds from each due fit to the next decision.

        What is refused is infinite.
        """
        settings = {"algorithm": "anytime", "dim": 2, "horizon": 4, "refit": "blocking"}
        with self._client() as client, suppress(httpx.HTTPError):
            path = f"/v1/sessions/{client.post('/v1/sessions', json=settings).json()['id']}"
            round, is_due = 0, False
            while not end.is_set():
                asked = time.monotonic()
                body = {"contexts": [[1.0, 0.25], [-0.5, 1.0]]}
                answer = client.post(f"{path}/decisions", json=body)
                if is_due:
                    late = answer.status_code != 201
                    seconds.append(float("inf") if late else time.monotonic() - asked)
                if answer.status_code != 201:
                    continue
                round += 1
                value = {"round": round, "value": float(answer.json()["arm"])}
                client.post(f"{path}/rewards", json=value)
                is_due = client.get(path).json().get("fit_due") is not None

    def _export(self, end: threading.Event, seconds: list[float]) -> None:
        """Export a session over and over; what is refused is infinite."""
        with self._client() as client, suppress(httpx.HTTPError):
            while not end.wait(EXPORT_SECONDS):
                asked = time.monotonic()
                answer = client.get(f"/v1/sessions/{self._new(client)}/events")
                late = answer.status_code != 200
                seconds.append(float("inf") if late else time.monotonic() - asked)

    def _new(self, client: httpx.Client) -> str:
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
        return str(client.post("/v1/sessions", json=body).json()["id"])


def _summary(name: str, seconds: list[float]) -> dict[str, float]:
    """Return number, median and longest of what was answered, and how many were refused."""
    answered = sorted(one for one in seconds if one < float("inf"))
    return {
        f"{name}s": len(answered),
        f"{name}s_refused": len(seconds) - len(answered),
        f"{name}_p50_ms": round(answered[len(answered) // 2] * 1e3, 2) if answered else 0.0,
        f"{name}_longest_ms": round(answered[-1] * 1e3, 2) if answered else 0.0,
    }


def _waited(pid: int) -> float:
    """Return the seconds that a process's main thread was ready to run and had no processor."""
    text = Path(f"/proc/{pid}/task/{pid}/schedstat")
    return int(text.read_text().split()[1]) / 1e9 if text.exists() else 0.0
