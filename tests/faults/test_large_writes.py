"""Large writes and deletions killed half-way: then all or nothing is seen, and no row is left."""

import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from service.storage.database_url import is_sqlite, sqlite_path
from tests.examples import on_one_database, repeats
from tests.faults.server_process import Server

N = 1500
LOG = {"contexts": [[1.0, 0.5]] * N, "rewards": [1.0] * N, "import_id": "log"}
TABLES = ("decisions", "measurements", "trajectories", "hidden_rows")


def n_rows(url: str, table: str) -> int:
    """How many rows a table has, as anybody else may see."""
    statement = f"select count(*) from {table}"
    if is_sqlite(url):
        with closing(sqlite3.connect(sqlite_path(url))) as connection:
            return int(connection.execute(statement).fetchone()[0])
    with psycopg.connect(url) as connection:
        row = connection.execute(statement).fetchone()
        assert row is not None
        return int(row[0])


def until(check: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline, pause = time.monotonic() + seconds, 0.005
    while not check():
        assert time.monotonic() < deadline
        time.sleep(pause)
        pause = min(1.2 * pause, 0.1)  # on a busy machine, what is waited for needs the time


class HeldServer(Server):
    """Its large writes stop half-way while the gate is there."""

    code = "from tests.faults.held_writes import hold_writes; hold_writes(); " + Server.code

    def __init__(self, database: str, gate: Path) -> None:
        super().__init__(database, LHB_TEST_GATE=str(gate))
        self.gate = gate


class ShortOwner(HeldServer):
    """Its large writes count as dead after a second without a slice."""

    code = "import service.writer.large_writes as h; h.OWN_SECONDS = 1.0; " + HeldServer.code


def killed(server: HeldServer, ask: Callable[[httpx.Client], Any], is_half_way: Any) -> None:
    """Kill the server while it answers a request with a large write."""
    server.gate.touch()

    def run() -> None:
        with server.client() as client, suppress(httpx.HTTPError):
            ask(client)

    thread = threading.Thread(target=run)
    thread.start()
    until(is_half_way)
    server.kill()
    thread.join()
    server.gate.unlink()


def retried(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer that a client gets which repeats after a 503."""
    while True:
        answer = ask()
        if answer.status_code != 503:
            return answer
        assert answer.headers["retry-after"]
        time.sleep(0.2)


def create(server: Server, log: bool, **more: Any) -> str:
    with server.client() as client:
        body = {"algorithm": "uniform", "dim": 2, "horizon": 4, **more}
        session = str(client.post("/v1/sessions", json=body).json()["id"])
        if log:
            answer = client.post(f"/v1/sessions/{session}/history", json=LOG)
            assert answer.status_code == 201, answer.text
    return session


@pytest.mark.slow
@on_one_database
def test_a_log_killed_half_way(database_url: str, tmp_path: Path) -> None:
    server = HeldServer(database_url, tmp_path / "gate")
    with server:
        # a fit is due every two rounds; 32 may wait, and the log gives the others up
        session = create(server, log=False, algorithm="anytime", options={"memory": 8})
        path = f"/v1/sessions/{session}"
        killed(
            server,
            lambda client: client.post(f"{path}/history", json=LOG),
            lambda: n_rows(server.database, "decisions") > 80,
        )
        assert 80 < n_rows(server.database, "decisions") < N
        assert n_rows(server.database, "estimates") == 0
        server.start()
        with server.client() as client:
            assert client.get(path).json()["n_rounds"] == 0
            assert client.get(f"{path}/rounds").json()["items"] == []
            decision = {"contexts": [[1.0, 0.5]], "trajectory": "b"}
            answer = retried(lambda: client.post(f"{path}/decisions", json=decision))
            assert answer.status_code == 201  # once the rows are erased
            left = [n_rows(server.database, table) for table in TABLES]
            assert left == [1, 0, 1, 0]
            answer = retried(lambda: client.post(f"{path}/history", json=LOG))
            assert answer.status_code == 201
            assert answer.json() == {"first_round": 1, "last_round": N, "rewards": N}
            assert client.post(f"{path}/history", json=LOG).json() == answer.json()
            assert client.get(path).json()["n_rounds"] == N + 1
            until(lambda: n_rows(server.database, "estimates where status <> 'skipped'") > 0)
        assert n_rows(server.database, "decisions") == N + 1
        assert n_rows(server.database, "estimates") > N / 2 - 40


@pytest.mark.slow
def test_an_import_killed_half_way(database_url: str, tmp_path: Path) -> None:
    server = HeldServer(database_url, tmp_path / "gate")
    with server:
        session = create(server, log=True)
        with server.client() as client:
            content = client.get(f"/v1/sessions/{session}/events").content
        killed(
            server,
            lambda client: client.post("/v1/sessions/import?name=copy", content=content),
            lambda: n_rows(server.database, "decisions") > N,
        )
        assert N < n_rows(server.database, "decisions") < 2 * N
        assert n_rows(server.database, "hidden_rows") == 1
        server.start()
        with server.client() as client:
            assert len(client.get("/v1/sessions").json()["items"]) == 1
            until(lambda: n_rows(server.database, "hidden_rows") == 0)
            left = [n_rows(server.database, table) for table in TABLES]
            assert left == [N, N, 1, 0]
            path = "/v1/sessions/import?name=copy"
            answers = [client.post(path, content=content) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [201, 200]
            assert answers[0].json() == answers[1].json()
            assert answers[0].json()["n_rounds"] == N
        assert n_rows(server.database, "decisions") == 2 * N


@pytest.mark.parametrize("database_url", ["sqlite", *repeats("postgres")], indirect=True)
def test_a_deletion_killed_half_way(database_url: str, tmp_path: Path) -> None:
    server = ShortOwner(database_url, tmp_path / "gate")
    with server:
        session, other = create(server, log=True), create(server, log=True)
        path = f"/v1/sessions/{session}"
        killed(
            server,
            lambda client: client.delete(path),
            lambda: n_rows(server.database, "decisions") < 2 * N,
        )
        assert n_rows(server.database, "decisions") > N
        server.start()
        with server.client() as client:
            assert client.get(path).status_code == 404
            assert client.delete(path).status_code == 404
            until(lambda: n_rows(server.database, "hidden_rows") == 0)
            left = [n_rows(server.database, table) for table in TABLES]
            assert left == [N, N, 1, 0]
            assert client.get(f"/v1/sessions/{other}").json()["n_rounds"] == N


@pytest.mark.parametrize("database_url", ["sqlite", *repeats("postgres")], indirect=True)
def test_an_erasure_killed_half_way(database_url: str, tmp_path: Path) -> None:
    """The trajectory is gone at once, its rows after the next start; the others stay."""
    server = HeldServer(database_url, tmp_path / "gate")
    with server:
        session = create(server, log=True)
        path = f"/v1/sessions/{session}"
        with server.client() as client:
            client.post(f"{path}/history", json={**LOG, "trajectory": "ann"})
        killed(
            server,
            lambda client: client.delete(f"{path}/trajectories/ann"),
            lambda: n_rows(server.database, "decisions") < 2 * N,
        )
        assert n_rows(server.database, "decisions") > N
        server.start()
        with server.client() as client:
            [item] = client.get(f"{path}/trajectories").json()["items"]
            assert (item["trajectory"], item["n_rounds"]) == ("", N)
            assert client.get(f"{path}/rounds?trajectory=ann").json()["items"] == []
            answer = retried(lambda: client.delete(f"{path}/trajectories/ann"))
            assert answer.status_code == 204
            until(lambda: n_rows(server.database, "hidden_rows") == 0)
            assert [n_rows(server.database, table) for table in TABLES] == [N, N, 1, 0]
            decision = {"contexts": [[1.0, 0.5]], "trajectory": "ann"}
            answer = retried(lambda: client.post(f"{path}/decisions", json=decision))
            assert (answer.status_code, answer.json()["round"]) == (201, 1)
            told = client.get(path).json()
            assert (told["n_rounds"], told["n_erased_rounds"]) == (2 * N + 1, N)


def is_writing(url: str) -> bool:
    """Whether a server's writer has a transaction open."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select 1 from pg_stat_activity where application_name = 'lhb writer'"
            " and datname = current_database() and state <> 'idle'"
        ).fetchall()
    return bool(rows)


@pytest.mark.slow
def test_a_frozen_writer_that_wakes_touches_no_other_log(postgres_url: str, tmp_path: Path) -> None:
    """Its rows were erased, and now the session's hidden rows are another process's."""
    url, answers = postgres_url, {}

    def append(server: Server, import_id: str) -> None:
        with server.client() as client:
            body = {**LOG, "import_id": import_id}
            answers[import_id] = client.post(f"{path}/history", json=body)

    gate = tmp_path / "gate"
    gate.touch()
    with ShortOwner(url, gate) as frozen, Server(url) as other:
        path = f"/v1/sessions/{create(other, log=False)}"
        first = threading.Thread(target=append, args=(frozen, "first"))
        first.start()
        until(lambda: n_rows(url, "decisions") > 0)
        assert frozen.process is not None
        while True:  # it holds no lock while it is frozen
            frozen.process.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            if not is_writing(url):
                break
            frozen.process.send_signal(signal.SIGCONT)
            time.sleep(0.003)
        assert n_rows(url, "decisions") < N  # of which the other may have erased some already
        until(lambda: n_rows(url, "hidden_rows") == 0)
        assert n_rows(url, "decisions") == 0
        second = threading.Thread(target=append, args=(other, "second"))
        second.start()
        until(lambda: n_rows(url, "decisions") > 200)
        gate.unlink()
        frozen.process.send_signal(signal.SIGCONT)
        first.join()
        second.join()
        assert (answers["first"].status_code, answers["second"].status_code) == (503, 201)
        assert "paused" in answers["first"].json()["detail"]
        rounds = {"first_round": 1, "last_round": N, "rewards": N}
        assert answers["second"].json() == rounds
        assert n_rows(url, "decisions") == n_rows(url, "measurements") == N
