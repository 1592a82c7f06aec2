"""`lhb bench neighbours`: a flood is really under way while the quiet tenant is measured."""

import json
import re
from pathlib import Path

import httpx
import pytest

from benchmarks.server import floods, neighbours
from benchmarks.server.large_session import session_file, store
from benchmarks.server.processes import SERVE, servers


@pytest.mark.slow
@pytest.mark.parametrize("flood", ["collisions", "imports"])
def test_a_flood_is_measured_beside_its_absence(flood: str) -> None:
    found = neighbours.run([flood], 1.0, 10_000)["floods"][flood]
    if flood == "collisions":
        assert found["flood_requests"] >= 1
    for when in ("alone", "beside"):
        part = found[when]
        assert 0 < part["p50_ms"] <= part["p99_ms"] <= part["longest_ms"]
        assert part["throughput"] > 0
        assert part["fits"] + part["exports"] > 0
        assert part["fits_refused"] == part["exports_refused"] == 0
        assert part["transaction_longest_ms"] >= part["transaction_longest_on_cpu_ms"]


def test_a_large_session_is_as_if_it_had_been_played(tmp_path: Path) -> None:
    """Its rows, stored without a server, are exported as its file says."""
    url = f"sqlite:///{tmp_path / 'lhb.db'}"
    with (
        servers(1, SERVE, LHB_DATABASE_URL=url) as [(server, _)],
        httpx.Client(base_url=server, timeout=60) as client,
    ):
        session = floods.Flooded(client, 20).create()
        path = f"/v1/sessions/{session}"
        client.post(f"{path}/history", content=floods.log(20), headers=floods.JSON)
        short = client.get(f"{path}/events").content
        played = client.post(f"{path}/history", content=floods.log(20), headers=floods.JSON)
        assert played.json()["last_round"] == 40
        whole = client.get(f"{path}/events").content
    assert session_file(short, 20).count(b"\n") == short.count(b"\n")
    file = session_file(short, 47)
    first, second = store(url, "", file, 2)
    with (
        servers(1, SERVE, LHB_DATABASE_URL=url) as [(server, _)],
        httpx.Client(base_url=server, timeout=60) as client,
    ):
        for id in (first, second):
            assert client.get(f"/v1/sessions/{id}").json()["n_rounds"] == 47
        lines = client.get(f"/v1/sessions/{second}/events").content.splitlines()
    found = [json.loads(line) for line in lines]
    expected = [json.loads(line) for line in session_file(short, 47).splitlines()]
    assert found[2:-1] == expected[2:-1]  # its header has an id of its own
    rounds = [json.loads(line) for line in whole.splitlines()][2:42]
    for ours, theirs in zip(expected[2:42], rounds, strict=True):  # but for the time, as if played
        assert {**ours, "at": 0} == {**theirs, "at": 0}


@pytest.mark.slow
def test_every_flood_does_its_work(tmp_path: Path) -> None:
    with (
        servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{tmp_path / 'lhb.db'}") as [(url, _)],
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        for flood in floods.FLOODS.values():
            flooded = floods.Flooded(client, 40, 20, 20, fit_size=20, n_learners=20)
            flooded.end.set()
            for one in {id(work): work for work in flood(flooded)}.values():
                one()
        shown = client.get("/metrics").text
    for route in ("import", "history", "events", "rounds", "decisions"):
        assert re.search(rf'lhb_request_seconds_count{{.*{route}",status="20.*}} [1-9]', shown), (
            route
        )
    assert 'status="5' not in shown
