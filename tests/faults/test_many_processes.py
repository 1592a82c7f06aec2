"""Several API processes on one PostgreSQL, and what happens when some of it dies."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest

from clients.simulator import SimulationSettings, play_in_process, play_session, settled_estimates
from lhb import Client
from service.storage.maintenance import migrate
from tests.conftest import database
from tests.faults.load_generator import Count, Player, check_all, make_players, play_all
from tests.faults.server_process import Server, WorkerProcess
from tests.faults.test_kill import kill_under_load, wait_for_fits
from tests.postgres_server import PostgresServer

ARMS = [[1.0, 0.25], [-0.5, 1.0]]


@pytest.fixture(scope="module")
def shared_url(postgres_server: str) -> Iterator[str]:
    """A database for the tests of this file that leave its servers alive."""
    with database(postgres_server) as url:
        migrate(url)
        yield url


@pytest.fixture(scope="module")
def pair(shared_url: str) -> Iterator[tuple[Server, Server]]:
    with Server(shared_url) as one, Server(shared_url) as two:
        yield one, two


async def play_on_both(pair: tuple[Server, Server], players: list[Player], enough: int) -> None:
    """Trajectories of the same sessions, every other one through the other process."""
    await asyncio.gather(
        *(play_all(server, players[i::2], enough) for i, server in enumerate(pair))
    )


def deadlocks(url: str) -> int:
    with psycopg.connect(url) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        row = connection.execute(
            "select deadlocks from pg_stat_database where datname = current_database()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def estimates(client: httpx.Client, session: str) -> list[Any]:
    return list(client.get(f"/v1/sessions/{session}/estimates?limit=1000").json()["items"])


def test_two_processes_on_the_same_sessions(pair: tuple[Server, Server], shared_url: str) -> None:
    with WorkerProcess(shared_url), WorkerProcess(shared_url), pair[1].client() as client:
        players = make_players(pair[0], seed=7)
        before = deadlocks(shared_url)
        asyncio.run(play_on_both(pair, players, 250))
        check_all(client, players)
        assert deadlocks(shared_url) == before
        for session in {player.session for player in players}:
            assert not wait_for_fits(client, session)["fit_due"]
            found = estimates(client, session)
            assert [item["number"] for item in found] == list(range(1, len(found) + 1))
            done = [item["due"] for item in found]
            assert len(done) == len(set(done)) > 2  # nothing fitted twice
            installed = [item["model_version"] for item in found]
            assert installed == sorted(installed)
        ready = client.get("/readyz").json()
        assert (ready["workers"], ready["fits_due"]) == (2, 0)
        assert "lhb_workers 2.0" in client.get("/metrics").text


def test_one_trajectory_through_two_processes_has_contiguous_rounds(
    pair: tuple[Server, Server],
) -> None:
    with pair[0].client() as one, pair[1].client() as two:
        body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
        session = one.post("/v1/sessions", json=body).json()["id"]
        path = f"/v1/sessions/{session}/decisions"

        def decide(i: int) -> tuple[int, int, Any]:
            asked = {"contexts": ARMS, "event_id": f"e{i // 2}"}  # each twice, one a process
            answer = (one, two)[i % 2].post(path, json=asked)
            return i, answer.status_code, answer.json()

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(decide, range(400)))
    for (_, first, a), (_, second, b) in zip(answers[::2], answers[1::2], strict=True):
        assert {first, second} == {201, 200}
        assert a == b
    assert sorted({a["round"] for _, _, a in answers}) == list(range(1, 201))


def test_the_same_name_from_two_processes_is_one_session(pair: tuple[Server, Server]) -> None:
    with pair[0].client() as one, pair[1].client() as two:

        def create(i: int) -> tuple[int, str]:
            body = {"algorithm": "uniform", "dim": 2, "horizon": 4, "seed": 1, "name": f"n{i // 2}"}
            answer = (one, two)[i % 2].post("/v1/sessions", json=body)
            return answer.status_code, answer.json().get("id", answer.text)

        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(create, range(80)))
    assert len({session for _, session in made}) == 40
    assert sorted(status for status, _ in made) == [200] * 40 + [201] * 40


class Alternating:
    """A session that speaks to another process with every call."""

    def __init__(self, *sessions: Any) -> None:
        self._turns = itertools.cycle(sessions)

    def __getattr__(self, name: str) -> Any:
        return getattr(next(self._turns), name)


@pytest.mark.slow
def test_a_blocking_run_through_two_processes_equals_the_run_in_process(
    pair: tuple[Server, Server], shared_url: str
) -> None:
    settings = SimulationSettings(("ad_lasso",), rounds=250, horizon=24, dim=3, arms=4, sparsity=2)
    world = settings.world(0)
    expected = play_in_process(settings, "ad_lasso", 0, lambda n: None)
    with (
        WorkerProcess(shared_url),
        Client(pair[0].url) as one,
        Client(pair[1].url) as two,
    ):
        made = one.create_session(algorithm="ad_lasso", dim=3, horizon=24, seed=0, refit="blocking")
        session: Any = Alternating(made, two.session(made.id))
        arms, rewards, _ = play_session(session, world, settings.rounds, lambda n: None)
        found = settled_estimates(made)
    np.testing.assert_array_equal(arms, expected.arms)
    np.testing.assert_array_equal(rewards, expected.rewards)
    assert len(found) == len(expected.estimates) > 2
    thetas = [None if e.theta is None else e.theta.tolist() for e in expected.estimates]
    assert [item["theta"] for item in found] == thetas
    assert sum(theta is not None for theta in thetas) > 1


def test_a_killed_process_loses_nothing_it_acknowledged(
    pair: tuple[Server, Server], shared_url: str
) -> None:
    other = pair[1]
    with Server(shared_url) as dying, other.client() as client:
        players = make_players(dying, seed=11)
        killer = threading.Timer(0.7, dying.kill)
        killer.start()
        asyncio.run(play_on_both((dying, other), players, 500))
        killer.join()
        check_all(client, players)
        asyncio.run(play_all(other, players, 100))
        check_all(client, players)


@pytest.mark.slow
def test_kill_under_load_loses_nothing_and_replays(postgres_url: str) -> None:
    with WorkerProcess(postgres_url):
        kill_under_load(postgres_url, 0)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    migrate(server.url())
    yield server
    server.remove()


@pytest.mark.slow
def test_the_database_may_crash_and_come_back(own_postgres: PostgresServer) -> None:
    url = own_postgres.url()
    with WorkerProcess(url), Server(url) as server, server.client() as client:
        players = make_players(server, seed=13)
        seen: list[httpx.Response] = []

        def crash() -> None:
            own_postgres.crash()
            time.sleep(0.5)
            seen.append(client.post(f"/v1/sessions/{players[0].session}/decisions", json={}))
            body = {"contexts": [[0.0] * 3]}
            seen.append(client.post(f"/v1/sessions/{players[0].session}/decisions", json=body))
            seen.append(client.get(f"/v1/sessions/{players[0].session}"))
            own_postgres.start()

        killer = threading.Timer(0.5, crash)
        killer.start()
        count = Count(10**9, is_patient=True)

        async def play() -> None:
            playing = [asyncio.create_task(player.play(server, count)) for player in players]
            await asyncio.to_thread(killer.join)
            count.enough = count.n + 300
            await asyncio.gather(*playing)

        asyncio.run(play())
        assert count.n_refused > 0
        bad, *away = seen
        assert bad.status_code == 422
        for answer in away:
            assert answer.status_code == 503, answer.text
            assert answer.json()["code"] == "storage_unreachable"
            assert int(answer.headers["retry-after"]) >= 1
        check_all(client, players)
        for session in {player.session for player in players}:
            assert not wait_for_fits(client, session)["fit_due"]
