"""`lhb bench serve` on SQLite: floors, single and batched decisions, a slow disk, running fits.

Variants take turns, so that other work on the machine disturbs all of them alike. Ratios are taken
within a turn, and their median is reported. CPU a request is that of the server process.
"""

import base64
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from clients.bench.server.beside_fits import beside_fits
from clients.bench.server.load import DIM, N_ARMS, N_CONNECTIONS, generator, request_of
from clients.bench.server.processes import (
    N_SESSIONS,
    SERVE,
    as_json,
    cpu_seconds,
    measure,
    servers,
)

MODULE = "import runpy; runpy.run_module('clients.bench.server.{}', run_name='__main__')"
SLOW = MODULE.format("slow_disk")
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "floor A: FastAPI, pydantic body, no storage": (MODULE.format("floor"), {}),
    "no storage": (MODULE.format("no_storage"), {}),
    "durable": (SERVE, {}),
    "durable, sync 2 ms slower": (SLOW, {}),
    "one transaction a request, sync 2 ms slower": (SLOW, {"LHB_MAX_BATCH": "1"}),
}
BATCH = 100
BATCHES = {
    "100 sessions, lists": (100, "lists"),
    "100 sessions, base64": (100, "base64"),
    "1 session, lists": (1, "lists"),
    "1 session, base64": (1, "base64"),
}


def run(seconds: int, n_pairs: int, n_fit_pairs: int) -> dict[str, Any]:
    """Measure every variant in `n_pairs` turns, and the ratios within each turn."""
    loads: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
    batches: dict[str, list[dict[str, Any]]] = {name: [] for name in BATCHES}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(n_pairs):
            for j, (name, (code, more)) in enumerate(VARIANTS.items()):
                url = f"sqlite:///{Path(folder, f'{i}-{j}.db')}"
                with servers(1, code, LHB_DATABASE_URL=url, **more) as started:
                    loads[name].append(as_json(measure(started, seconds)))
            url = f"sqlite:///{Path(folder, f'{i}-batch.db')}"
            with servers(1, SERVE, LHB_DATABASE_URL=url) as [(address, pid)]:
                for kind, found in batches.items():
                    found.append(_batches(address, pid, *BATCHES[kind], seconds))
        fits = beside_fits(Path(folder), min(seconds, 4), n_fit_pairs)
    floor_a, _, durable, slow, single = VARIANTS
    return {
        "settings": {
            "connections": N_CONNECTIONS,
            "sessions": N_SESSIONS,
            "arms": N_ARMS,
            "dim": DIM,
            "seconds": seconds,
            "pairs": n_pairs,
            "fit_pairs": n_fit_pairs,
            "batch": BATCH,
            "load_generator": generator(),
        },
        "variants": {name: _medians(found) for name, found in loads.items()},
        "batches": {kind: _medians(found) for kind, found in batches.items()},
        "fits": fits,
        "ratios": {
            "cpu: floor A / durable": _ratio(loads[floor_a], loads[durable], "cpu_us"),
            "cpu: floor A / no storage": _ratio(loads[floor_a], loads["no storage"], "cpu_us"),
            "throughput: durable / floor A": _ratio(
                loads[durable], loads[floor_a], "requests_per_second"
            ),
            "throughput: durable / no storage": _ratio(
                loads[durable], loads["no storage"], "requests_per_second"
            ),
            "throughput at 2 ms: durable / one transaction a request": _ratio(
                loads[slow], loads[single], "requests_per_second"
            ),
            "p99: with fits / without": fits["p99_ratio"],
        },
    }


def _medians(found: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: median(one[key] for one in found) for key in found[0]}


def _ratio(above: list[dict[str, Any]], below: list[dict[str, Any]], key: str) -> float:
    ratios = (a[key] / b[key] for a, b in zip(above, below, strict=True))
    return round(float(median(ratios)), 3)


def _batches(url: str, pid: int, n_sessions: int, kind: str, seconds: int) -> dict[str, Any]:
    """Send batches of 100 decisions, one after another on one connection."""
    rng = random.Random(2)
    contexts: Any = [[rng.uniform(-1, 1) for _ in range(DIM)] for _ in range(N_ARMS)]
    if kind == "base64":
        data = base64.b64encode(np.array(contexts).tobytes()).decode()
        contexts = {"dtype": "float64", "shape": [N_ARMS, DIM], "data": data}
    with httpx.Client(base_url=url, timeout=60) as client:
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
        ids = [client.post("/v1/sessions", json=body).json()["id"] for _ in range(n_sessions)]
        decision = {"contexts": contexts}
        items = [{"session_id": ids[i % n_sessions], "decision": decision} for i in range(BATCH)]
        content = request_of("/v1/batch", {"items": items}).partition(b"\r\n\r\n")[2]
        client.post("/v1/batch", content=content)
        n, before, began = 0, cpu_seconds([pid]), time.perf_counter()
        while time.perf_counter() - began < seconds:
            answer = client.post("/v1/batch", content=content)
            if answer.json()["items"][-1]["status"] != 201:
                raise SystemExit(f"the server answered {answer.text}")
            n += BATCH
        elapsed, used = time.perf_counter() - began, cpu_seconds([pid]) - before
    return {
        "decisions_per_second": round(n / elapsed, 1),
        "cpu_us_per_decision": round(used / n * 1e6, 2),
        "decisions_per_cpu_second": round(n / used, 1),
    }
