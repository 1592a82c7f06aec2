"""A quiet session beside one that floods: latency and throughput of the quiet one, flood by flood.

Every flood has a server and a SQLite file of its own. Latency is that of decisions at a fixed rate,
throughput that of as many decisions as are answered, each with the flood and just before it.
"""

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvloop

from clients.bench.server.asyncio_load import latencies
from clients.bench.server.load import DIM, N_ARMS, N_CONNECTIONS, decide_all, generator, request_of
from clients.bench.server.processes import N_SESSIONS, SERVE, servers

RATE = 50.0  # of the quiet session's decisions, a second
LOG_ROUNDS = 10_000
N_IMPORTS = 4  # at once
COLLISIONS = 40.0  # a second
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}


@dataclass
class Flooded:
    """A server, and what the floods send it."""

    client: httpx.Client
    rounds: int
    end: threading.Event = field(default_factory=threading.Event)
    n_done: int = 0

    def create(self) -> str:
        """Make a session."""
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
        return str(self.client.post("/v1/sessions", json=body).json()["id"])

    def post(self, path: str, body: bytes, headers: dict[str, str] = JSON) -> int:
        """Send a request of the flood; return its status."""
        return self.client.post(path, content=body, headers=headers).status_code

    def file(self) -> bytes:
        """Return the file of a session with `rounds` rounds."""
        session = self.create()
        for _ in range(self.rounds // LOG_ROUNDS):
            assert self.post(f"/v1/sessions/{session}/history", log(LOG_ROUNDS)) == 201
        return self.client.get(f"/v1/sessions/{session}/events").content


def log(n: int, **more: Any) -> bytes:
    """Return the body of a history of n rounds."""
    contexts = np.random.default_rng(1).uniform(-1, 1, (n, DIM)).tolist()
    return json.dumps({"contexts": contexts, "rewards": [0.5] * n, **more}).encode()


def imports(flooded: Flooded) -> list[Callable[[], object]]:
    """Import large files, several at once."""
    file = flooded.file()
    return [lambda: flooded.post("/v1/sessions/import", file, NDJSON)] * N_IMPORTS


def histories(flooded: Flooded) -> list[Callable[[], object]]:
    """Append histories of 10 000 rounds."""
    body = log(LOG_ROUNDS)
    return [lambda: flooded.post(f"/v1/sessions/{flooded.create()}/history", body)]


def deletions(flooded: Flooded) -> list[Callable[[], object]]:
    """Delete large sessions, which were imported before."""
    file, sessions = flooded.file(), []
    for _ in range(3):
        answer = flooded.client.post("/v1/sessions/import", content=file, headers=NDJSON)
        sessions.append(answer.json()["id"])

    def delete() -> None:
        if sessions:
            flooded.client.delete(f"/v1/sessions/{sessions.pop()}")
        time.sleep(1.0)

    return [delete]


def collisions(flooded: Flooded) -> list[Callable[[], object]]:
    """Append histories whose reward ids are taken, COLLISIONS a second."""
    session = flooded.create()
    decided = json.dumps({"contexts": [[0.0] * DIM]}).encode()
    flooded.post(f"/v1/sessions/{session}/decisions", decided)
    reward = json.dumps({"round": 1, "value": 1.0, "reward_id": "h/20"}).encode()
    flooded.post(f"/v1/sessions/{session}/rewards", reward)
    body = log(20, import_id="h")

    def collide() -> None:
        assert flooded.post(f"/v1/sessions/{session}/history", body) == 409
        time.sleep(1 / COLLISIONS)

    return [collide]


FLOODS: dict[str, Callable[[Flooded], list[Callable[[], object]]]] = {
    "imports": imports,
    "histories": histories,
    "deletions": deletions,
    "collisions": collisions,
}


@contextmanager
def under_way(flooded: Flooded, work: list[Callable[[], object]]) -> Iterator[None]:
    """Run the flood in threads, each its work over and over."""

    def again(one: Callable[[], object]) -> None:
        with suppress(httpx.HTTPError):  # the server has ended
            while not flooded.end.is_set():
                one()
                flooded.n_done += 1

    threads = [threading.Thread(target=again, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    try:
        yield
    finally:
        flooded.end.set()


def run(names: list[str], seconds: float, rounds: int, checkout: Path | None) -> dict[str, Any]:
    """Measure the quiet sessions beside each flood, on the server of a checkout."""
    return {
        "settings": {"seconds": seconds, "rounds": rounds, "load_generator": generator()},
        "floods": {name: _beside(FLOODS[name], seconds, rounds, checkout) for name in names},
    }


def _beside(
    flood: Callable[[Flooded], list[Callable[[], object]]],
    seconds: float,
    rounds: int,
    checkout: Path | None,
) -> dict[str, Any]:
    code = SERVE if checkout is None else f"import sys; sys.path[0] = {str(checkout)!r}; {SERVE}"
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'bench.db')}"
        with (
            servers(1, code, LHB_DATABASE_URL=url) as [(server, _)],
            httpx.Client(base_url=server, timeout=600) as client,
        ):
            flooded = Flooded(client, rounds)
            quiet = [flooded.create() for _ in range(N_SESSIONS)]
            work = flood(flooded)
            alone = _quiet(server, quiet, seconds)
            with under_way(flooded, work):
                beside = _quiet(server, quiet, seconds)
    share = beside["throughput"] / alone["throughput"]
    done = {"flood_requests": flooded.n_done, "share_of_throughput": round(share, 3)}
    return {"alone": alone, "beside": beside, **done}


def _quiet(url: str, sessions: list[str], seconds: float) -> dict[str, float]:
    """Return milliseconds of a decision at the fixed rate, and decisions a second at full load."""
    contexts = np.random.default_rng(3).uniform(-1, 1, (N_ARMS, DIM)).tolist()
    body = json.dumps({"contexts": contexts})
    requests = [request_of(f"/v1/sessions/{id}/decisions", body) for id in sessions]
    taken = sorted(uvloop.run(latencies([url], N_CONNECTIONS, cycle(requests), seconds, RATE)))
    full = decide_all([url], sessions, max(1, round(seconds / 2)), False)
    return {
        "p50_ms": round(taken[len(taken) // 2] * 1e3, 2),
        "p99_ms": round(taken[int(0.99 * len(taken))] * 1e3, 2),
        "longest_ms": round(taken[-1] * 1e3, 2),
        "throughput": full.requests_per_second,
    }
