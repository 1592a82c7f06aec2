"""Sessions whose fits hold every process, beside a session whose decisions wait for theirs."""

import contextlib
import time
from pathlib import Path

import httpx
import pytest

from service.storage.database_url import is_sqlite
from tests.faults.server_process import Server, WorkerProcess

ARMS = [[1.0, 0.25], [-0.5, 1.0]]
N_ROUNDS = 30


class HeldServer(Server):
    """Long fits wait for a gate."""

    leaves_sessions = False  # fits are still due
    forks_fits = False  # they look for the gate
    code = """
import service.fits.processes
from service.operation.server import run
from tests.faults.gated_jobs import held_if_wide
service.fits.processes.run_fit = held_if_wide
if __name__ == "__main__":
    run(port=0)
"""


class HeldWorker(WorkerProcess):
    """Long fits wait for a gate."""

    forks_fits = False
    code = """
from service.operation.worker import run
from tests.faults.gated_jobs import held_if_wide
if __name__ == "__main__":
    run(job=held_if_wide)
"""


def wide_session(client: httpx.Client) -> None:
    """A session with a fit due that is expected to take long."""
    body = {"algorithm": "anytime", "dim": 600, "horizon": 4}
    session = client.post("/v1/sessions", json=body).json()["id"]
    log = {"contexts": [[0.5] * 600] * 600, "rewards": [0.5] * 600}
    assert client.post(f"/v1/sessions/{session}/history", json=log).status_code == 201


def played(client: httpx.Client, n: int) -> None:
    """n rounds of a blocking session, none of which is sent away, and its fits."""
    body = {"algorithm": "anytime", "dim": 2, "horizon": 4, "refit": "blocking"}
    path = f"/v1/sessions/{client.post('/v1/sessions', json=body).json()['id']}"
    for round in range(1, n + 1):
        answer = client.post(f"{path}/decisions", json={"contexts": ARMS})
        assert answer.status_code == 201, answer.text
        reward = {"round": round, "value": ARMS[answer.json()["arm"]][0]}
        assert client.post(f"{path}/rewards", json=reward).status_code < 300
    items = client.get(f"{path}/estimates?limit=100").json()["items"]
    assert len(items) >= 4


@pytest.mark.slow
def test_long_fits_keep_no_blocking_session_waiting(database_url: str, tmp_path: Path) -> None:
    """Three sessions' fits never end, and there is one process."""
    gate = tmp_path / "gate"
    gate.touch()
    held = {"LHB_TEST_GATE": str(gate), "LHB_FIT_WORKERS": "1"}
    with contextlib.ExitStack() as running:
        server = running.enter_context(HeldServer(database_url, **held))
        if not is_sqlite(database_url):
            running.enter_context(HeldWorker(database_url, **held))
        running.callback(gate.unlink)  # a held process would keep its output open
        client = running.enter_context(server.client())
        crowd(client, gate)
        played(client, N_ROUNDS)


def crowd(client: httpx.Client, gate: Path) -> None:
    """Three sessions with long fits due, the first of which runs."""
    for _ in range(3):
        wide_session(client)
    deadline = time.monotonic() + 120
    while not gate.with_suffix(".pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
