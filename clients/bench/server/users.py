"""`lhb bench users`: one session of many trajectories, on SQLite or on PostgreSQL.

For each number of trajectories a new session is filled through the API, 1000 decisions and then
their rewards at a time. Then it is measured. The first size is one trajectory with 10 000 rounds.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from pydantic_core import to_json

from clients.bench.server.batches import BATCH
from clients.bench.server.processes import SERVE, cpu_seconds, resident_mb, servers

DIM, HORIZON, N_ARMS = 5, 20, 5
ROUNDS = 10  # of each trajectory
ONE_ROUNDS = 10_000  # of the session with one trajectory
FILL = 1000  # decisions of a batch while a session is filled
N_READS = 100
WORKER = "from service.fits.worker import run; run()"
JSON = {"content-type": "application/json"}
FIT_PATIENCE = 600.0  # seconds to wait for the fit that the last reward makes due


def run(
    database: str | None,
    sizes: list[int],
    seconds: float,
    n_processes: int,
    on_size: Callable[[int, dict[str, Any]], None] = lambda n, found: None,
) -> dict[str, Any]:
    """Measure sessions of 1 and of each of `sizes` trajectories.

    Parameters
    ----------
    database : str or None
        URL of a migrated PostgreSQL database; None: a new SQLite file for each size.
    sizes : list of int
        Numbers of trajectories.
    seconds : float
        How long single decisions, and then batches, are sent.
    n_processes : int
        API processes on PostgreSQL.
    on_size : callable
        Called with each size and what was measured, as soon as it is.
    """
    found = {}
    for n in [1, *sizes]:
        with tempfile.TemporaryDirectory() as folder:
            url = database or f"sqlite:///{folder}/users.db"
            before = 0 if database is None else _postgres_bytes(database)
            with _serving(url, 1 if database is None else n_processes) as started:
                found[n], session = _measured(started, n, seconds)
                if database is not None:
                    size = _postgres_bytes(database) - before
                    httpx.delete(f"{started[0][0]}/v1/sessions/{session}")
            if database is None:  # stopped: nothing is left in the write-ahead log
                size = sum(path.stat().st_size for path in Path(folder).iterdir())
        found[n]["bytes_a_round"] = round(size / found[n]["rounds_after"], 1)
        on_size(n, found[n])
    return {
        "settings": {
            "database": "sqlite" if database is None else "postgresql",
            "processes": 1 if database is None else n_processes,
            "dim": DIM,
            "horizon": HORIZON,
            "arms": N_ARMS,
            "rounds": ROUNDS,
            "seconds": seconds,
            "batch": BATCH,
        },
        "trajectories": found,
    }


@contextmanager
def _serving(url: str, n_processes: int) -> Iterator[list[tuple[str, int]]]:
    """Run servers, and on PostgreSQL a worker."""
    with servers(n_processes, SERVE, LHB_DATABASE_URL=url) as started:
        worker = None
        if not url.startswith("sqlite"):
            environment = {**os.environ, "LHB_DATABASE_URL": url, "LHB_LOG_LEVEL": "error"}
            worker = subprocess.Popen([sys.executable, "-c", WORKER], env=environment)
        try:
            yield started
        finally:
            if worker is not None:
                worker.terminate()
                worker.wait()


def _postgres_bytes(database: str) -> int:
    """Return the size of a PostgreSQL database, without its write-ahead log."""
    import psycopg

    with psycopg.connect(database) as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _measured(started: list[tuple[str, int]], n: int, seconds: float) -> tuple[dict[str, Any], str]:
    """Fill a session of `n` trajectories and measure it; return what was found, and its id."""
    clients = [httpx.Client(base_url=url, timeout=120, headers=JSON) for url, _ in started]
    pids = [pid for _, pid in started]
    empty_mb = max(map(resident_mb, pids))
    body = {"algorithm": "anytime", "dim": DIM, "horizon": HORIZON, "reward_wait_seconds": 1e6}
    id = clients[0].post("/v1/sessions", json=body).raise_for_status().json()["id"]
    players = [Players(client, id, n, random.Random(i)) for i, client in enumerate(clients)]
    rounds = ROUNDS if n > 1 else ONE_ROUNDS
    began, used = time.perf_counter(), cpu_seconds(pids)
    with ThreadPoolExecutor(len(players)) as pool:
        list(pool.map(lambda i: players[i].fill(i, len(players), rounds), range(len(players))))
    filled, n_rounds = time.perf_counter() - began, n * rounds
    used = cpu_seconds(pids) - used
    fit = _last_fit(clients[0], id)
    out = {
        "rounds": n_rounds,
        "fill_per_second": round(n_rounds / filled, 1),
        "fill_cpu_us": round(used / n_rounds * 1e6, 1),
        "fit_seconds": fit["seconds"],
        "fit_rows": fit["n_rows"],
        "rss_mb": round(max(map(resident_mb, pids)), 1),
        "rss_growth_mb": round(max(map(resident_mb, pids)) - empty_mb, 1),
    }
    contexts = players[0].contexts()
    reads: dict[str, Callable[[httpx.Client], httpx.Response]] = {
        "rank": lambda client: client.post(f"/v1/sessions/{id}/rank", json={"contexts": contexts}),
        "estimate": lambda client: client.get(f"/v1/sessions/{id}/estimate"),
        "trajectories": lambda client: client.get(f"/v1/sessions/{id}/trajectories"),
    }
    for name, read in reads.items():
        out |= _percentiles(name, [_timed(partial(read, clients[0])) for _ in range(N_READS)])
    with ThreadPoolExecutor(len(players)) as pool:
        taken = list(pool.map(lambda player: player.decide_for(seconds), players))
        out |= _percentiles("decide", [ms for each in taken for ms in each])
        used = cpu_seconds(pids)
        n_batched = sum(pool.map(lambda player: player.batches_for(seconds), players))
        used = cpu_seconds(pids) - used
    out["batched_per_second"] = round(n_batched / seconds, 1)
    out["batched_cpu_us"] = round(used / n_batched * 1e6, 1)
    out["rounds_after"] = clients[0].get(f"/v1/sessions/{id}").json()["n_rounds"]
    for client in clients:
        client.close()
    return out, id


def _timed(call: Callable[[], httpx.Response]) -> float:
    """Return how many milliseconds a call takes."""
    began = time.perf_counter()
    call().raise_for_status()
    return (time.perf_counter() - began) * 1e3


def _percentiles(name: str, ms: list[float]) -> dict[str, float]:
    low, high = np.percentile(ms, [50, 99])
    return {f"{name}_p50_ms": round(float(low), 2), f"{name}_p99_ms": round(float(high), 2)}


def _last_fit(client: httpx.Client, id: str) -> dict[str, Any]:
    """Wait until no fit is due; return the last one that read the session's rows."""
    until = time.monotonic() + FIT_PATIENCE
    while client.get(f"/v1/sessions/{id}").json()["fit_due"]:
        if time.monotonic() > until:
            raise SystemExit("a fit is still due")
        time.sleep(0.1)
    last: dict[str, Any] = {"seconds": None, "n_rows": None}
    cursor: str | None = "0"
    while cursor is not None:
        page = client.get(f"/v1/sessions/{id}/estimates?cursor={cursor}").json()
        last = ([last] + [item for item in page["items"] if "seconds" in item])[-1]
        cursor = page["next"]
    return last


