"""The serving benchmarks' own parts: short, and against a real server."""

from pathlib import Path

import httpx
import pytest

from benchmarks.server import overload, soaking, starting
from benchmarks.server.beside_fits import beside_fits
from benchmarks.server.load import DIM, N_CONNECTIONS, by_asyncio, decide_all
from benchmarks.server.processes import SERVE, measure, servers
from benchmarks.server.serving import DURABLE, ON_SQLITE
from tests.examples import repeats


def test_the_asyncio_load_counts_what_the_server_counts(tmp_path: Path) -> None:
    with servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{tmp_path / 'lhb.db'}") as [(url, _)]:
        with httpx.Client(base_url=url, timeout=60) as client:
            body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
            ids = [client.post("/v1/sessions", json=body).json()["id"] for _ in range(3)]
            contexts = "[[" + ",".join(["0.5"] * DIM) + "]]"
            found = by_asyncio([url], ids, f'{{"contexts": {contexts}}}', 0.3, False)
            assert found.n == sum(client.get(f"/v1/sessions/{id}").json()["n_rounds"] for id in ids)
            assert 0 < found.p99_ms < 10_000
            at_least = by_asyncio([url], ids, f'{{"contexts": {contexts}}}', 0.0, False)
            assert at_least.n == N_CONNECTIONS  # however slowly they were made
            one = by_asyncio([url], ids[:1], f'{{"contexts": {contexts}}}', 0.1, True)
            assert client.get(f"/v1/sessions/{ids[0]}").json()["n_trajectories"] > 1
            assert one.n > 0
        with pytest.raises(SystemExit, match="404"):
            by_asyncio([url], ["nobody"], f'{{"contexts": {contexts}}}', 0.1, False)


def test_without_wrk_the_load_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with servers(1, SERVE, LHB_DATABASE_URL=f"sqlite:///{tmp_path / 'lhb.db'}") as [(url, _)]:
        body = {"algorithm": "uniform", "dim": DIM, "horizon": 100}
        id = httpx.post(f"{url}/v1/sessions", json=body, timeout=60).json()["id"]
        assert decide_all([url], [id], 0.1, False).n > 0


@pytest.mark.parametrize(
    "name", [DURABLE, *repeats(*(name for name in ON_SQLITE if name != DURABLE))]
)
def test_every_variant_answers_decisions_and_counts_them(name: str, tmp_path: Path) -> None:
    variant = ON_SQLITE[name]
    url = variant.database or f"sqlite:///{tmp_path / 'lhb.db'}"
    with servers(1, variant.code, LHB_DATABASE_URL=url, **variant.settings) as started:
        found = measure(started, 1)
    assert found.requests_per_second > 0
    assert found.cpu_us > 0


@pytest.mark.slow
@pytest.mark.parametrize("which", ["wrk", "asyncio"])
def test_stalls_are_noted_with_and_without_a_fit(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.server.beside_fits.generator", lambda: which)
    found = beside_fits(tmp_path, 1.0, 1)
    for played in found["pairs"][0].values():
        assert 0 < played["requests_per_second"] < 1.5 * played["asked_per_second"]
    assert found["p99_ratio"] > 0
    assert found["stalls"].keys() == {"with", "without"}


@pytest.mark.slow
def test_starts_and_soaks_report_figures() -> None:
    start = starting.run(1, 50, 5)
    assert start["median"]["idle_mb"] > 10
    assert start["median"]["first_decision_seconds"] > start["median"]["listening_seconds"] > 0
    soak = soaking.run(0.1, 50)
    assert soak["rounds"] > 50
    assert soak["start_mb"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("most", [overload.MOST_CONNECTIONS, 100])
def test_overload_says_what_is_served(most: int) -> None:
    """Also where it would take more connections than the server allows, as on a fast machine."""
    found = overload.run([2.0], 1.0, 20, 10, 5.0, most)
    load = found["loads"]["2"]
    assert found["carried"] > 0
    assert load["served"] > 0
    assert 0 < load["served_of_peak"] <= 1
    assert 0 < load["p50_ms"] <= load["p99_ms"] <= load["longest_ms"]
