"""Clients that misbehave, and a server that is asked to stop."""

import asyncio
import json
import select
import signal
import socket
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.faults.load_generator import check_all, make_players, play_all
from tests.faults.server_process import OURS, Server

ARMS = [[0.5, -0.25], [1.0, 2.0]]


def create(client: httpx.Client) -> str:
    body = {"algorithm": "uniform", "dim": 2, "horizon": 4}
    return str(client.post("/v1/sessions", json=body).json()["id"])


def connect(server: Server) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def request_of(session: str, body: Any, length: int | None = None) -> bytes:
    content = json.dumps(body).encode()
    n = len(content) if length is None else length
    head = f"POST /v1/sessions/{session}/decisions HTTP/1.1\r\n{OURS}content-length: {n}\r\n\r\n"
    return head.encode() + content


def test_who_hangs_up_in_mid_request_leaves_nothing_or_all(tmp_path: Path) -> None:
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        session = create(client)
        body = {"contexts": ARMS, "event_id": "e1"}
        for cut in (10, 60, 120):
            with connect(server) as half:
                half.sendall(request_of(session, body)[:cut])
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 0
        with connect(server) as whole:
            whole.sendall(request_of(session, body))
        deadline = time.monotonic() + 120
        while client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        answer = client.post(f"/v1/sessions/{session}/decisions", json=body)
        assert (answer.status_code, answer.json()["round"]) == (200, 1)


def answer_to(server: Server, sent: bytes) -> bytes:
    """All that a connection answers until the server closes it."""
    with connect(server) as one:
        one.sendall(sent)
        return b"".join(iter(lambda: one.recv(4096), b""))


def test_an_offer_of_another_protocol_is_answered_in_this_one(tmp_path: Path) -> None:
    """As curl --http2 offers HTTP/2 with each request, and Java's client with its first."""
    offer = (
        "connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"
    )
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        session = create(client)
        read = answer_to(server, f"GET /healthz HTTP/1.1\r\n{OURS}{offer}\r\n".encode())
        assert read.startswith(b"HTTP/1.1 200 ")
        asked = request_of(session, {"contexts": ARMS}).replace(
            b"\r\n\r\n", b"\r\n%b\r\n" % offer.encode(), 1
        )
        assert answer_to(server, asked).startswith(b"HTTP/1.1 201 ")
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 1


@pytest.mark.parametrize("end", [b"zz\r\n", b"0\r\nx-sum: 1\r\n\r\n"], ids=["chunk", "trailer"])
def test_a_body_that_is_not_http_is_refused_in_words(tmp_path: Path, end: bytes) -> None:
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        session, body = create(client), json.dumps({"contexts": ARMS}).encode()
        head = f"POST /v1/sessions/{session}/decisions HTTP/1.1\r\n{OURS}"
        head += f"transfer-encoding: chunked\r\n\r\n{len(body):x}\r\n"
        answer = answer_to(server, head.encode() + body + b"\r\n" + end)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"malformed_http" in answer
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 0


def resident_mb(server: Server) -> float:
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_a_body_of_100_mb_is_refused_and_not_kept(tmp_path: Path) -> None:
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        session = create(client)
        before = resident_mb(server)
        with connect(server) as announced:
            announced.sendall(request_of(session, {}, length=100 * 2**20))
            assert b"413" in announced.recv(4096)
        with connect(server) as chunked:
            head = f"POST /v1/sessions/{session}/decisions HTTP/1.1\r\n{OURS}"
            chunked.sendall(head.encode() + b"transfer-encoding: chunked\r\n\r\n")
            piece = b"100000\r\n" + b" " * 2**20 + b"\r\n"
            n_sent = 0
            try:
                while n_sent < 100 * 2**20:
                    chunked.sendall(piece)
                    n_sent += len(piece)
                    if select.select([chunked], [], [], 0)[0]:
                        break
                assert b" 413 " in chunked.recv(4096)
            except (BrokenPipeError, ConnectionResetError):
                pass  # hung up on, and the answer with it
            assert n_sent < 60 * 2**20  # cut off, not read to its end
        assert resident_mb(server) - before < 80
        assert client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS}).is_success


def test_slow_clients_hold_nobody_up_and_are_let_go(tmp_path: Path) -> None:
    """The first decision comes before the last of them has waited long enough to be let go."""
    server = Server(tmp_path / "lhb.db", LHB_BODY_TIMEOUT_SECONDS="15")
    with server, server.client() as client:
        session = create(client)
        begun = request_of(session, {"contexts": ARMS}, length=1000)
        slow = [connect(server) for _ in range(100)]
        for one in slow:
            one.sendall(begun)
        for n in range(20):
            answer = client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS})
            assert answer.is_success
            if n == 0:
                slow[-1].setblocking(False)
                with pytest.raises(BlockingIOError):
                    slow[-1].recv(4096)
        for one in slow:
            one.settimeout(120)
            assert b" 408 " in one.recv(4096)
            one.close()
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 20


@pytest.mark.slow
def test_who_does_not_read_an_export_holds_no_view_of_the_database(tmp_path: Path) -> None:
    file = tmp_path / "lhb.db"
    with (
        Server(file, LHB_BODY_TIMEOUT_SECONDS="15") as server,
        server.client() as client,
        closing(sqlite3.connect(file, timeout=0)) as beside,
    ):
        body = {"algorithm": "uniform", "dim": 20, "horizon": 4}
        session = client.post("/v1/sessions", json=body).json()["id"]
        log = {"contexts": np.random.default_rng(0).standard_normal((10_000, 20)).tolist()}
        for _ in range(2):  # more than the sockets' buffers hold
            assert client.post(f"/v1/sessions/{session}/history", json=log).status_code == 201

        def is_held() -> bool:
            return bool(beside.execute("pragma wal_checkpoint(restart)").fetchone()[0])

        with connect(server) as silent:
            silent.sendall(
                f"GET /v1/sessions/{session}/events HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
            )
            assert silent.recv(12) == b"HTTP/1.1 200"
            skipped = client.post(f"/v1/sessions/{session}/decisions", json={"skip": True})
            assert skipped.status_code == 201
            assert is_held()  # what has just been written cannot leave the log
            deadline = time.monotonic() + 120
            while is_held():
                assert time.monotonic() < deadline
                time.sleep(0.1)
            received = b"".join(iter(lambda: silent.recv(2**20), b""))
        assert b'"record":"end"' not in received
        whole = client.get(f"/v1/sessions/{session}/events").content
        assert b'"record":"end"' in whole


def test_sigterm_drains_and_loses_nothing(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    with Server(database) as server:
        players = make_players(server, 77)
        asyncio.run(play_all(server, players, 300))
        codes: list[int] = []
        timer = threading.Timer(0.3, lambda: codes.append(server.stop(signal.SIGTERM)))
        timer.start()
        asyncio.run(play_all(server, players, 10**9))
        timer.join()
        assert codes in ([0], [-signal.SIGTERM])
    with Server(database) as again, again.client() as client:
        check_all(client, players)


def test_a_second_server_on_the_same_file_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "lhb.db"
    with Server(database) as server:
        assert server.process is not None
        with pytest.raises(
            AssertionError, match=f"served by another process.*{server.process.pid}"
        ):
            Server(database).start()
        with server.client() as client:
            assert client.get("/healthz").status_code == 200
