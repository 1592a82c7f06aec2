"""`lhb bench fleet`: many trajectories that play in step, and the age of what decides for them.

The first lag that pays is `LAG`: nothing can be learned before each trajectory has so many rounds.
While a client plays, another one reads the estimate that decides.
"""

import random
import re
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from pydantic_core import to_json

from benchmarks.server.processes import SERVE, cpu_seconds, servers

DIM, N_ARMS, HORIZON, LAG = 5, 4, 8, 5
NOISE = 0.3
BATCH = 1000
JSON = {"content-type": "application/json"}
EVERY = 0.2  # seconds between two looks


class Fleet:
    """A session's trajectories, which all take their next round before any takes the one after."""

    def __init__(self, client: httpx.Client, session: str, n: int, rng: random.Random) -> None:
        self._client, self._session, self._n, self._rng = client, session, n, rng
        self._scores: list[list[float]] = [[] for _ in range(n)]
        # of each batch: rounds of the session that are rewarded after it, and when that was
        self.rewarded: list[tuple[int, float]] = []
        self.n_best = 0  # decisions of the present round for the best arm
        self.took: list[float] = []  # seconds of each batch of decisions

    def play(self) -> None:
        """Play and reward a round of each trajectory."""
        self.n_best = 0
        for start in range(0, self._n, BATCH):
            users = range(start, min(start + BATCH, self._n))
            sets = [
                [[self._rng.uniform(-1.0, 1.0) for _ in range(DIM)] for _ in range(N_ARMS)]
                for _ in users
            ]
            items = [
                {"session_id": self._session, "decision": {"contexts": one, "trajectory": f"u{i}"}}
                for i, one in zip(users, sets, strict=True)
            ]
            content, began = to_json({"items": items}), time.perf_counter()
            answer = self._client.post("/v1/batch", content=content)
            self.took.append(time.perf_counter() - began)
            taken = [one["decision"] for one in answer.raise_for_status().json()["items"]]
            rewards = []
            for i, contexts, decision in zip(users, sets, taken, strict=True):
                scores = self._scores[i]
                scores.append(contexts[decision["arm"]][0])
                self.n_best += scores[-1] == max(one[0] for one in contexts)
                paid = scores[-1 - LAG] if len(scores) > LAG else 0.0
                value = paid + self._rng.gauss(0.0, NOISE)
                rewards.append({"trajectory": f"u{i}", "round": decision["round"], "value": value})
            path = f"/v1/sessions/{self._session}/rewards"
            self._client.post(path, content=to_json({"rewards": rewards})).raise_for_status()
            before = self.rewarded[-1][0] if self.rewarded else 0
            self.rewarded.append((before + len(users), time.perf_counter()))


def run(n: int, rounds: int) -> dict[str, Any]:
    """Play `rounds` rounds of `n` trajectories on a new SQLite file.

    Returns the share of best arms by round, and over all looks from the first direction on how old
    the newest reward was that the estimate in use had read: seconds, and rounds of the session. By
    the server's metrics: the mean seconds of a fit, and from due to its estimate, and how many
    windows were skipped. `fit_cpu_seconds` are those of the fitting processes.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{folder}/fleet.db") as [(server, pid)],
        httpx.Client(base_url=server, timeout=600.0, headers=JSON) as client,
    ):
        body = {"algorithm": "anytime", "dim": DIM, "horizon": HORIZON, "seed": 1}
        session = client.post("/v1/sessions", json=body).raise_for_status().json()["id"]
        fleet, over = Fleet(client, session, n, random.Random(1)), threading.Event()
        looks: list[tuple[float, int, int]] = []
        url = f"{server}/v1/sessions/{session}/estimate"
        watch = threading.Thread(target=_watch, args=(url, fleet, over, looks))
        watch.start()
        shares, began = [], time.perf_counter()
        try:
            for _ in range(rounds):
                fleet.play()
                shares.append(fleet.n_best / n)
        finally:
            seconds = time.perf_counter() - began
            over.set()
            watch.join()
        used = cpu_seconds(_below(pid))
        told = client.get("/metrics").text
        skipped = re.findall(r'^lhb_fits_total\S*"skipped"\S* (\S+)$', told, re.M)
    ages, behind, fits = (np.array(one) for one in zip(*looks, strict=True))
    return {
        "settings": {"trajectories": n, "rounds": rounds, "dim": DIM, "horizon": HORIZON},
        "rounds_a_second": n * rounds / seconds,
        "best_arms": shares,
        "fits": len(np.unique(fits)),
        "skipped": sum(map(float, skipped)),
        "seconds": seconds,
        "fit_cpu_seconds": used,
        "batch_ms": [float(np.quantile(fleet.took, q)) * 1e3 for q in (0.5, 0.99)],
        "fit_seconds": _mean(told, "lhb_fit_seconds"),
        "fit_age_seconds": _mean(told, "lhb_fit_age_seconds"),
        "age_seconds": [float(np.quantile(ages, q)) for q in (0.5, 0.9, 1.0)],
        "age_rounds": [int(np.quantile(behind, q)) for q in (0.5, 0.9, 1.0)],
    }


def _below(pid: int) -> list[int]:
    """Return the processes that a process has begun, and those that these have."""
    found = []
    for told in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, told.read_text().split()):
            found += [child, *_below(child)]
    return found


def _mean(told: str, name: str) -> float:
    """Return the mean of a histogram of the metrics, over all of its labels."""
    both = (re.findall(rf"^{name}_{part}\S* (\S+)$", told, re.M) for part in ("sum", "count"))
    total, n = (sum(map(float, found)) for found in both)
    return total / n if n else 0.0


def _watch(
    url: str, fleet: Fleet, over: threading.Event, looks: list[tuple[float, int, int]]
) -> None:
    with httpx.Client(timeout=600.0) as client:
        while not over.wait(EVERY):
            found = client.get(url).raise_for_status().json()
            if found["status"] != "ok":
                continue
            now, last = time.perf_counter(), found["last_round"]
            at = next((at for rounds, at in list(fleet.rewarded) if rounds >= last), now)
            looks.append((now - at, fleet.rewarded[-1][0] - last, last))
