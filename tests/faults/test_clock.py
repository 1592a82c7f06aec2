"""A real server whose clock is set back by an hour while it serves."""

import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.examples import repeats
from tests.faults.server_process import Server, WorkerProcess

ARMS = [[1.0, 0.25], [-0.5, 1.0]]
HOUR = 3600.0


# what the interpreter of every process runs first: all that is ours asks time.time. (libfaketime,
# which would fake it below Python, breaks sleeping until a time of the steady clock.)
SHIM = """
import os, time

def shown(real=time.time, file=os.environ["TEST_CLOCK_FILE"]):
    with open(file) as offset:
        return real() + float(offset.read())

time.time = shown
"""


class Setting:
    """The clock of every process that is started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "offset"
        self.set(0.0)
        (folder / "sitecustomize.py").write_text(SHIM)
        self.environment = {"PYTHONPATH": str(folder), "TEST_CLOCK_FILE": str(self._file)}

    def set(self, seconds: float) -> None:
        """By so much the clock is wrong from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        os.replace(new, self._file)


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def create(client: httpx.Client, **more: Any) -> Any:
    body = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4, "options": {"L": 1}, **more}
    answer = client.post("/v1/sessions", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def play(client: httpx.Client, session: str, n: int, *, missing: bool = False) -> None:
    for _ in range(n):
        path = f"/v1/sessions/{session}"
        answer = client.post(f"{path}/decisions", json={"contexts": ARMS})
        assert answer.status_code == 201, answer.text
        if not missing:
            body = {"round": answer.json()["round"], "value": 1.5}
            assert client.post(f"{path}/rewards", json=body).status_code == 200


def epochs(client: httpx.Client, session: str) -> list[str]:
    items = client.get(f"/v1/sessions/{session}/epochs").json()["items"]
    return [item["status"] for item in items]


def wait_until_fitted(client: httpx.Client, session: str, n: int, limit: float) -> float:
    """Until n fits are recorded; how long that took."""
    done, began = {"ok", "zero", "insufficient_data"}, time.monotonic()
    while sum(status in done for status in epochs(client, session)) < n:
        assert time.monotonic() - began < limit, epochs(client, session)
        time.sleep(0.05)
    return time.monotonic() - began


@pytest.mark.parametrize("database_url", ["sqlite", *repeats("postgres")], indirect=True)
def test_a_clock_set_back_by_an_hour(tmp_path: Path, database_url: str) -> None:
    clock = Setting(tmp_path)
    server = Server(database_url, **clock.environment)
    worker = WorkerProcess(database_url, **clock.environment)
    with server, server.client() as client:
        if database_url.startswith("postgres"):
            worker.start()
        try:
            play_through(clock, client)
        finally:
            if worker.process is not None:
                worker.kill()


def test_a_key_expires_though_the_clock_was_set_back(tmp_path: Path) -> None:
    """It is made by a clock that never goes back, and is checked by the same."""
    clock = Setting(tmp_path)
    clock.set(HOUR)
    with Server(tmp_path / "lhb.db", **clock.environment) as server, server.client() as client:
        admin = client.post("/v1/keys", json={"role": "admin"}).json()["key"]
        clock.set(0.0)
        ours = {"authorization": f"Bearer {admin}"}
        made = client.post(
            "/v1/keys", json={"role": "reader", "expires_in_seconds": 1.0}, headers=ours
        )
        assert seconds(made.json()["expires_at"]) - time.time() > HOUR / 2  # by the later clock
        its = {"authorization": f"Bearer {made.json()['key']}"}
        began = time.monotonic()
        while client.get("/v1/sessions", headers=its).status_code != 401:
            assert time.monotonic() - began < 120
            time.sleep(0.1)
        assert client.get("/v1/sessions", headers=ours).status_code == 200


def play_through(clock: Setting, client: httpx.Client) -> None:
    clock.set(HOUR)
    waits = create(client, reward_wait_seconds=2.0)
    blocking = create(client, refit="blocking")["id"]
    ahead = seconds(waits["created_at"]) - time.time()
    assert abs(ahead - HOUR) < 60  # the shim works: the server believes it
    session = waits["id"]
    play(client, session, 3)
    play(client, blocking, 3)
    play(client, session, 2, missing=True)  # round 4 is without reward, round 5 begins the wait

    clock.set(0.0)
    assert "waiting_for_rewards" in epochs(client, session)
    play(client, session, 2)
    play(client, blocking, 8)  # over a boundary: waits for its fit, not for the clock
    assert 0.0 < wait_until_fitted(client, session, 1, 120) < 120
    play(client, session, 4)
    wait_until_fitted(client, blocking, 1, 120)

    log = client.get(f"/v1/sessions/{session}/rounds").json()["items"]
    times = [seconds(item["at"]) for item in log]
    assert len(times) == 11
    assert times == sorted(times)
    assert times[-1] - time.time() > HOUR / 2  # not set back with the clock
