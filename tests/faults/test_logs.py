"""What a server and a worker log: enough to explain a night, and nothing that a client sent."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import structlog

from service.base.logs import configure_logs, log
from service.commands.keys import new_key, save_key
from service.storage.maintenance import migrate
from service.storage.schema import SCHEMA
from service.transfer.without_server import run
from tests.faults.server_process import Server, WorkerProcess

CONTEXT, REWARD, PASSWORD = 654321.125, 123454.5, "hunter2"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class LateFits(Server):
    """Its own fits begin once a decision did not wait for one any longer: none is done before."""

    code = """
from service.fits.fits_in_server import FitPool
from service.operation.server import run
begin, wait = FitPool._run_waiting, FitPool.wait
async def waited(self, *given):
    is_done = await wait(self, *given)
    FitPool._run_waiting = begin
    self._run_waiting()
    return is_done
FitPool._run_waiting, FitPool.wait = lambda self: None, waited
run(port=0)
"""


def lines(output: str, event: str) -> list[dict[str, Any]]:
    parsed = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in parsed if line["event"] == event]


def test_a_log_explains_and_gives_nothing_away(tmp_path: Path, database_url: str) -> None:
    migrate(database_url)
    key, row = new_key("acme", "a test", time.time())
    run(database_url, save_key(row))
    url = database_url.replace("lhb@", f"lhb:{PASSWORD}@")  # the tests' PostgreSQL trusts anybody
    told = {"LHB_LOG_LEVEL": "debug", "LHB_LOG_REQUESTS": "true", "LHB_FIT_WAIT_SECONDS": "0.001"}
    with LateFits(url, **told) as server, server.client() as client:
        client.headers["authorization"] = f"Bearer {key}"
        body = {"algorithm": "ad_lasso", "dim": 2, "horizon": 4, "refit": "blocking"}
        session = client.post("/v1/sessions", json={**body, "name": "shop"}).json()["id"]
        path, arms = f"/v1/sessions/{session}", [[CONTEXT, 0.5], [0.25, -CONTEXT]]
        for n in range(1, 5):
            given = {"contexts": arms, "rewards": [{"round": n - 1, "value": REWARD}][: n - 1]}
            assert client.post(f"{path}/decisions", json=given).status_code == 201
        kept = {"x-request-id": "mine-1", "traceparent": TRACE}
        last = {"round": 4, "value": REWARD}
        assert (
            client.post(f"{path}/rewards", json=last, headers=kept).headers["x-request-id"]
            == "mine-1"
        )
        waits = client.post(f"{path}/decisions", json={"contexts": arms}, headers=kept)
        assert (waits.status_code, waits.json()["code"]) == (503, "fit_pending")
        item = {"session_id": session, "decision": {"contexts": arms}}
        [refused] = client.post("/v1/batch", json={"items": [item]}).json()["items"]
        assert refused["status"] in (201, 503)  # the fit may be done meanwhile
        for wrong in (
            {"contexts": [[CONTEXT]]},
            {"contexts": f"{CONTEXT}"},
            {"contexts": [CONTEXT]},
        ):
            assert client.post(f"{path}/decisions", json=wrong).status_code == 422
        assert client.post(f"{path}/rewards", json=last | {"value": -REWARD}).status_code == 409
        stranger = {"authorization": f"Bearer {key}x", "x-request-id": "a b"}
        answer = client.get(path, headers=stranger)
        assert answer.status_code == 401
        assert answer.headers["x-request-id"] != "a b"
        fitting = Server(url) if url.startswith("sqlite") else WorkerProcess(url, **told).start()
        deadline = time.monotonic() + 120
        while client.get(path).json()["fit_due"] and time.monotonic() < deadline:
            time.sleep(0.5)  # each request writes a line, and nobody empties the pipe
        server.stop()
    output = server.output
    if fitting.process is not None:
        assert fitting.stop() == 0
        [started] = lines(fitting.output, "start")
        assert started["program"] == "worker"
        output += fitting.output

    start = lines(output, "start")[0]
    assert (start["program"], start["schema"]) == ("server", SCHEMA.head)
    assert start["version"]
    assert start["database"].rpartition("/")[2] == url.rpartition("/")[2]
    chosen = {"log_level": "debug", "log_requests": True, "fit_wait_seconds": 0.001}
    assert chosen.items() <= start["settings"].items()
    assert "allowed_hosts" not in start["settings"]  # nobody set it
    assert lines(server.output, "stop")[0]["program"] == "server"
    [fit] = lines(output, "fit")
    assert (fit["session"], fit["name"], fit["due"]) == (session, "shop", 4)
    assert {"status", "seconds", "reason", "rows", "alarm"} <= fit.keys()
    failed = lines(output, "failed")[0]
    assert (failed["code"], failed["path"]) == ("fit_pending", f"{path}/decisions")
    assert (failed["request_id"], failed["traceparent"]) == ("mine-1", TRACE)
    asked = lines(output, "request")
    [reward] = [a for a in asked if a["request_id"] == "mine-1" and a["status"] == 200]
    assert (reward["key"], reward["tenant"], reward["client"]) == (row.id, "acme", "127.0.0.1")
    assert (reward["method"], reward["path"]) == ("POST", f"{path}/rewards")
    assert 0 < reward["ms"] < 60_000
    for secret in (key, PASSWORD, str(CONTEXT), str(REWARD), row.digest.hex()):
        assert secret not in output


def test_of_an_exception_only_its_class_and_place_are_logged(
    capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    configure_logs("error")
    request.addfinalizer(structlog.reset_defaults)  # what is captured is closed after the test
    try:
        raise ValueError(f"row {REWARD}") from KeyError(CONTEXT)
    except ValueError:
        log.exception("defect", path="/v1/batch")
    said = capsys.readouterr().err
    assert str(REWARD) not in said
    assert str(CONTEXT) not in said
    first, second = json.loads(said)["raised"]
    assert (first["error"], second["error"]) == ("ValueError", "KeyError")
    assert "test_logs.py" in first["at"][-1]


def test_what_a_library_logs_is_a_line_of_the_log_without_its_parameters() -> None:
    code = "import logging; from service.base.logs import configure_logs; configure_logs('info')"
    code += "; logging.getLogger('uvicorn.error').warning('no request: %s', 'secret')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    [line] = [json.loads(line) for line in run.stderr.splitlines()]
    assert (line["event"], line["level"]) == ("library", "warning")
    assert (line["of"], line["said"]) == ("uvicorn.error", "no request: %s")


def test_every_line_of_a_server_is_json(tmp_path: Path) -> None:
    """What is no HTTP, an upgrade, a header that is no text, and numbers that overflow."""
    trace = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
    odd = b"GET /v1/odd HTTP/1.1\r\nhost: 127.0.0.1\r\ntraceparent: " + trace + b"-\xff\r\n\r\n"
    upgrade = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    with Server(tmp_path / "lhb.db", LHB_LOG_LEVEL="info", LHB_LOG_REQUESTS="true") as server:
        url = urlsplit(server.url)
        for sent in (b"\0\0\r\n\r\n", upgrade, odd):
            with socket.create_connection((url.hostname, url.port)) as connection:
                connection.sendall(sent)
                connection.recv(1000)
        with server.client() as client:
            made = client.post("/v1/sessions", json={"dim": 2, "horizon": 2}).json()
            path = f"/v1/sessions/{made['id']}"
            far = {"contexts": [[1e308, 1e308]]}
            assert client.post(f"{path}/decisions", json=far).json()["code"] == "out_of_range"
            far["contexts"] *= 60_000  # for a process that parses
            assert client.post(f"{path}/decisions", json=far).json()["code"] == "out_of_range"
        server.stop()
    for line in server.output.splitlines():
        assert line.startswith("{") or line.startswith(Server.ready), line
    asked = lines(server.output, "request")
    assert [line["status"] for line in asked if line["path"] == "/v1/odd"] == [404]
