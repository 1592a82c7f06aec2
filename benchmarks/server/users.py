"""`lhb bench users`: one session of many trajectories beside one of a single one.

Both are in one database, and one server answers for both, in turns. The session with one
trajectory has 10 000 rounds, each trajectory of the other has 10. Sessions are filled through the
API, 1000 decisions and then their rewards at a time. Where there are more than 2000 trajectories,
the API fills the first 1000; the database copies their rows (`copied_users`); one more round makes
the first fit of all rows due, which finds no sums; and the API fills the last 1000. Then 10^5 of
them play a round, as they have where a server has run for a while: it has read their counters.
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

from benchmarks.server.batches import BATCH
from benchmarks.server.copied_users import copy_users
from benchmarks.server.processes import SERVE, resident_mb, servers
from benchmarks.server.user_traffic import DIM, N_ARMS, Players, timed

HORIZON = 20
ROUNDS = 10  # of each trajectory
FIRST = 1000  # trajectories that are copied, and as many at the end that are not
SEEN = 100_000  # trajectories that have played in the server that is measured, at most
N_READS = 40  # of each kind in a turn
WORKER = "from service.operation.worker import run; run()"
JSON = {"content-type": "application/json"}
FIT_PATIENCE = 3600.0  # seconds to wait for a fit
Started = list[tuple[str, int]]  # URL and process id of each server


def run(
    database: str | None,
    sizes: list[int],
    seconds: float,
    n_processes: int,
    turns: int = 5,
    on_size: Callable[[int, dict[str, Any]], None] = lambda n, found: None,
    one_rounds: int = 10_000,
    n_copied: int = FIRST,
) -> dict[str, Any]:
    """Measure a session of each of `sizes` trajectories beside one of one trajectory.

    Parameters
    ----------
    database : str or None
        URL of a migrated PostgreSQL database; None: a new SQLite file for each size.
    sizes : list of int
        Numbers of trajectories; beyond 2000 multiples of 1000.
    seconds : float
        How long single decisions, and then batches, are sent in a turn.
    n_processes : int
        API processes on PostgreSQL.
    turns : int
        Turns of each session. A figure is the median of its turns, a ratio that of their ratios.
    on_size : callable
        Called with each size and what was measured, as soon as it is.
    one_rounds : int
        Rounds of the session with one trajectory.
    n_copied : int
        Trajectories that are copied.
    """
    found = {}
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            url = database or f"sqlite:///{folder}/users.db"
            serve = partial(_serving, url, 1 if database is None else n_processes)
            found[n] = _of_size(url, serve, n, seconds, turns, one_rounds, n_copied)
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
            "turns": turns,
            "batch": BATCH,
        },
        "trajectories": found,
    }


def _of_size(
    url: str,
    serve: Callable[[], Any],
    n: int,
    seconds: float,
    turns: int,
    one_rounds: int,
    n_copied: int,
) -> dict[str, Any]:
    copies = 0 if n <= 2 * n_copied else n // n_copied - 2
    first = n if copies == 0 else n_copied
    one: dict[str, Any] = {"rounds": one_rounds}
    many: dict[str, Any] = {"rounds": n * ROUNDS}
    with serve() as started:
        pass
    sizes = [_stored_bytes(url)]
    with serve() as started:
        began = time.perf_counter()
        ids = [_session(started)]
        _fill(started, ids[0], range(1), one_rounds)
        one["fill_seconds"] = time.perf_counter() - began
        _wait_for_fits(started, ids[0])
    sizes.append(_stored_bytes(url))
    with serve() as started:
        began = time.perf_counter()
        ids.append(_session(started))
        _fill(started, ids[1], range(first), ROUNDS)
        _wait_for_fits(started, ids[1])
    if copies:
        copy_users(url, ids[1], first, copies)
    many["fill_seconds"] = time.perf_counter() - began
    many["copied_rounds"] = copies * first * ROUNDS
    sizes.append(_stored_bytes(url))
    one["bytes_a_round"] = (sizes[1] - sizes[0]) / one_rounds
    many["bytes_a_round"] = (sizes[2] - sizes[1]) / (first * (copies + 1) * ROUNDS)
    with serve() as started, _clients(started) as clients:
        pids = [pid for _, pid in started]
        players = [
            [Players(client, id, size, random.Random(i)) for i, client in enumerate(clients)]
            for id, size in zip(ids, (1, n), strict=True)
        ]
        _turn(players[0], pids, seconds)
        one["rss_mb"] = max(map(resident_mb, pids))
        if copies:
            players[1][0].play_one()  # a fit is due: most measurements are in none
            many["first_fit"] = _fit(clients[0], ids[1])
            _fill(started, ids[1], range(n - n_copied, n), ROUNDS)
            _fill(started, ids[1], range(min(n, SEEN)), 1)
        for mine, found, id in zip(players, (one, many), ids, strict=True):
            mine[0].play_one()
            _fit(clients[0], id)  # or the one asked for is the one due, of earlier rounds
            clients[0].post(f"/v1/sessions/{id}/fits").raise_for_status()
            found["fit"] = _fit(clients[0], id)
        measured = [[_turn(mine, pids, seconds) for mine in players] for _ in range(turns)]
        many["rss_mb"] = max(map(resident_mb, pids))
        for id in ids if not url.startswith("sqlite") else ():
            clients[0].delete(f"/v1/sessions/{id}")
    ratio = {}
    for name in measured[0][0]:
        one[name], many[name] = (float(np.median([t[i][name] for t in measured])) for i in (0, 1))
        ratio[name] = float(np.median([of[1][name] / of[0][name] for of in measured]))
    return {"one": one, "many": many, "ratio": ratio}


@contextmanager
def _serving(url: str, n_processes: int) -> Iterator[Started]:
    """Run servers, and on PostgreSQL a worker."""
    with servers(n_processes, SERVE, LHB_DATABASE_URL=url) as started:
        worker = None
        if not url.startswith("sqlite"):
            environment = {**os.environ, "LHB_DATABASE_URL": url, "LHB_LOG_LEVEL": "error"}
            worker = subprocess.Popen(
                [sys.executable, "-c", WORKER], env=environment, stdout=subprocess.DEVNULL
            )
        try:
            yield started
        finally:
            if worker is not None:
                worker.terminate()
                worker.wait()


@contextmanager
def _clients(started: Started) -> Iterator[list[httpx.Client]]:
    clients = [httpx.Client(base_url=url, timeout=120, headers=JSON) for url, _ in started]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def _stored_bytes(url: str) -> int:
    """Return the size of a database that no server has open, without a write-ahead log."""
    if url.startswith("sqlite:///"):
        return sum(
            path.stat().st_size for path in Path(url.removeprefix("sqlite:///")).parent.iterdir()
        )
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("select pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _session(started: Started) -> str:
    """Make a session and return its id."""
    body = {"algorithm": "anytime", "dim": DIM, "horizon": HORIZON, "reward_wait_seconds": 1e6}
    answer = httpx.post(f"{started[0][0]}/v1/sessions", json=body, timeout=120)
    return str(answer.raise_for_status().json()["id"])


def _fill(started: Started, id: str, users: range, rounds: int) -> None:
    """Fill some trajectories through all servers at once."""
    with _clients(started) as clients, ThreadPoolExecutor(len(clients)) as pool:
        shares = range(min(len(clients), len(users)))
        filled = [
            pool.submit(
                Players(clients[i], id, len(users), random.Random(users.start + i)).fill,
                users[i :: len(shares)],
                rounds,
            )
            for i in shares
        ]
        for one in filled:
            one.result()


def _wait_for_fits(started: Started, id: str) -> None:
    with _clients(started) as clients:
        _fit(clients[0], id)


def _fit(client: httpx.Client, id: str) -> dict[str, Any]:
    """Wait until no fit is due; return the seconds, and what the last fit says of its own."""
    began = time.perf_counter()
    while client.get(f"/v1/sessions/{id}").raise_for_status().json()["fit_due"]:
        if time.perf_counter() - began > FIT_PATIENCE:
            raise SystemExit("a fit is still due")
        time.sleep(0.02)
    waited = time.perf_counter() - began
    last: dict[str, Any] = {}
    cursor: str | None = "0"
    while cursor is not None:
        page = client.get(f"/v1/sessions/{id}/estimates?cursor={cursor}").json()
        last = ([last] + [item for item in page["items"] if "seconds" in item])[-1]
        cursor = page["next"]
    return {"waited": waited} | {name: last.get(name) for name in ("seconds", "n_rows", "status")}


def _turn(players: list[Players], pids: list[int], seconds: float) -> dict[str, float]:
    """Read, decide and send batches in one session; return what each takes."""
    client, path = players[0].client, f"/v1/sessions/{players[0].session}"
    out: dict[str, float] = {}
    contexts = players[0].contexts()
    reads: dict[str, Callable[[], httpx.Response]] = {
        "rank": lambda: client.post(f"{path}/rank", json={"contexts": contexts}),
        "estimate": lambda: client.get(f"{path}/estimate"),
        "trajectories": lambda: client.get(f"{path}/trajectories"),
    }
    for name, read in reads.items():
        out |= _percentiles(name, [timed(read) for _ in range(N_READS)])
    with ThreadPoolExecutor(len(players)) as pool:
        taken = list(pool.map(lambda player: player.decide_for(seconds), players))
        out |= _percentiles("decide", [ms for each in taken for ms in each])
        # each client has a server of its own
        batches = list(pool.map(lambda one, pid: one.batches_for(seconds, pid), players, pids))
    out["batched_per_second"] = sum(n / spent for n, spent, _ in batches)
    used, n = sum(one[2] for one in batches), sum(one[0] for one in batches)
    out["batched_cpu_us"] = used / n * 1e6
    return out


def _percentiles(name: str, ms: list[float]) -> dict[str, float]:
    low, high = np.percentile(ms, [50, 99])
    return {f"{name}_p50_ms": float(low), f"{name}_p99_ms": float(high)}
