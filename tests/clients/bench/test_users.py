"""`lhb bench users`: what it fills is there, and what it says is measured."""

import math
import random
from pathlib import Path

import httpx
import pytest

from clients.bench.server import users
from clients.bench.server.processes import SERVE, servers


def test_a_session_is_filled_with_the_rounds_that_it_says(tmp_path: Path) -> None:
    with (
        servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{tmp_path}/users.db") as [(url, _)],
        httpx.Client(base_url=url, headers=users.JSON, timeout=60) as client,
    ):
        body = {"algorithm": "anytime", "dim": users.DIM, "horizon": users.HORIZON}
        id = client.post("/v1/sessions", json=body).json()["id"]
        for share in range(2):
            players = users.Players(client, id, 7, random.Random(share))
            players.fill(share, 2, 4)
        found = client.get(f"/v1/sessions/{id}/trajectories").json()["items"]
    assert [item["trajectory"] for item in found] == [f"user-{i}" for i in range(7)]
    assert {(item["n_rounds"], item["n_missing"]) for item in found} == {(4, 0)}


@pytest.mark.slow
def test_everything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "ONE_ROUNDS", 40)
    found = users.run(None, [30], 0.3, 1)
    for n, one in found["trajectories"].items():
        assert one["rounds"] == (40 if n == 1 else 30 * users.ROUNDS)
        assert one["fit_rows"] >= one["rounds"] // 3  # a fit that is late is skipped for the next
        assert all(math.isfinite(value) and value != 0 for value in one.values())
        assert one["decide_p50_ms"] <= one["decide_p99_ms"]
