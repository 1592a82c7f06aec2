"""Workers on one PostgreSQL: fits that outlive them, and what they claim."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.faults.server_process import Server, WorkerProcess
from tests.faults.test_kill import wait_for_fits
from tests.free_port import free_port

ARMS = [[1.0, 0.25], [-0.5, 1.0]]


class HeldWorker(WorkerProcess):
    """Its fits wait for a gate."""

    forks_fits = False  # they look for the gate
    code = """
from service.operation.worker import run
from tests.faults.gated_jobs import held_fit
run(job=held_fit)
"""


def estimates(client: httpx.Client, session: str) -> list[Any]:
    return list(client.get(f"/v1/sessions/{session}/estimates?limit=1000").json()["items"])


def due_session(client: httpx.Client) -> str:
    """A session whose first fit is due, and whose second window is complete too."""
    body = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4}
    session = str(client.post("/v1/sessions", json=body).json()["id"])
    for round in range(1, 13):
        client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS})
        reward = {"round": round, "value": round * 0.5 + round % 3}
        client.post(f"/v1/sessions/{session}/rewards", json=reward)
    return session


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


@pytest.mark.parametrize(
    "end",
    [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)],
)
def test_a_dead_or_frozen_workers_fit_runs_again(
    postgres_url: str, tmp_path: Path, end: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    with (
        Server(postgres_url) as server,
        server.client() as client,
        HeldWorker(postgres_url, LHB_TEST_GATE=str(gate)) as dying,
    ):
        session = due_session(client)
        wait_for(gate.with_suffix(".pid"))
        assert dying.process is not None
        with WorkerProcess(postgres_url):
            time.sleep(1.5)  # more than a sweep: a living worker's claim is respected
            assert estimates(client, session) == []
            dying.process.send_signal(end)
            deadline = time.monotonic() + 120
            while len(estimates(client, session)) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            found = estimates(client, session)
            assert [item["status"] for item in found].count("failed") == 0
            assert not client.get(f"/v1/sessions/{session}").json()["fit_due"]
            gate.unlink()  # the dead one's process, or the frozen one's fit, ends: nothing changes
            dying.process.send_signal(signal.SIGCONT)
            time.sleep(1.0)
            assert estimates(client, session) == found


@pytest.mark.slow
def test_readiness_says_that_fits_are_late(postgres_url: str) -> None:
    """Its one worker is frozen while idle, until it goes on."""

    def fits() -> str:
        return str(client.get("/readyz").json()["fits"])

    with (
        Server(postgres_url, LHB_FIT_LATE_SECONDS="20") as server,
        server.client() as client,
        WorkerProcess(postgres_url) as worker,
    ):
        assert worker.process is not None
        worker.process.send_signal(signal.SIGSTOP)
        session = due_session(client)
        due_at = time.monotonic()
        assert fits() != "late"  # it is not yet
        while fits() != "late":
            assert time.monotonic() - due_at < 120
        assert client.get("/readyz").status_code == 200
        assert estimates(client, session) == []
        worker.process.send_signal(signal.SIGCONT)
        assert not wait_for_fits(client, session)["fit_due"]
        assert fits() == "ok"


class RefusedWorker(WorkerProcess):
    """The system refuses to start its processes while the gate is there."""

    forks_fits = False
    code = (
        "from service.operation.worker import run;"
        " from tests.faults.gated_jobs import refuse_processes;"
        " refuse_processes(); run()"
    )


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_a_worker_without_processes_gives_its_fits_back(postgres_url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()

    def ready(**wanted: Any) -> bool:
        return bool(client.get("/readyz").json().items() >= wanted.items())

    with (
        Server(postgres_url, LHB_FIT_LATE_SECONDS="1") as server,
        server.client() as client,
        RefusedWorker(postgres_url, LHB_TEST_GATE=str(gate), LHB_FIT_RETRY_SECONDS="0.1"),
    ):
        until(lambda: ready(workers=1))
        session = due_session(client)
        until(lambda: ready(workers=0, fits="late"))
        with WorkerProcess(postgres_url):
            assert not wait_for_fits(client, session)["fit_due"]
            until(lambda: ready(workers=1, fits="ok"))
        assert "failed" not in [item["status"] for item in estimates(client, session)]
        second = due_session(client)
        assert client.get(f"/v1/sessions/{second}").json()["fit_due"]
        gate.unlink()
        assert not wait_for_fits(client, second)["fit_due"]
        assert ready(workers=1, fits="ok")
        assert "failed" not in [item["status"] for item in estimates(client, second)]


class ParentWorker(WorkerProcess):
    """The processes of its fits are its own children."""

    forks_fits = False


@pytest.mark.slow
def test_a_worker_whose_processes_are_frozen_gives_its_fits_back(postgres_url: str) -> None:
    """Its idle processes are stopped; they are replaced meanwhile."""
    settings = {"LHB_FIT_START_SECONDS": "25", "LHB_FIT_RETRY_SECONDS": "60"}
    with (
        Server(postgres_url) as server,
        server.client() as client,
        ParentWorker(postgres_url, **settings) as worker,
    ):
        assert not wait_for_fits(client, due_session(client))["fit_due"]
        assert worker.process is not None
        children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children")
        for pid in map(int, children.read_text().split()):
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGSTOP)
        session = due_session(client)
        until(lambda: bool(client.get("/readyz").json()["workers"] == 0))
        with WorkerProcess(postgres_url):
            assert not wait_for_fits(client, session)["fit_due"]
        assert "failed" not in [item["status"] for item in estimates(client, session)]


class FailingWorker(WorkerProcess):
    """Its fits cannot read their data."""

    code = (
        "from service.operation.worker import run; from tests.faults.gated_jobs import failing_fit;"
        " run(job=failing_fit)"
    )


def test_a_workers_metrics_tell_of_fits_that_fail(postgres_url: str) -> None:
    port = free_port()
    settings = {"LHB_METRICS_PORT": str(port), "LHB_FIT_ATTEMPTS": "2"}
    with (
        Server(postgres_url) as server,
        server.client() as client,
        FailingWorker(postgres_url, LHB_FIT_RETRY_SECONDS="0.1", **settings),
    ):
        session = due_session(client)
        deadline = time.monotonic() + 120
        while len(estimates(client, session)) < 4:  # two fits, two attempts each
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert {item["reason"] for item in estimates(client, session)} == {"OSError: on fire"}
        answer = client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS})
        assert answer.status_code == 201  # decisions go on
        told, counted = "", 'lhb_fit_seconds_count{status="failed"} 4.0'
        while counted not in told:  # a moment after the commit
            assert time.monotonic() < deadline, told
            told = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        assert "lhb_fits_due" not in told  # the servers tell that


def test_a_stopped_worker_finishes_its_fit_first(postgres_url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    with (
        Server(postgres_url) as server,
        server.client() as client,
        HeldWorker(postgres_url, LHB_TEST_GATE=str(gate)) as worker,
    ):
        session = due_session(client)
        wait_for(gate.with_suffix(".pid"))
        threading.Timer(0.5, gate.unlink).start()
        assert worker.stop(signal.SIGTERM) == 0
        assert estimates(client, session)


def test_what_time_alone_makes_due_is_found_by_a_worker(postgres_url: str) -> None:
    with Server(postgres_url) as server, server.client() as client, WorkerProcess(postgres_url):
        body = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4, "reward_wait_seconds": 0.7}
        session = client.post("/v1/sessions", json=body).json()["id"]
        for round in range(1, 6):
            client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS})
            if round != 3:
                reward = {"round": round, "value": round * 0.5}
                client.post(f"/v1/sessions/{session}/rewards", json=reward)
        deadline = time.monotonic() + 120
        while not estimates(client, session):
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.slow
def test_a_claim_locks_no_more_than_it_takes(postgres_url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    held = HeldWorker(postgres_url, LHB_TEST_GATE=str(gate), LHB_FIT_WORKERS="2")
    with Server(postgres_url) as server, server.client() as client, held:
        sessions = [due_session(client) for _ in range(5)]
        wait_for(gate.with_suffix(".pid"))
        time.sleep(1.5)
        with psycopg.connect(postgres_url) as connection:
            row = connection.execute(
                "select count(*) from pg_locks where locktype = 'advisory' and granted"
                " and database = (select oid from pg_database where datname = current_database())"
            ).fetchone()
        assert row == (2,)
        assert client.get("/readyz").json()["fits_due"] == len(sessions)
        gate.unlink()
        for session in sessions:
            assert not wait_for_fits(client, session)["fit_due"]


def test_a_worker_refuses_sqlite(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="postgresql://"):
        WorkerProcess(tmp_path / "lhb.db").start()
    assert not os.path.exists(tmp_path / "lhb.db")
