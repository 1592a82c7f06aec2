"""What a client sends to one session of many users: rounds that fill it, decisions, batches."""

import random
import time
from collections.abc import Callable
from typing import Any

import httpx
from pydantic_core import to_json

from benchmarks.server.batches import BATCH
from benchmarks.server.copied_users import PREFIX
from benchmarks.server.processes import cpu_seconds

DIM, N_ARMS = 5, 5
FILL = 1000  # decisions of a batch while a session is filled
Asked = tuple[str, list[list[float]]]  # trajectory and contexts of a decision


def timed(call: Callable[[], httpx.Response]) -> float:
    """Return how many milliseconds a call takes."""
    began = time.perf_counter()
    call().raise_for_status()
    return (time.perf_counter() - began) * 1e3


class Players:
    """A client's decisions in one session of `n` trajectories."""

    def __init__(self, client: httpx.Client, session: str, n: int, rng: random.Random) -> None:
        self.client, self.session, self.n, self.rng = client, session, n, rng

    def contexts(self) -> list[list[float]]:
        """Draw a context set."""
        return [[self.rng.uniform(-1.0, 1.0) for _ in range(DIM)] for _ in range(N_ARMS)]

    def fill(self, users: range, rounds: int) -> None:
        """Play `rounds` rounds of some trajectories by their numbers, and reward each."""
        for start in range(0, len(users), FILL):
            keys = [f"{PREFIX}{i}" for i in users[start : start + FILL]]
            step = FILL // len(keys)
            for first in range(0, rounds, step):
                n = min(step, rounds - first)
                asked = [(key, self.contexts()) for _ in range(n) for key in keys]
                self._reward(asked, self._decisions(self._post(asked)))

    def decide_for(self, seconds: float) -> list[float]:
        """Take decisions and reward each; return the milliseconds of each decision."""
        path, found = f"/v1/sessions/{self.session}/decisions", list[float]()
        until = time.perf_counter() + seconds
        while not found or time.perf_counter() < until:
            key, contexts = self._anyone(), self.contexts()
            body = to_json({"contexts": contexts, "trajectory": key})
            began = time.perf_counter()
            answer = self.client.post(path, content=body)
            found.append((time.perf_counter() - began) * 1e3)
            self._reward([(key, contexts)], [answer.raise_for_status().json()])
        return found

    def batches_for(self, seconds: float, pid: int) -> tuple[int, float, float]:
        """Send batches of 100 decisions, and reward each.

        Returns
        -------
        n, seconds, cpu : int, float, float
            Decisions; the time, and the CPU time of this server process, that they took.
        """
        n, spent, used, until = 0, 0.0, 0.0, time.perf_counter() + seconds
        while n == 0 or time.perf_counter() < until:
            asked = [(self._anyone(), self.contexts()) for _ in range(BATCH)]
            content = self._content(asked)
            began, before = time.perf_counter(), cpu_seconds([pid])
            answer = self.client.post("/v1/batch", content=content)
            spent += time.perf_counter() - began
            used += cpu_seconds([pid]) - before
            self._reward(asked, self._decisions(answer))
            n += BATCH
        return n, spent, used

    def play_one(self) -> None:
        """Play a round of the first trajectory and reward it."""
        asked = [(f"{PREFIX}0", self.contexts())]
        self._reward(asked, self._decisions(self._post(asked)))

    def _content(self, asked: list[Asked]) -> bytes:
        decisions = [{"contexts": contexts, "trajectory": key} for key, contexts in asked]
        return to_json({"items": [{"session_id": self.session, "decision": d} for d in decisions]})

    def _post(self, asked: list[Asked]) -> httpx.Response:
        return self.client.post("/v1/batch", content=self._content(asked))

    def _decisions(self, answer: httpx.Response) -> list[dict[str, Any]]:
        found = answer.json()["items"]
        wrong = [item for item in found if item["status"] != 201]
        if wrong:
            raise SystemExit(f"the server answered {wrong[0]}")
        return [item["decision"] for item in found]

    def _reward(self, asked: list[Asked], taken: list[dict[str, Any]]) -> None:
        """Reward decisions by x[0] and noise, whoever played the rounds before."""
        rewards = []
        for (key, contexts), decision in zip(asked, taken, strict=True):
            value = contexts[decision["arm"]][0] + self.rng.gauss(0.0, 0.1)
            rewards.append({"trajectory": key, "round": decision["round"], "value": value})
        body = {"rewards": rewards}
        self.client.post(f"/v1/sessions/{self.session}/rewards", json=body).raise_for_status()

    def _anyone(self) -> str:
        return f"{PREFIX}{self.rng.randrange(self.n)}"
