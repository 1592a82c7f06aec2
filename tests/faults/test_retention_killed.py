"""kill -9 in mid-fit, and between the slices of a pass that drops rows; two servers at once."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from lhb_engine.history import SIZES
from service.storage.database_url import open_reader
from service.transfer.replay import replay_session
from service.transfer.without_server import all_sessions
from tests.examples import on_one_database
from tests.faults.server_process import ROOT, Server, WorkerProcess
from tests.faults.test_kill import wait_for_fits
from tests.faults.test_large_writes import until

HORIZON, KEPT = 4, 64
LATE = {"value": 1.0, "round": 2, "reward_id": "late"}
BODY = {"dim": 2, "horizon": HORIZON, "seed": 1, "keep_rounds": KEPT}
LEVELS: dict[str, Any] = {"options": {"levels": True}}
DEFAULT: dict[str, Any] = {"default_reward": 0.0}
# a checkout comes before an installed one: the limits are set before a process knows its folder
LIMITS = {"PYTHONPATH": f"{Path(__file__).with_name('small_limits')}{os.pathsep}{ROOT}"}
LIMITS |= {"LHB_FIT_NICENESS": "0", "LHB_FIT_IDLE_SECONDS": "0"}  # other work holds no fit up
pytestmark = pytest.mark.slow


def limited(database_url: str) -> Server:
    """A server with small limits; what it leaves is replayed by its test."""
    server = Server(database_url, **LIMITS)
    server.leaves_sessions = False
    return server


@contextmanager
def served(database_url: str) -> Iterator[tuple[Server, Server]]:
    """Such a server, and the process that runs its fits: on PostgreSQL a worker, else itself."""
    with limited(database_url) as server:
        if database_url.startswith("postgres"):
            with WorkerProcess(database_url, **LIMITS) as worker:
                yield server, worker
        else:
            yield server, server


class Player:
    """Plays rounds of one session; the reward is that of the round and of the one before."""

    def __init__(self) -> None:
        self.rng, self.n, self.before = random.Random(4), 0, 0.0
        self.told: list[dict[str, Any]] = []  # the reward that goes with the next decision

    def play(self, client: httpx.Client, path: str, n: int) -> None:
        for _ in range(n):
            arms = [[self.rng.gauss(0, 1), self.rng.gauss(0, 1)] for _ in range(3)]
            given = {"contexts": arms, "event_id": f"e{self.n + 1}", "rewards": self.told}
            answer = client.post(f"{path}/decisions", json=given)
            assert answer.status_code == 201, answer.text
            self.n += 1
            x, y = arms[answer.json()["arm"]]
            now = 0.8 * x - 0.6 * y
            value = now + 0.5 * self.before + self.rng.gauss(0, 0.1)
            self.before = now
            self.told = [{"value": value, "event_id": f"e{self.n}", "reward_id": f"r{self.n}"}]
        assert client.post(f"{path}/rewards", json={"rewards": self.told}).status_code == 200
        self.told = []


def state(client: httpx.Client, path: str) -> dict[str, Any]:
    return dict(client.get(path).json())


def is_swept(client: httpx.Client, path: str) -> bool:
    """Of one trajectory, all rows are gone but those before the first that counts."""
    told = state(client, path)
    n_before = 2 * HORIZON + (SIZES.stretch(HORIZON) if told["options"] else 0)
    return bool(told["n_dropped_rounds"] == told["dropped_to"] - n_before > 0)


@pytest.mark.parametrize(
    ("database_url", "settings"),
    [("sqlite", {}), ("sqlite", {"reward_mode": "sum"}), ("postgres", DEFAULT | LEVELS)],
    indirect=["database_url"],
    ids=["plain", "sum", "postgres default levels"],
)
def test_nothing_is_lost_and_fits_go_on(database_url: str, settings: dict[str, Any]) -> None:
    body, player = BODY | settings, Player()
    beside = limited(database_url) if database_url.startswith("postgres") else nullcontext()
    with served(database_url) as (server, fitting), beside:
        with server.client() as client:
            path = f"/v1/sessions/{client.post('/v1/sessions', json=body).json()['id']}"
            player.play(client, path, 160)
            client.post(f"{path}/fits")
        fitting.kill()  # a fit with kept sums is due, or runs
        fitting.start()
        with server.client() as client:
            assert not wait_for_fits(client, path.rpartition("/")[2])["fit_due"]
            player.play(client, path, 100)
            client.post(f"{path}/fits")
            until(lambda: state(client, path)["n_dropped_rounds"] > 0)
        server.kill()
        server.start()
        with server.client() as client:
            until(lambda: is_swept(client, path))
            given_up = state(client, path)["dropped_to"]
            late = client.post(f"{path}/rewards", json=LATE)
            assert (late.status_code, late.json()["code"]) == (409, "round_dropped")
            player.play(client, path, 60)
            assert not wait_for_fits(client, path.rpartition("/")[2])["fit_due"]
            client.post(f"{path}/fits")
            assert not wait_for_fits(client, path.rpartition("/")[2])["fit_due"]
            until(lambda: is_swept(client, path))
            assert state(client, path)["n_rounds"] == player.n
            assert state(client, path)["dropped_to"] >= given_up
            fits = client.get(f"{path}/estimates?limit=1000").json()["items"]
            told = [(fit["status"], fit["window"]["last"], fit["reason"]) for fit in fits]
            assert [one for one in told if one[0] == "failed"] == [], told
            n_open = "reward_mode" in settings  # the last round is not closed
            assert fits[-1]["n_rows"] + n_open == fits[-1]["window"]["last"] > given_up + KEPT
    with open_reader(database_url) as reader:
        [session] = all_sessions(reader)
        replay = replay_session(reader, session)
    wrong = [one for one in replay.differences if not one.startswith("estimate ")]
    assert wrong == []
    assert replay.decisions == session.n_rounds - session.n_dropped_rounds
    assert replay.estimates_dropped > 0


def said(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


class ByTheMinute(Player):
    """Two decisions a minute, of two users, a day ago; the minute's total comes when it is over."""

    start = time.time() // 60 * 60.0 - 86_400.0

    def play(self, client: httpx.Client, path: str, n: int) -> None:
        for _ in range(n):
            begin, self.n = self.start + 60.0 * self.n, self.n + 1
            now = 0.0
            for user in ("a", "b"):
                arms = [[self.rng.gauss(0, 1), self.rng.gauss(0, 1)] for _ in range(3)]
                given = {"contexts": arms, "trajectory": user, "at": said(begin + 1.0)}
                answer = client.post(f"{path}/decisions", json=given)
                assert answer.status_code == 201, answer.text
                x, y = arms[answer.json()["arm"]]
                now += 0.8 * x - 0.6 * y
            value = now + 0.5 * self.before + self.rng.gauss(0, 0.1)
            self.before = now
            total = {
                "value": value,
                "from": said(begin),
                "to": said(begin + 60.0),
                "reward_id": f"r{self.n}",
            }
            assert client.post(f"{path}/rewards", json=total).status_code == 200


