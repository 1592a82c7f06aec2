"""Batches of 100 decisions, one after another on one connection."""

import base64
import random
import time
from typing import Any

import httpx
import numpy as np
from pydantic_core import to_json

from benchmarks.server.load import DIM, N_ARMS
from benchmarks.server.processes import cpu_seconds

BATCH = 100
BATCHES = {
    "100 sessions, lists": (100, "lists"),
    "100 sessions, base64": (100, "base64"),
    "1 session, lists": (1, "lists"),
    "1 session, base64": (1, "base64"),
}


def send_batches(url: str, pid: int, n_sessions: int, kind: str, seconds: int) -> dict[str, Any]:
    """Measure decisions per second, and the server's CPU per decision.

    Parameters
    ----------
    url : str
        The server.
    pid : int
        Its process.
    n_sessions : int
        Sessions that the decisions of a batch are spread over.
    kind : str
        How contexts are sent: "lists" or "base64".
    seconds : int
        How long batches are sent.
    """
    rng = random.Random(2)
    contexts: Any = [[rng.uniform(-1, 1) for _ in range(DIM)] for _ in range(N_ARMS)]
    if kind == "base64":
        data = base64.b64encode(np.array(contexts).tobytes()).decode()
        contexts = {"dtype": "float64", "shape": [N_ARMS, DIM], "data": data}
    headers = {"content-type": "application/json"}
    with httpx.Client(base_url=url, timeout=60, headers=headers) as client:
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
        ids = [client.post("/v1/sessions", json=body).json()["id"] for _ in range(n_sessions)]
        decision = {"contexts": contexts}
        items = [{"session_id": ids[i % n_sessions], "decision": decision} for i in range(BATCH)]
        content = to_json({"items": items})
        client.post("/v1/batch", content=content).raise_for_status()
        n, before, began = 0, cpu_seconds([pid]), time.perf_counter()
        while n == 0 or time.perf_counter() - began < seconds:
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
