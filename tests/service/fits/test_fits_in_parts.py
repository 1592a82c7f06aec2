"""A fit that keeps its slots in parts: what is kept is no fit, and no crash counts a slot twice."""

import os
import signal
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest

from service.session.records import SessionKey, SlotSumsRow
from service.storage.database_url import open_reader
from tests.faults.server_process import Server
from tests.faults.test_large_writes import until
from tests.service.fits.fit_gate import ARMS
from tests.service.fits.fit_jobs import gate_of

N, START = 40, datetime(2026, 1, 1, tzinfo=UTC)
CLOCK = {"slot_seconds": 3600, "start": START.isoformat(), "late_slots": 1}


class ServerInParts(Server):
    """Its fits keep a stretch at a time, and wait for a gate after the first."""

    forks_fits = False  # they look for the gate
    code = """
import service.fits.processes
from service.operation.server import run
from tests.service.fits.fit_jobs import fit_in_parts
service.fits.processes.run_fit = fit_in_parts
run(port=0)
"""


def begin_fit(client: httpx.Client) -> str:
    """A session with a decision in each slot, and a fit: no other is due for a day."""
    body = {"algorithm": "anytime", "dim": 2, "horizon": 4, "seed": 1, "clock": CLOCK}
    body |= {"reward_wait_seconds": 86400}
    session = str(client.post("/v1/sessions", json=body).json()["id"])
    path = f"/v1/sessions/{session}"
    for slot in range(N):
        at = START + timedelta(hours=slot)
        given = {"contexts": ARMS, "at": at.isoformat()}
        taken = client.post(f"{path}/decisions", json=given)
        assert taken.status_code == 201, taken.text
        if slot % 5 == 4:
            told = {"from": at.isoformat(), "to": (at + timedelta(hours=1)).isoformat()}
            value = ARMS[taken.json()["arm"]][0]
            told_so = client.post(f"{path}/rewards", json={**told, "value": value})
            assert told_so.status_code == 200, told_so.text
    asked = client.post(f"{path}/fits")
    assert (asked.status_code, asked.json()["asked"]) == (202, "begun")
    return session


def kept(url: str, key: SessionKey) -> list[SlotSumsRow]:
    with open_reader(url) as reader:
        return sorted(reader.slot_sums_in(key, [("", 1, N)], N))


@pytest.mark.usefixtures("fully_drawn")  # servers draw so
@pytest.mark.slow
@pytest.mark.parametrize("dies", ["nobody", "process", "server"])
def test_a_fit_goes_on_from_its_kept_parts(tmp_path: Path, dies: str) -> None:
    """The server replays its decisions and fits at the end."""
    url = f"sqlite:///{tmp_path / 'lhb.db'}"
    gate = gate_of(url)
    gate.touch()
    with ServerInParts(url) as server, ExitStack() as running:
        opened = running.callback(gate.unlink)  # a held process would keep its output open
        with server.client() as client:
            session = begin_fit(client)
            path, pid = f"/v1/sessions/{session}", gate.with_suffix(".pid")
            until(pid.exists)
            assert client.get(f"{path}/estimates").json()["items"] == []
        first = kept(url, ("", session))
        assert [row.last_slot for row in first] == [8]
        if dies == "server":
            assert server.process is not None
            server.process.send_signal(signal.SIGKILL)
        if dies != "nobody":
            os.kill(int(pid.read_text()), signal.SIGKILL)
        running.pop_all()
        opened()
        if dies == "server":
            server.kill()
            server.start()
        with server.client() as client:
            until(lambda: not client.get(path).json()["fit_due"])
            fits = client.get(f"{path}/estimates").json()["items"]
            [fit] = [one for one in fits if one["status"] != "skipped"]
    assert (fit["status"], fit["n_rows"], fit["attempts"]) == ("ok", 8, 0)
    rows = kept(url, ("", session))
    assert rows[:1] == first
    assert [row.last_slot for row in rows] == [8, 16, 24, 32]
    sums = np.concatenate([np.frombuffer(row.sums).reshape(-1, 6) for row in rows])
    assert sums[:, 0].tolist() == list(range(1, 33))
    assert {tuple(one) for one in sums[:, 1:3].tolist()} <= {tuple(arm) for arm in ARMS}