def fitted(client: httpx.Client, path: str) -> int:
    """How many totals the last fit has; another one is asked for, and none has failed."""
    client.post(f"{path}/fits")
    fits = client.get(f"{path}/estimates?limit=1000").json()["items"]
    assert [fit for fit in fits if fit["status"] == "failed"] == []
    return max(fit.get("n_rows", 0) for fit in fits)


@on_one_database
def test_decisions_of_slots_go_and_nothing_else(database_url: str) -> None:
    """Killed while a fit with summed slots is due, and while rows go; an erasure comes between."""
    clock = {"slot_seconds": 60, "start": said(ByTheMinute.start), "late_slots": 2}
    player = ByTheMinute()
    with served(database_url) as (server, fitting):
        with server.client() as client:
            answer = client.post("/v1/sessions", json={**BODY, "clock": clock})
            assert answer.status_code == 201, answer.text
            path = f"/v1/sessions/{answer.json()['id']}"
            player.play(client, path, 90)
            client.post(f"{path}/fits")
        fitting.kill()
        fitting.start()
        with server.client() as client:
            assert not wait_for_fits(client, path.rpartition("/")[2])["fit_due"]
            player.play(client, path, 30)
            client.post(f"{path}/fits")
            until(lambda: state(client, path)["n_dropped_rounds"] > 0)
        server.kill()
        server.start()
        with server.client() as client:
            until(
                lambda: state(client, path)["n_dropped_rounds"] == state(client, path)["dropped_to"]
            )
            old = {"value": 9.0, "reward_id": "refund", "correct": True}
            old |= {"from": said(player.start), "to": said(player.start + 60.0)}
            assert client.post(f"{path}/rewards", json=old).status_code == 200
            assert client.delete(f"{path}/trajectories/b").status_code == 204
            player.play(client, path, 30)
            until(lambda: fitted(client, path) == player.n)
    with open_reader(database_url) as reader:
        [session] = all_sessions(reader)
        replay = replay_session(reader, session)
    wrong = [one for one in replay.differences if not one.startswith("estimate ")]
    assert wrong == []
    assert replay.estimates_dropped > 0
