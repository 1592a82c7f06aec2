"""Heads that never end, heads without end, and more connections than there may be."""

import json
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.server_process import OURS, Server
from tests.faults.test_clients import ARMS, connect, create, request_of
from tests.faults.test_large_writes import until

LIMITS = {
    "LHB_HEADER_TIMEOUT_SECONDS": "1",
    "LHB_MAX_HEADER_BYTES": "4096",
    "LHB_MAX_CONNECTIONS": "50",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("connections") / "lhb.db", **LIMITS) as started:
        yield started


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It waits for a head for longer than a busy machine takes."""
    limits = {**LIMITS, "LHB_HEADER_TIMEOUT_SECONDS": "120"}
    with Server(tmp_path_factory.mktemp("patient") / "lhb.db", **limits) as started:
        yield started


def session_of(server: Server) -> str:
    with server.client() as client:
        return create(client)


def clients_of(server: Server) -> set[int]:
    """The ports of those whose connection its process holds."""
    found, port = set(), f":{int(server.url.rpartition(':')[2]):04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, here, there, _, _, _, _, _, _, inode, *_ = line.split()
        if here.endswith(port) and inode != "0":  # 0: the kernel's alone, which sends what is left
            found.add(int(there.rpartition(":")[2], 16))
    return found - {0}  # where it listens


def everything(connection: socket.socket) -> bytes:
    """What comes until the server hangs up."""
    connection.settimeout(120)
    answer = b""
    try:
        while more := connection.recv(65_536):
            answer += more
    except ConnectionResetError:
        pass
    return answer


def code_of(answer: bytes, status: int) -> str:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    return str(json.loads(body)["code"])


def test_heads_that_come_in_drops_are_cut_off(server: Server) -> None:
    session = session_of(server)
    whole = request_of(session, {"contexts": ARMS})
    began = time.monotonic()
    slow = [connect(server) for _ in range(40)]
    for i, one in enumerate(slow):
        one.sendall(whole[: i + 1])
    with server.client() as client:
        assert client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS}).is_success
    for i in range(1, 5):  # a drop now and then gives nobody more time
        if select.select([slow[0]], [], [], 0.2)[0]:
            break  # cut off already: this machine is slow
        slow[0].sendall(whole[i : i + 1])
    for one in slow:
        assert code_of(everything(one), 408) == "header_timeout"
        one.close()
    assert 0.9 < time.monotonic() - began < 60


def test_who_says_nothing_is_let_go(server: Server) -> None:
    began = time.monotonic()
    with connect(server) as silent:
        assert everything(silent) == b""
        assert 0.9 < time.monotonic() - began < 60


def test_a_head_has_a_largest_size(patient: Server) -> None:
    session = session_of(patient)
    line = f"POST /v1/sessions/{session}/decisions HTTP/1.1\r\n{OURS}".encode()
    for filler in (b"x-long: " + b"a" * 10_000, b"x-more: a\r\n" * 2000):
        for piece in (500, 10**6):
            with connect(patient) as connection:
                try:
                    for start in range(0, len(line + filler), piece):
                        connection.sendall((line + filler)[start : start + piece])
                except (BrokenPipeError, ConnectionResetError):
                    continue  # it was cut off before all was sent
                assert code_of(everything(connection), 431) == "headers_too_large"
    with patient.client() as client:
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 0
        long = {"x-long": "a" * 3000}
        assert client.get("/healthz", headers=long).status_code == 200


def test_large_bodies_and_many_requests_at_once_are_no_head(patient: Server) -> None:
    """However they are cut: at each byte around the end of the head, too."""
    session = session_of(patient)
    body = {"contexts": [[0.5, -0.25]] * 5000}
    whole = request_of(session, body)
    end = whole.index(b"\r\n\r\n") + 4
    rounds = 0
    for cut in (10, *range(end - 4, end + 3), 60_000):
        with connect(patient) as connection:
            connection.sendall(whole[:cut])
            time.sleep(0.02)
            connection.sendall(whole[cut:])
            assert connection.recv(65_536).startswith(b"HTTP/1.1 201 ")
            rounds += 1
    small = request_of(session, {"contexts": ARMS})
    with connect(patient) as connection:
        connection.sendall(small * 200)
        answer = b""
        while answer.count(b"HTTP/1.1 201 ") < 200:
            answer += connection.recv(65_536)
            assert answer
        assert b"HTTP/1.1 4" not in answer
    with patient.client() as client:
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == rounds + 200


def test_an_answer_in_one_piece_says_what_one_in_parts_says(tmp_path: Path) -> None:
    """The last one on a connection, and one that another request follows already, has parts."""
    found = []
    with Server(tmp_path / "lhb.db") as server, server.client() as client:
        asked = request_of(create(client), {"contexts": ARMS})
        whole = asked.replace(b"\r\n", b"\r\nx-request-id: mine\r\n", 1)
        last = whole.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
        old = last.replace(b"HTTP/1.1", b"HTTP/1.0")
        for sent in ([whole, whole, last], [whole + whole + old]):
            rest = b""
            with connect(server) as connection:
                for request in sent:
                    connection.sendall(request)
                    rest += connection.recv(65_536)
                rest += everything(connection)
            for _ in range(3):
                head, _, rest = rest.partition(b"\r\n\r\n")
                status, *lines = head.split(b"\r\n")
                headers = dict(line.split(b": ", 1) for line in lines)
                n = int(headers.pop(b"content-length"))
                found.append((status, headers, json.loads(rest[:n])["round"]))
                rest = rest[n:]
            assert not rest
    assert [round for _, _, round in found] == [1, 2, 3, 4, 5, 6]
    assert {status for status, _, _ in found} == {b"HTTP/1.1 201 Created"}
    ends = [headers.pop(b"connection", b"") for _, headers, _ in found]
    assert ends == [b"", b"", b"close", b"", b"", b"close"]
    kept = {b"x-request-id": b"mine", b"content-type": b"application/json"}
    for _, headers, _ in found:
        assert headers == found[0][1]
        assert kept.items() <= headers.items()


def test_what_is_not_http_gets_a_problem(server: Server) -> None:
    for nonsense in (
        b"\x16\x03\x01\x02\x00\x01",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nx\0y: 1\r\n\r\n",
    ):
        with connect(server) as connection:
            connection.sendall(nonsense)
            assert code_of(everything(connection), 400) == "malformed_http"


def test_there_are_only_so_many_connections(patient: Server) -> None:
    session = session_of(patient)
    until(lambda: not clients_of(patient))
    kept = [connect(patient) for _ in range(51)]
    try:
        refused, _, _ = select.select(kept, [], [], 120)  # which one: two readers accept at a time
        assert len(refused) == 1
        answer = everything(refused[0])
        assert code_of(answer, 503) == "too_many_connections"
        assert b"retry-after: 1" in answer
        served = next(one for one in kept if one is not refused[0])
        served.sendall(request_of(session, {"contexts": ARMS}))
        assert served.recv(65_536).startswith(b"HTTP/1.1 201 ")  # those inside are served
    finally:
        for one in kept:
            one.close()
    deadline = time.monotonic() + 120
    while True:
        try:
            if httpx.get(f"{patient.url}/healthz", timeout=60).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)
