"""More is asked than the writer can commit: what comes is refused unread, what waits is served."""

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.faults.server_process import Server
from tests.faults.test_clients import ARMS, connect, create, request_of
from tests.faults.test_connections import everything

N_ACCEPTED = 16  # eight batches: they wait for the lock for forty seconds
LIMITS = {"LHB_MAX_BATCH": "2", "LHB_MAX_WAIT_SECONDS": "0.2"}


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """The writer waits meanwhile: each batch for up to five seconds."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute("begin immediate")
        yield
    finally:
        connection.close()


def metric(client: httpx.Client, name: str) -> float:
    found = re.search(rf"(?m)^{name} (\S+)$", client.get("/metrics").text)
    assert found is not None
    return float(found[1])


def wait_until_late(client: httpx.Client) -> None:
    while metric(client, "lhb_wait_seconds") < 0.2:
        time.sleep(0.02)


def test_what_would_wait_too_long_is_refused_unread(tmp_path: Path) -> None:
    with (
        Server(tmp_path / "lhb.db", **LIMITS) as server,
        server.client() as client,
        ExitStack() as stack,
    ):
        session = create(client)
        path, body = f"/v1/sessions/{session}/decisions", {"contexts": ARMS}
        whole = request_of(session, body)
        with locked(tmp_path / "lhb.db"):
            waiting = [stack.enter_context(connect(server)) for _ in range(N_ACCEPTED)]
            for one in waiting:
                one.sendall(whole)
            wait_until_late(client)
            refused = [
                client.post(path, json=body),
                client.post(path, json=body),  # on the same connection
                client.post(path, content=b"no JSON"),  # nobody looks at it
                client.post(path, json=body, headers={"connection": "close"}),  # is parsed
                client.post("/v1/batch", json={"items": []}),
                client.post(f"/v1/sessions/{session}/rank", json=body),
            ]
            with connect(server) as slow:  # its body is to come, and is not waited for
                slow.sendall(whole[: whole.index(b"\r\n\r\n") + 4])
                head, _, text = everything(slow).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert json.loads(text)["code"] == "overloaded"
            for answer in refused:
                assert answer.status_code == 503
                assert answer.json()["code"] == "overloaded"
                assert answer.headers["retry-after"] == "1"
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.headers["cache-control"] == "no-store"
            for served in ("/healthz", "/metrics", "/v1/sessions", f"/v1/sessions/{session}"):
                assert client.get(served).status_code == 200
        answers = []
        for one in waiting:
            one.settimeout(120)
            answers.append(one.recv(65_536))
        statuses = [answer.split(b" ", 2)[1] for answer in answers]
        assert set(statuses) <= {b"201", b"503"}  # 503: the file was locked for five seconds
        n_late = sum(b'"overloaded"' in answer for answer in answers)  # on a slow machine
        assert metric(client, "lhb_overload_refusals_total") == len(refused) + 1 + n_late
        while (answer := client.post(path, json=body)).status_code == 503:
            assert answer.json()["code"] == "overloaded"
            time.sleep(0.02)
        assert answer.status_code == 201  # on a connection that was refused before
        n_rounds = client.get(f"/v1/sessions/{session}").json()["n_rounds"]
        assert n_rounds == statuses.count(b"201") + 1
        assert statuses.count(b"201") > 0


def test_a_queue_below_a_batch_is_no_overload(tmp_path: Path) -> None:
    """However long a commit takes: who waits for it is served, and so is who comes now."""
    with (
        Server(tmp_path / "lhb.db", LHB_MAX_WAIT_SECONDS="0.2") as server,
        server.client() as client,
        ExitStack() as stack,
    ):
        session = create(client)
        with locked(tmp_path / "lhb.db"):
            waiting = [stack.enter_context(connect(server)) for _ in range(3)]
            for one in waiting:
                one.sendall(request_of(session, {"contexts": ARMS}))
                time.sleep(0.15)
        for one in waiting:
            one.settimeout(60)
            assert b"overloaded" not in one.recv(65_536)
