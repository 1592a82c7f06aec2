"""`lhb bench users`: what it fills is there, and what it says is measured."""

import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.server import users
from benchmarks.server.copied_users import copy_users
from benchmarks.server.processes import SERVE, servers


def test_a_session_is_filled_with_the_rounds_that_it_says(tmp_path: Path) -> None:
    with (
        servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{tmp_path}/users.db") as [(url, _)],
        httpx.Client(base_url=url, headers=users.JSON, timeout=60) as client,
    ):
        body = {"algorithm": "anytime", "dim": users.DIM, "horizon": users.HORIZON}
        id = client.post("/v1/sessions", json=body).json()["id"]
        for share in range(2):
            users.Players(client, id, 7, random.Random(share)).fill(range(7)[share::2], 4)
        found = client.get(f"/v1/sessions/{id}/trajectories").json()["items"]
    assert [item["trajectory"] for item in found] == [f"user-{i}" for i in range(7)]
    assert {(item["n_rounds"], item["n_missing"]) for item in found} == {(4, 0)}


@pytest.mark.slow
def test_copies_are_what_the_api_writes(tmp_path: Path) -> None:
    """But for contents, which repeat: keys, numbers, positions and counters; a fit takes all."""
    url = f"sqlite:///{tmp_path}/users.db"
    body = {"algorithm": "anytime", "dim": users.DIM, "horizon": users.HORIZON}
    with served(url) as client:
        ids = [client.post("/v1/sessions", json=body).json()["id"] for _ in range(2)]
        for id, n in zip(ids, (3, 9), strict=True):
            player = users.Players(client, id, n, random.Random(0))
            for first in range(0, n, 3):
                player.fill(range(first, first + 3), 4)
            users._fit(client, id)
    copy_users(url, ids[0], 3, 2)
    found = [rows_of(tmp_path / "users.db", id) for id in ids]
    assert found[0] == found[1]
    assert [len(rows) for rows in found[0]] == [9, 36, 36, 1]
    with served(url) as client:
        users.Players(client, ids[0], 9, random.Random(1)).play_one()
        fit = users._fit(client, ids[0])
        state = client.get(f"/v1/sessions/{ids[0]}").json()
    assert (fit["status"] in ("ok", "zero"), fit["n_rows"]) == (True, 37)
    assert (state["n_rounds"], state["n_trajectories"]) == (37, 9)


AT_ONCE = {"LHB_FIT_IDLE_SECONDS": "0", "LHB_FIT_NICENESS": "0"}  # fits wait for nobody


@contextmanager
def served(url: str) -> Iterator[httpx.Client]:
    with (
        servers(1, SERVE, LHB_DATABASE_URL=url, **AT_ONCE) as [(address, _)],
        httpx.Client(base_url=address, headers=users.JSON, timeout=60) as client,
    ):
        yield client


def rows_of(path: Path, id: str) -> list[list[Any]]:
    """What rows of a session do not repeat from the first users."""
    with closing(sqlite3.connect(path)) as connection:
        return [
            connection.execute(
                f"select {columns} from {table} where session_id = ? order by 1, 2", (id,)
            ).fetchall()
            for table, columns in {
                "trajectories": "trajectory, n_rounds, n_measurements, measured_through",
                "decisions": "trajectory, round, number, position, event_id, length(context)",
                "measurements": "trajectory, first_round, last_round, number, position, reward_id",
                "session_counts": "n_rounds, n_trajectories, n_measurements, n_complete",
            }.items()
        ]


@pytest.mark.slow
def test_everything_is_measured() -> None:
    found = users.run(None, [40], 0.3, 1, 2, one_rounds=40, n_copied=10)["trajectories"][40]
    assert (found["one"]["rounds"], found["many"]["rounds"]) == (40, 400)
    assert (found["many"]["copied_rounds"], found["many"]["first_fit"]["n_rows"]) == (200, 301)
    assert found["many"]["fit"]["n_rows"] >= 402
    for one in (found["one"], found["many"], found["ratio"]):
        numbers = [value for value in one.values() if isinstance(value, float)]
        assert all(math.isfinite(value) and value > 0 for value in numbers)
        assert len(numbers) >= 10
    assert found["many"]["decide_p50_ms"] <= found["many"]["decide_p99_ms"]
