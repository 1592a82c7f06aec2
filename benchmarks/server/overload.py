"""`lhb bench overload`: what a server serves when more is asked of it than it can carry.

The load that it can carry is what 64 connections get that wait for their answers. Then multiples of
it are offered, whatever is answered. Where there are two processors, the server has one of them and
the load the other. Latency is that of accepted requests, from when each was due.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.server.load import decide_all, generator, request_of
from benchmarks.server.open_load import offer
from benchmarks.server.processes import N_SESSIONS, SERVE, cpu_seconds, servers
from service.web.connection import most_connections

WAITING_SECONDS = 1.0  # how long accepted requests may wait, about: so many connections are needed
MORE_CONNECTIONS = 200  # for those that are being refused
MOST_CONNECTIONS = 20_000  # fewer than there are local ports; requests beyond them wait for one
OLD_CONNECTIONS = 100  # of the load before, which the server may not have closed yet
SETTLE_SECONDS = 1.0


def run(
    factors: list[float],
    seconds: float,
    n_arms: int,
    dim: int,
    max_wait: float,
    most: int = MOST_CONNECTIONS,
) -> dict[str, Any]:
    """Offer multiples of the load that a server on a new SQLite file can carry.

    Parameters
    ----------
    factors : list of float
        The multiples.
    seconds : float
        How long each is offered.
    n_arms, dim : int
        Of a decision.
    max_wait : float
        The server's LHB_MAX_WAIT_SECONDS.
    most : int
        Connections.
    """
    contexts = np.random.default_rng(1).uniform(-1, 1, (n_arms, dim)).round(12).tolist()
    body = json.dumps({"contexts": contexts})
    with tempfile.TemporaryDirectory() as folder:
        settings = {"LHB_DATABASE_URL": f"sqlite:///{Path(folder, 'bench.db')}"}
        settings["LHB_MAX_WAIT_SECONDS"] = str(max_wait)
        settings["LHB_MAX_CONNECTIONS"] = str(most + OLD_CONNECTIONS)
        with servers(1, SERVE, **settings) as [(address, pid)], _apart(pid) as is_apart:
            with httpx.Client(base_url=address, timeout=60) as client:
                made = {"algorithm": "uniform", "dim": dim, "horizon": 100}
                ids = [
                    client.post("/v1/sessions", json=made).json()["id"] for _ in range(N_SESSIONS)
                ]
            decide_all([address], ids, 1, False, body=body)
            used = cpu_seconds([pid])
            waiting = decide_all([address], ids, max(1, round(seconds)), False, body=body)
            used, carried = cpu_seconds([pid]) - used, waiting.requests_per_second
            requests = [request_of(f"/v1/sessions/{id}/decisions", body) for id in ids]
            loads = {
                f"{x:g}": _offered(address, pid, requests, seconds, x * carried, carried, most)
                for x in factors
            }
    peak = max(carried, *(load["served"] for load in loads.values()))
    for load in loads.values():
        load["served_of_peak"] = round(load["served"] / peak, 3)
        load["offered_of_carried"] = round(load["offered"] / carried, 2)
    about = {"seconds": seconds, "arms": n_arms, "dim": dim, "max_wait": max_wait}
    return {
        "settings": {**about, "own_processors": is_apart, "load_generator": generator()},
        "carried": round(carried, 1),
        "carried_cpu_us": round(used / waiting.n * 1e6, 1),
        "loads": loads,
    }


def _offered(
    url: str,
    pid: int,
    requests: list[bytes],
    seconds: float,
    rate: float,
    carried: float,
    most: int,
) -> dict[str, float]:
    """Offer a load for some seconds after it has settled."""
    n = min(round(carried * WAITING_SECONDS) + MORE_CONNECTIONS, most)
    n = most_connections(n + OLD_CONNECTIONS) - OLD_CONNECTIONS  # open files are limited as there
    used = cpu_seconds([pid])
    got = offer(url, requests, rate, SETTLE_SECONDS + seconds, n, SETTLE_SECONDS)
    used = cpu_seconds([pid]) - used
    taken = got.latencies
    found = {
        "offered": round(got.sent_per_second, 1),
        "served": round(got.accepted_per_second, 1),
        "refused": round(got.refused_per_second, 1),
        "cpu_us": round(used / max(1, got.n_accepted) * 1e6, 1),  # a served one
        "without_connection": got.n_late,
    }
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
        found[name] = round(taken[int(share * len(taken))] * 1e3, 1) if taken else inf
    found["longest_ms"] = round(taken[-1] * 1e3, 1) if taken else inf
    return found


@contextmanager
def _apart(pid: int) -> Iterator[bool]:
    """Give a server a processor of its own, and us the others; yield whether there are two."""
    processors = os.sched_getaffinity(0)
    if len(processors) < 2:
        yield False
        return
    own = {min(processors)}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), own)
    os.sched_setaffinity(0, processors - own)
    try:
        yield True
    finally:
        os.sched_setaffinity(0, processors)
