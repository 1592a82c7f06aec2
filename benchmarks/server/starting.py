"""`lhb bench start`: time from start to the first durable decision, and memory after it."""

import sqlite3
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from benchmarks.server.load import DIM, N_ARMS
from benchmarks.server.processes import SERVE, cpu_seconds, resident_mb, servers

N_ACTIVE = 300


def run(n_runs: int, n_sessions: int, n_decisions: int = 1500) -> dict[str, Any]:
    """Start `n_runs` servers on a database of `n_sessions`; return every run, and the medians."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "lhb.db")
        url = f"sqlite:///{file}"
        _start(url, 1)  # writes bytecode and schema, which later starts find
        if n_sessions:
            _fill(file, n_sessions)
            subprocess.run(["sync"], check=True)
        runs = [_start(url, n_decisions) for _ in range(n_runs)]
        megabytes = round(file.stat().st_size / 1e6, 1)
    medians = {key: round(median(one[key] for one in runs), 3) for key in runs[0]}
    return {
        "settings": {"sessions": n_sessions, "file_mb": megabytes},
        "median": medians,
        "runs": runs,
    }


def _start(url: str, n_decisions: int) -> dict[str, float]:
    """Start one server: time until it listens and until its first decision, then some load."""
    began = time.perf_counter()
    with servers(1, SERVE, LHB_DATABASE_URL=url) as [(address, pid)]:
        listening = time.perf_counter() - began
        with httpx.Client(base_url=address, timeout=60) as client:
            contexts = np.random.default_rng(1).uniform(-1, 1, (N_ARMS, DIM)).tolist()
            body = {"algorithm": "anytime", "dim": DIM, "horizon": 1000}
            first = client.post("/v1/sessions", json=body).json()["id"]
            decision = {"contexts": contexts}
            client.post(f"/v1/sessions/{first}/decisions", json=decision).raise_for_status()
            answered, cpu = time.perf_counter() - began, cpu_seconds([pid])
            time.sleep(1.0)
            idle = resident_mb(pid)
            body["algorithm"] = "uniform"
            ids = [
                client.post("/v1/sessions", json=body).json()["id"]
                for _ in range(min(N_ACTIVE, n_decisions))
            ]
            latencies = []
            for i in range(n_decisions):
                asked = time.perf_counter()
                path = f"/v1/sessions/{ids[i % len(ids)]}/decisions"
                client.post(path, json=decision).raise_for_status()
                latencies.append((time.perf_counter() - asked) * 1e3)
            latencies.sort()
        return {
            "listening_seconds": round(listening, 3),
            "first_decision_seconds": round(answered, 3),
            "cpu_seconds": cpu,
            "idle_mb": round(idle, 1),
            "active_mb": round(resident_mb(pid), 1),
            "decision_median_ms": round(median(latencies), 3),
            "decision_p99_ms": round(latencies[int(0.99 * len(latencies))], 3),
        }


def _fill(file: Path, n_sessions: int) -> None:
    """Copy the only session, with its trajectory and decision, under `n_sessions` other ids."""
    with closing(sqlite3.connect(file)) as connection:
        for table, key in (
            ("sessions", "id"),
            ("trajectories", "session_id"),
            ("decisions", "session_id"),
        ):
            rows = connection.execute(f"pragma table_info({table})").fetchall()
            values = ", ".join(
                "printf('0%023d', n)" if name == key else name for _, name, *_ in rows
            )
            connection.execute(
                f"with recursive numbers(n) as (select 1 union all select n + 1 from numbers"
                f" where n < ?) insert into {table} select {values} from numbers, {table}"
                f" where {key} = (select max({key}) from {table})",
                (n_sessions,),
            )
        connection.commit()