class Players:
    """A client's decisions in one session of `n` trajectories."""

    def __init__(self, client: httpx.Client, session: str, n: int, rng: random.Random) -> None:
        self.client, self.session, self.n, self.rng = client, session, n, rng

    def contexts(self) -> list[list[float]]:
        """Draw a context set."""
        return [[self.rng.uniform(-1.0, 1.0) for _ in range(DIM)] for _ in range(N_ARMS)]

    def fill(self, share: int, n_shares: int, rounds: int) -> None:
        """Play `rounds` rounds of every n_shares-th trajectory, and reward each."""
        mine = [f"user-{i}" for i in range(share, self.n, n_shares)]
        for start in range(0, len(mine), FILL):
            keys = mine[start : start + FILL]
            step = FILL // len(keys)
            before = dict.fromkeys(keys, 0.0)
            for first in range(1, rounds + 1, step):
                self._play(keys, range(first, min(rounds, first + step - 1) + 1), before)

    def _play(self, keys: list[str], rounds: range, before: dict[str, float]) -> None:
        """Take decisions and reward them by x_t[0] + x_{t-1}[0] / 2 and noise."""
        asked = [(key, round, self.contexts()) for round in rounds for key in keys]
        taken = self._batch([{"contexts": c, "trajectory": key} for key, _, c in asked])
        rewards = []
        for (key, round, contexts), decision in zip(asked, taken, strict=True):
            now = contexts[decision["arm"]][0]
            value = now + before[key] / 2 + self.rng.gauss(0.0, 0.1)
            rewards.append({"trajectory": key, "round": round, "value": value})
            before[key] = now
        body = {"rewards": rewards}
        self.client.post(f"/v1/sessions/{self.session}/rewards", json=body).raise_for_status()

    def _batch(self, decisions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        items = [{"session_id": self.session, "decision": decision} for decision in decisions]
        answer = self.client.post("/v1/batch", content=to_json({"items": items}))
        found = answer.json()["items"]
        wrong = [item for item in found if item["status"] != 201]
        if wrong:
            raise SystemExit(f"the server answered {wrong[0]}")
        return [item["decision"] for item in found]

    def _anyone(self) -> str:
        return f"user-{self.rng.randrange(self.n)}"

    def decide_for(self, seconds: float) -> list[float]:
        """Take decisions one after another; return the milliseconds of each."""
        path, found = f"/v1/sessions/{self.session}/decisions", []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            body = to_json({"contexts": self.contexts(), "trajectory": self._anyone()})
            found.append(_timed(partial(self.client.post, path, content=body)))
        return found

    def batches_for(self, seconds: float) -> int:
        """Send batches of 100 decisions one after another; return how many decisions."""
        n, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            self._batch(
                [{"contexts": self.contexts(), "trajectory": self._anyone()} for _ in range(BATCH)]
            )
            n += BATCH
        return n
