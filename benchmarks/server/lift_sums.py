"""What GET .../lift takes after many rounds: its sums are kept, so it must not grow with these."""

import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from benchmarks.server.large_session import COUNTS, NUMBERS
from benchmarks.server.processes import SERVE, resident_mb, servers

SHORT_ROUNDS = 1000  # a multiple of a block of 2 h rounds
N_READ = 30
ARMS = [[1.0, 0.25], [-0.5, 1.0]]
SESSION = {
    "algorithm": "uniform",
    "dim": 2,
    "horizon": 4,
    "holdout": {"share": 0.5, "policy": "uniform", "guard": False},
}


def run(n_rounds: int) -> dict[str, Any]:
    """Measure a session of so many rounds with a reward each, on a new SQLite file.

    Returns
    -------
    dict
        Seconds until all is in the sums, and the rounds that are in sums a second; the median and
        the longest milliseconds of GET .../lift then; the server's memory before and after, in MB.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bench.db")
        settings = {"LHB_DATABASE_URL": f"sqlite:///{file}"}
        with (
            servers(1, SERVE, **settings) as [(url, _)],
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            session = _play(client)
        _repeat(file, n_rounds)
        with (
            servers(1, SERVE, **settings) as [(url, pid)],
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            return _measured(client, pid, session, n_rounds)


def _play(client: httpx.Client) -> str:
    """Make the session, and its first rounds."""
    session = str(client.post("/v1/sessions", json=SESSION).raise_for_status().json()["id"])
    for start in range(0, SHORT_ROUNDS, 100):
        items: list[dict[str, Any]] = []
        for i in range(start + 1, start + 101):
            items.append({"session_id": session, "decision": {"contexts": ARMS}})
            items.append({"session_id": session, "reward": {"round": i, "value": i % 7 / 7}})
        answer = client.post("/v1/batch", json={"items": items}).raise_for_status().json()
        assert {item["status"] for item in answer["items"]} == {200, 201}
    return session


def _repeat(file: Path, n_rounds: int) -> None:
    """Repeat the rounds that are in a file, whose server has ended, up to so many."""
    with closing(sqlite3.connect(file)) as connection, connection:
        for table in ("decisions", "measurements"):
            columns = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            moved = [f"{name} + ?" if name in NUMBERS else name for name in columns]
            first = f"position <= {SHORT_ROUNDS}"
            copy = f"insert into {table} select {', '.join(moved)} from {table} where {first}"
            shifts = range(SHORT_ROUNDS, n_rounds, SHORT_ROUNDS)
            n_moved = sum(name in NUMBERS for name in columns)
            connection.executemany(copy, [[shift] * n_moved for shift in shifts])
        for table in ("session_counts", "trajectories"):
            names = [row[1] for row in connection.execute(f"pragma table_info({table})")]
            given = [f"{name} = {n_rounds}" for name in names if name in COUNTS]
            connection.execute(f"update {table} set {', '.join(given)}")


def _measured(client: httpx.Client, pid: int, session: str, n_rounds: int) -> dict[str, Any]:
    before, began = resident_mb(pid), time.monotonic()
    while (found := client.get(f"/v1/sessions/{session}/lift").json())["n_behind"]:
        pass
    assert sum(found[group]["n_rounds"] for group in ("agent", "control")) > n_rounds / 2
    summed, taken = time.monotonic() - began, []
    for _ in range(N_READ):
        asked = time.monotonic()
        client.get(f"/v1/sessions/{session}/lift").raise_for_status()
        taken.append((time.monotonic() - asked) * 1e3)
    return {
        "rounds": n_rounds,
        "summed_seconds": round(summed, 1),
        "summed_a_second": round(n_rounds / summed),
        "get_ms": round(statistics.median(taken), 1),
        "longest_ms": round(max(taken), 1),
        "mb_before": round(before),
        "mb_after": round(resident_mb(pid)),
    }
