"""`lhb bench overload`: what a server serves when more is asked of it than it can carry.

The load that it can carry is what 64 connections get that wait for their answers. Then multiples of
it are offered, whatever is answered. Beside each a probe asks at a low rate and is timed from when
its request was due: the latency of what is accepted, as a client sees it.
"""

import json
import re
import tempfile
import time
from itertools import cycle
from math import inf
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvloop

from clients.bench.server.asyncio_load import latencies
from clients.bench.server.load import decide_all, offering, request_of
from clients.bench.server.processes import N_SESSIONS, SERVE, cpu_seconds, servers

PROBE_RATE, PROBE_CONNECTIONS = 50.0, 64
WAITING_SECONDS = 0.6  # how long accepted requests may wait, about
SETTLE_SECONDS = 1.0


def run(
    factors: list[float], seconds: float, n_arms: int, dim: int, max_wait: float
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
    """
    settings = {"LHB_MAX_WAIT_SECONDS": str(max_wait)}
    contexts = np.random.default_rng(1).uniform(-1, 1, (n_arms, dim)).round(12).tolist()
    body = json.dumps({"contexts": contexts})
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'bench.db')}"
        with servers(1, SERVE, LHB_DATABASE_URL=url, **settings) as [(address, pid)]:
            with httpx.Client(base_url=address, timeout=60) as client:
                made = {"algorithm": "uniform", "dim": dim, "horizon": 100}
                ids = [
                    client.post("/v1/sessions", json=made).json()["id"] for _ in range(N_SESSIONS)
                ]
            decide_all([address], ids, 1, False, body=body)
            used = cpu_seconds([pid])
            waiting = decide_all([address], ids, max(1, round(seconds)), False, body=body)
            used, carried = cpu_seconds([pid]) - used, waiting.requests_per_second
            loads = {
                f"{x:g}": _offered(address, pid, ids, body, seconds, x * carried, carried)
                for x in factors
            }
    peak = max(carried, *(load["served"] for load in loads.values()))
    for load in loads.values():
        load["served_of_peak"] = round(load["served"] / peak, 3)
        load["offered_of_carried"] = round(load["offered"] / carried, 2)
    return {
        "settings": {"seconds": seconds, "arms": n_arms, "dim": dim, "max_wait": max_wait},
        "carried": round(carried, 1),
        "carried_cpu_us": round(used / waiting.n * 1e6, 1),
        "loads": loads,
    }


def _offered(
    url: str,
    pid: int,
    ids: list[str],
    body: str,
    seconds: float,
    rate: float,
    carried: float,
) -> dict[str, float]:
    """Offer a load for some seconds, and probe meanwhile."""
    requests = cycle([request_of(f"/v1/sessions/{id}/decisions", body) for id in ids])
    with offering(url, ids, body, rate, round(carried * WAITING_SECONDS)):
        time.sleep(SETTLE_SECONDS)
        began, before = _counts(url)
        used = cpu_seconds([pid])
        asked = latencies([url], PROBE_CONNECTIONS, requests, seconds, PROBE_RATE, may_refuse=True)
        taken = uvloop.run(asked)
        used = cpu_seconds([pid]) - used
        ended, after = _counts(url)
    served, refused = ((b - a) / (ended - began) for a, b in zip(before, after, strict=True))
    accepted = sorted(one for one in taken if one < inf)
    found = {"offered": round(served + refused, 1), "served": round(served, 1)}
    found["cpu_us"] = round(used / max(1.0, after[0] - before[0]) * 1e6, 1)  # a served one
    found["probes_refused"] = round(1 - len(accepted) / len(taken), 3)
    for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
        found[name] = round(accepted[int(share * len(accepted))] * 1e3, 1) if accepted else inf
    found["longest_ms"] = round(accepted[-1] * 1e3, 1) if accepted else inf
    return found


def _counts(url: str) -> tuple[float, tuple[float, float]]:
    """Return the time, and how many decisions were committed and requests refused until then."""
    text = httpx.get(f"{url}/metrics", timeout=60).text
    found = [
        sum(float(value) for value in re.findall(rf"(?m)^{name}(?:{{.*}})? (\S+)$", text))
        for name in ("lhb_decisions_total", "lhb_overload_refusals_total")
    ]
    return time.monotonic(), (found[0], found[1])
