"""Latency of decisions while a fit runs, against the same server without one."""

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from benchmarks.server.busy_fits import BEGUN, ENOUGH
from benchmarks.server.load import (
    DIM,
    N_ARMS,
    N_CONNECTIONS,
    Answered,
    by_asyncio,
    by_wrk,
    decide_all,
    generator,
)
from benchmarks.server.processes import N_SESSIONS, servers
from benchmarks.server.stalls import LOG, noted

CODE = "from benchmarks.server.busy_fits import serve; serve()"
CAPACITY_SECONDS = 2.0  # of full load, to find the rate that is half of it
LONGEST_START_SECONDS = 120.0  # in which a fit begins, also on a busy machine
ANSWER_SHARE = 1 / 8  # of its time at full load, which an answer takes at half load, about
BODY = json.dumps({"contexts": np.random.default_rng(3).uniform(-1, 1, (N_ARMS, DIM)).tolist()})


def beside_fits(folder: Path, seconds: float, n_pairs: int) -> dict[str, Any]:
    """Measure p99 and the longest stall of the event loop at half load, with a fit and without.

    Half load is half of what the same server reached just before, because the machine's speed
    drifts. The order within a pair alternates. Other work on the machine stalls both alike, so the
    difference is due to the fit.
    """
    pairs = [_pair(folder, i, seconds) for i in range(n_pairs)]
    stalls = {
        when: {
            "median_ms": median(pair[when]["stall_ms"] for pair in pairs),
            "longest_ms": max(pair[when]["stall_ms"] for pair in pairs),
            "longest_on_cpu_ms": max(pair[when]["stall_on_cpu_ms"] for pair in pairs),
            "over_20_ms": sum(pair[when]["stalls_over_20_ms"] for pair in pairs),
        }
        for when in ("with", "without")
    }
    ratio = median(pair["with"]["p99_ms"] / pair["without"]["p99_ms"] for pair in pairs)
    return {"pairs": pairs, "p99_ratio": round(ratio, 3), "stalls": stalls}


def _pair(folder: Path, i: int, seconds: float) -> dict[str, dict[str, float]]:
    """Measure one server both ways; odd pairs begin without a fit."""
    log = folder / f"{i}-stalls"
    environment = {
        "LHB_DATABASE_URL": f"sqlite:///{folder / f'{i}-fits.db'}",
        LOG: str(log),
    }
    pair: dict[str, dict[str, float]] = {}
    with (
        servers(1, CODE, **environment) as [(url, _)],
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
        ids = [client.post("/v1/sessions", json=body).json()["id"] for _ in range(N_SESSIONS)]
        rate = decide_all([url], ids, CAPACITY_SECONDS, one_session=False).requests_per_second / 2
        for when in ("with", "without") if i % 2 == 0 else ("without", "with"):
            fitted = _begin_fit(client, Path(f"{log}{BEGUN}")) if when == "with" else None
            began = time.monotonic()
            played = _at_rate(url, ids, rate, seconds)
            pair[when] = {
                "p99_ms": round(played.p99_ms, 3),
                "requests_per_second": round(played.requests_per_second, 1),
                "asked_per_second": round(rate, 1),
                **_named(noted(log, "loop", began, time.monotonic())),
            }
            if fitted and not client.get(f"/v1/sessions/{fitted}").json()["fit_due"]:
                raise SystemExit("the fit ended before the measurement did")
            if fitted:
                Path(f"{log}{ENOUGH}").touch()
            while fitted and client.get(f"/v1/sessions/{fitted}").json()["fit_due"]:
                time.sleep(0.1)
    return pair


def _at_rate(url: str, ids: list[str], rate: float, seconds: float) -> Answered:
    """Load a server at about `rate`. wrk's connections pause; asyncio's requests are due by clock.

    wrk measures latency from each request, so that a late answer delays its own connection only.
    Of the time between two requests of a connection an answer takes some, and the pause the rest.
    At full load there is no pause, and half as much time between two requests.
    """
    if generator() == "asyncio":
        return by_asyncio([url], ids, BODY, seconds, one_session=False, rate=rate)
    pause = N_CONNECTIONS / rate * 1e3 * (1 - ANSWER_SHARE / 2)
    return by_wrk([url], ids, BODY, seconds, one_session=False, pause_ms=pause)


def _begin_fit(client: httpx.Client, begun: Path) -> str:
    """Return a session whose fit is running, in a process of its own."""
    rng, horizon = np.random.default_rng(3), 200
    n = 7 * horizon
    body = {"algorithm": "ad_lasso", "dim": DIM, "horizon": horizon}
    fitted: str = client.post("/v1/sessions", json=body).json()["id"]
    selected = rng.uniform(-1, 1, (n, DIM))
    rewards = (selected[:, 0] + 0.1 * rng.standard_normal(n)).tolist()
    history = {"contexts": selected.tolist(), "rewards": rewards}
    client.post(f"/v1/sessions/{fitted}/history", json=history).raise_for_status()
    latest = time.monotonic() + LONGEST_START_SECONDS
    while not begun.exists():
        if time.monotonic() > latest:
            raise SystemExit(f"no fit began within {LONGEST_START_SECONDS:g} s")
        time.sleep(0.05)
    return fitted


def _named(stalls: dict[str, float]) -> dict[str, float]:
    return {
        "stall_ms": stalls["longest_ms"],
        "stall_on_cpu_ms": stalls["longest_on_cpu_ms"],
        "stalls_over_20_ms": stalls["over_20_ms"],
    }
