"""kill -9 at random instants under load: nothing acknowledged is lost, nothing stands twice."""

import asyncio
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.load_generator import check_all, make_players, play_all
from tests.faults.server_process import Server, assert_replay_equals_live, url_of

N_BEFORE = 300  # decisions


def kill_under_load(database: Path | str, seed: int) -> None:
    rng = random.Random(seed)
    server = Server(database)
    with server:
        players = make_players(server, seed)
        n = asyncio.run(play_all(server, players, N_BEFORE))
        assert n >= N_BEFORE
        killer = threading.Timer(rng.uniform(0.0, 0.3), server.kill)
        killer.start()
        asyncio.run(play_all(server, players, 10**9))
        killer.join()
    with Server(database) as again, again.client() as client:
        check_all(client, players)
        asyncio.run(play_all(again, players, 100))
        check_all(client, players)
        for session in {player.session for player in players}:
            assert not wait_for_fits(client, session)["fit_due"]
    assert assert_replay_equals_live(url_of(database)) > N_BEFORE


def wait_for_fits(client: httpx.Client, session: str) -> Any:
    """The session once no fit is due: what the kill interrupted has run again."""
    deadline, pause = time.monotonic() + 120, 0.02
    while True:
        state = client.get(f"/v1/sessions/{session}").json()
        if not state["fit_due"] or time.monotonic() > deadline:
            return state
        time.sleep(pause)
        pause = min(1.2 * pause, 0.1)


def test_kill_under_load(tmp_path: Path) -> None:
    kill_under_load(tmp_path / "lhb.db", 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 3))
def test_kill_under_load_many_times(tmp_path: Path, seed: int) -> None:
    kill_under_load(tmp_path / "lhb.db", seed)


def test_a_fit_that_was_due_when_the_server_died_happens(tmp_path: Path) -> None:
    arms = [[1.0, 0.25], [-0.5, 1.0]]
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        body = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4}
        session = client.post("/v1/sessions", json=body).json()["id"]
        path = f"/v1/sessions/{session}"
        for round in range(1, 5):
            client.post(f"{path}/decisions", json={"contexts": arms})
            client.post(f"{path}/rewards", json={"round": round, "value": round * 0.5})
        server.kill()
    with Server(tmp_path / "lhb.db") as again, again.client() as client:
        assert not wait_for_fits(client, session)["fit_due"]
        [item] = client.get(f"{path}/estimates").json()["items"]
        assert item["epoch"] == 1
        assert item["status"] != "failed"


def test_who_was_erased_before_the_server_died_is_forgotten(tmp_path: Path) -> None:
    """The fit that knows nothing of them is due in the commit that erases them."""
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        body = {"algorithm": "anytime", "dim": 1, "horizon": 2}
        session = client.post("/v1/sessions", json=body).json()["id"]
        path, rng = f"/v1/sessions/{session}", random.Random(1)
        for round in range(1, 31):
            for name in ("ann", ""):
                x = rng.uniform(-1, 1)
                decision = {"contexts": [[x]], "trajectory": name}
                client.post(f"{path}/decisions", json=decision).raise_for_status()
                reward = {"round": round, "value": x + 0.01 * rng.gauss(0, 1), "trajectory": name}
                client.post(f"{path}/rewards", json=reward).raise_for_status()
        wait_for_fits(client, session)
        assert client.get(f"{path}/estimate").json()["n_rows"] > 30
        client.delete(f"{path}/trajectories/ann").raise_for_status()
        server.kill()
    with Server(tmp_path / "lhb.db") as again, again.client() as client:
        wait_for_fits(client, session)
        done = [e for e in client.get(f"{path}/epochs").json()["items"] if "number" in e]
        assert [e["status"] for e in done if e["due_reason"] == "erased"] == ["ok"]
        assert client.get(f"{path}/estimate").json()["n_rows"] == 30
    assert_replay_equals_live(url_of(tmp_path / "lhb.db"))
