"""`lhb bench soak`: memory of a server under sustained load.

Sessions of the default algorithm decide round after round, each request with the last round's
reward, so that fits become due, run and are installed. A few sessions a minute are deleted and
created again. After the warm-up, a third of the time, memory should not grow.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.server.load import DIM, N_ARMS
from benchmarks.server.processes import SERVE, resident_mb, servers

N_SESSIONS = 40
RENEWED_SECONDS = 10.0
BODY = {"algorithm": "anytime", "dim": DIM, "horizon": 50}


def run(minutes: float, rate: float) -> dict[str, Any]:
    """Measure resident memory over time, and fit a line through it after the warm-up."""
    seconds = 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "lhb.db")
        with servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{file}") as [(url, pid)]:
            samples, n_rounds, n_renewed, n_installed = asyncio.run(_soak(url, pid, seconds, rate))
        megabytes = file.stat().st_size / 1e6
    times, memory = np.array(samples).T
    after = times >= seconds / 3
    slope, level = np.polyfit(times[after], memory[after], 1)
    spread = float(np.std(memory[after] - (level + slope * times[after])))
    error = spread / (np.std(times[after]) * np.sqrt(after.sum()))
    return {
        "settings": {"minutes": minutes, "rate": rate, "sessions": N_SESSIONS},
        "rounds": n_rounds,
        "sessions_renewed": n_renewed,
        "estimates_installed": n_installed,
        "database_mb": round(megabytes, 1),
        "start_mb": round(float(memory[0]), 1),
        "warm_mb": round(float(memory[after][0]), 1),
        "end_mb": round(float(memory[-1]), 1),
        "highest_mb": round(float(memory.max()), 1),
        "growth_mb_per_hour": round(float(slope) * 3600, 2),
        "growth_error": round(float(error) * 3600, 2),
        "growth_mb_per_million_rounds": round(float(slope) / (n_rounds / seconds) * 1e6, 2),
        "samples": [[round(at), round(mb, 1)] for at, mb in samples],
    }


async def _soak(
    url: str, pid: int, seconds: float, rate: float
) -> tuple[list[tuple[float, float]], int, int, int]:
    began = time.monotonic()
    deadline = began + seconds
    counts = {"rounds": 0, "renewed": 0, "installed": 0}
    samples: list[tuple[float, float]] = []
    rng = np.random.default_rng(7)
    contexts = rng.uniform(-1, 1, (16, N_ARMS, DIM)).tolist()
    rewards = rng.standard_normal(64).tolist()
    async with httpx.AsyncClient(base_url=url, timeout=60) as client, asyncio.TaskGroup() as group:
        for i in range(N_SESSIONS):
            group.create_task(_play(client, deadline, rate, i, contexts, rewards, counts))
        while time.monotonic() < deadline:
            samples.append((time.monotonic() - began, resident_mb(pid)))
            await asyncio.sleep(min(5.0, seconds / 20))
    return samples, counts["rounds"], counts["renewed"], counts["installed"]


async def _play(
    client: httpx.AsyncClient,
    deadline: float,
    rate: float,
    i: int,
    contexts: list[Any],
    rewards: list[float],
    counts: dict[str, int],
) -> None:
    """Play sessions one after another, at this player's share of the rate."""
    due = time.monotonic() + i / rate
    while time.monotonic() < deadline:
        id = (await client.post("/v1/sessions", json=BODY)).json()["id"]
        renewed = time.monotonic() + RENEWED_SECONDS * N_SESSIONS * (1 + i) / N_SESSIONS
        played = 0
        while (now := time.monotonic()) < min(deadline, renewed):
            await asyncio.sleep(max(0.0, due - now))
            due = max(due + N_SESSIONS / rate, now)
            body: dict[str, Any] = {"contexts": contexts[played % 16]}
            if played:
                body["rewards"] = [{"round": played, "value": rewards[played % 64]}]
            answer = await client.post(f"/v1/sessions/{id}/decisions", json=body)
            if answer.status_code != 201:
                raise SystemExit(f"the server answered {answer.text}")
            played += 1
            counts["rounds"] += 1
        session = (await client.get(f"/v1/sessions/{id}")).json()
        counts["installed"] += session["model_version"]
        if time.monotonic() < deadline:
            await client.delete(f"/v1/sessions/{id}")
            counts["renewed"] += 1
