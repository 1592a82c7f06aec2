"""Random stories over HTTP, in every algorithm and mode, with fits that really run: whatever the
order of events, what is left fits together, replays, and is the same after a move."""

import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.examples import repeats
from tests.faults.server_process import Server, WorkerProcess

DIM, HORIZON = 2, 4
ALGORITHMS = ("anytime", "ad_lasso", "doubling_lasso", "sw_mp", "sa_gd", "ucb_mp", "lin_ucb")
LEARNERS = ("ucb_mp", "lin_ucb")
DONE = {"ok", "zero", "insufficient_data", "failed", "skipped"}


@dataclass
class Story:
    """One session's, told step by step."""

    client: httpx.Client
    rng: random.Random
    session: str = ""
    is_sum: bool = False
    is_learner: bool = False
    n: dict[str, int] = field(default_factory=dict)
    measured: dict[str, set[int]] = field(default_factory=dict)
    n_ids: int = 0

    def begin(self) -> None:
        algorithm = self.rng.choice(ALGORITHMS)
        self.is_learner = algorithm in LEARNERS
        body: dict[str, Any] = {"algorithm": algorithm, "dim": DIM, "horizon": HORIZON, "seed": 5}
        self.is_sum = not self.is_learner and self.rng.random() < 0.3
        body["reward_mode"] = "sum" if self.is_sum else "single"
        if not self.is_sum and not self.is_learner and self.rng.random() < 0.3:
            body["default_reward"] = 0.25
        if self.rng.random() < 0.3:
            body["refit"] = "blocking"
        elif self.rng.random() < 0.5:
            body["reward_wait_seconds"] = self.rng.choice([0.05, 0.3])
        self.session = self.post("/v1/sessions", body)["id"]

    @property
    def path(self) -> str:
        return f"/v1/sessions/{self.session}"

    def post(self, path: str, body: Any, *expected: int) -> Any:
        answer = self.client.post(path, json=body)
        assert answer.status_code in (expected or (200, 201)), (body, answer.text)
        return answer.json()

    def new_id(self) -> str:
        self.n_ids += 1
        return f"id{self.n_ids}"

    def contexts(self, k: int) -> list[list[float]]:
        return [[self.rng.uniform(-1, 1) for _ in range(DIM)] for _ in range(k)]

    def decision(self, name: str) -> dict[str, Any]:
        body: dict[str, Any] = {"trajectory": name, "event_id": self.new_id()}
        what = self.rng.random()
        if what < 0.1:
            return {**body, "skip": True}
        body["contexts"] = self.contexts(self.rng.randint(1, 4))
        if what < 0.2:
            body["forced_arm"] = 0
        return body

    def reward(self, name: str) -> dict[str, Any] | None:
        """Of a round long past or just now, or of some rounds together; never of one twice."""
        if not self.n.get(name):
            return None
        round = max(1, self.n[name] - self.rng.choice([0, 0, 0, 1, 3, 20]))
        out = {"trajectory": name, "value": self.rng.gauss(0, 1), "reward_id": self.new_id()}
        if self.is_sum:
            if self.rng.random() < 0.3:
                now = datetime.now(UTC) + timedelta(seconds=self.rng.choice([0, 30]))
                return {**out, "at": now.isoformat()}
            return {**out, "round": round}
        last = round
        if not self.is_learner and self.rng.random() < 0.2:
            last = min(self.n[name], round + 2)
        known = self.measured.setdefault(name, set())
        if known & set(range(round, last + 1)):
            return None
        known |= set(range(round, last + 1))
        return {**out, "first_round": round, "last_round": last}

    def step(self) -> None:
        name = self.rng.choice(["", "", "b"])
        what = self.rng.random()
        rewards = [r for r in [self.reward(name) for _ in range(self.rng.choice([0, 1, 2]))] if r]
        if what < 0.6:
            body = {**self.decision(name), "rewards": rewards}
            first = self.post(f"{self.path}/decisions", body)
            self.n[name] = self.n.get(name, 0) + 1
            assert first["round"] == self.n[name]
            if self.rng.random() < 0.2:
                assert self.post(f"{self.path}/decisions", body, 200) == first
        elif what < 0.8:
            if rewards:
                self.post(f"{self.path}/rewards", {"rewards": rewards})
        elif what < 0.85:
            n = self.rng.randint(1, 12)
            values = [self.rng.choice([None, 1.0, -1.0]) for _ in range(n)]
            body = {"contexts": self.contexts(n), "rewards": values, "trajectory": name}
            self.post(f"{self.path}/history", body)
            first = self.n.get(name, 0) + 1
            self.n[name] = first + n - 1
            got = {first + i for i, value in enumerate(values) if value is not None}
            self.measured.setdefault(name, set()).update(got)
            if rewards:
                self.post(f"{self.path}/rewards", {"rewards": rewards})
        elif what < 0.9:
            self.client.patch(self.path, json={"archived": True}).raise_for_status()
            if rewards:
                self.post(f"{self.path}/rewards", {"rewards": rewards}, 409)
                for reward in rewards:
                    rounds = range(reward.get("first_round", 0), reward.get("last_round", -1) + 1)
                    self.measured.setdefault(name, set()).difference_update(rounds)
            self.post(f"{self.path}/decisions", self.decision(name), 409)
            self.client.patch(self.path, json={"archived": False}).raise_for_status()
        else:
            items = [{"session_id": self.session, "decision": self.decision(name)} for _ in "123"]
            answers = self.post("/v1/batch", {"items": items})["items"]
            rounds = sorted(answer["decision"]["round"] for answer in answers)
            first = self.n.get(name, 0) + 1
            assert rounds == [first, first + 1, first + 2]
            self.n[name] = first + 2
            if rewards:
                self.post(f"{self.path}/rewards", {"rewards": rewards})

    def pages(self, what: str, **more: Any) -> list[Any]:
        items, cursor = [], "0"
        while cursor is not None:
            query = {**more, "cursor": cursor, "limit": 7}
            page = self.client.get(f"{self.path}/{what}", params=query).json()
            items += page["items"]
            cursor = page["next"]
        return items

    def end(self) -> None:
        """No fit is left that nothing but time can bring; then all of it has to fit together."""
        deadline = time.monotonic() + 120
        while True:
            epochs = self.pages("epochs")
            open_windows = [item for item in epochs if item["status"] == "open"]
            if all(item["status"] in DONE | {"open"} for item in epochs):
                break
            n_rounds = sum(self.n.values())
            waits = [item for item in epochs if item["status"] == "waiting_for_rewards"]
            if all(item["window"]["due"] == n_rounds for item in waits) and len(waits) + len(
                open_windows
            ) == sum(item["status"] not in DONE for item in epochs):
                break  # no decision beyond it: it waits for its rewards
            assert time.monotonic() < deadline, epochs
            time.sleep(0.05)
        done = [item for item in epochs if item["status"] in DONE]
        assert not any(item["status"] == "failed" for item in done), done
        reached = {item["epoch"] for item in epochs}
        assert reached == set(range(1, max(reached, default=0) + 1))
        versions = [item["model_version"] for item in done]
        assert versions == sorted(versions)
        installed = [item["window"]["due"] for item in done if item["status"] == "ok"]
        assert installed == sorted(installed)  # never backwards
        for name, n in self.n.items():
            log = self.pages("rounds", trajectory=name)
            assert [item["round"] for item in log] == list(range(1, n + 1))
            assert [item["at"] for item in log] == sorted(item["at"] for item in log)
            used = [item["model_version"] for item in log]
            assert used == sorted(used)
            assert len(self.pages("credit", trajectory=name)) == n

    def move(self) -> None:
        """Out and in again: the same, and it goes on."""
        events = self.client.get(f"{self.path}/events").content
        answer = self.client.post("/v1/sessions/import", content=events)
        assert answer.status_code == 201, answer.text
        other = Story(self.client, self.rng, answer.json()["id"], self.is_sum, self.is_learner)
        assert other.pages("estimates") == self.pages("estimates")
        for name in self.n:
            ours, theirs = (story.pages("rounds", trajectory=name) for story in (self, other))
            assert ours == theirs
        here, there = (story.pages("epochs") for story in (self, other))
        assert [e["epoch"] for e in here] == [e["epoch"] for e in there]
        for name in self.n:
            here, there = self.decided_by_one_model(other, name)
            assert here["arm"] == there["arm"]
            assert here["scores"] == there["scores"]

    def decided_by_one_model(self, other: "Story", name: str) -> list[dict[str, Any]]:
        """The first decisions of both that the same model made: a fit that waited for its rewards
        at the export may end in one before the other.
        """
        deadline = time.monotonic() + 60
        while True:
            body = {"contexts": self.contexts(3), "trajectory": name}
            decided = [self.post(f"{story.path}/decisions", body) for story in (self, other)]
            if decided[0]["model_version"] == decided[1]["model_version"]:
                return decided
            assert time.monotonic() < deadline, [s.pages("epochs") for s in (self, other)]
            time.sleep(0.05)


def tell(url: str, seed: int, n_sessions: int, n_steps: int) -> None:
    rng = random.Random(seed)
    with Server(url, LHB_FIT_RETRY_SECONDS="0.1") as server, server.client() as client:
        stories = [Story(client, rng) for _ in range(n_sessions)]
        for story in stories:
            story.begin()
        for _ in range(n_steps):
            rng.choice(stories).step()
        for story in stories:
            story.end()
            story.move()


STORIES = [
    ("sqlite", 0, 80),
    *repeats(("sqlite", 1, 250), ("postgres", 2, 250)),
]


@pytest.mark.parametrize(("database_url", "seed", "n_steps"), STORIES, indirect=["database_url"])
def test_random_stories(database_url: str, seed: int, n_steps: int) -> None:
    if database_url.startswith("sqlite"):
        tell(database_url, seed, 8, n_steps)
        return
    with WorkerProcess(database_url, LHB_FIT_RETRY_SECONDS="0.1"):
        tell(database_url, 100 + seed, 8, n_steps)
