"""Every connection has a deadline at every moment of its life, and holds little memory till then.

Plain sockets against a real server whose limits are short.
"""

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.faults.server_process import OURS, Server
from tests.faults.test_clients import ARMS, connect, create, request_of
from tests.faults.test_connections import clients_of, everything
from tests.faults.test_large_writes import until
from tests.faults.test_offline import lhb

LIMITS = {
    "LHB_HEADER_TIMEOUT_SECONDS": "1",
    "LHB_BODY_TIMEOUT_SECONDS": "2",
    "LHB_MAX_HEADER_BYTES": "4096",
    "LHB_MAX_CONNECTIONS": "50",
}
CHUNKED = b"transfer-encoding: chunked\r\ncontent-type: application/json\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("deadlines") / "lhb.db", **LIMITS) as started:
        yield started


@pytest.fixture
def session(server: Server) -> str:
    with server.client() as client:
        return create(client)


def is_cut(connection: socket.socket, seconds: float, drop: bytes = b"") -> bool:
    """Whether the server hangs up in time, while `drop` is sent again and again."""
    deadline = time.monotonic() + seconds
    connection.settimeout(0.2)
    while time.monotonic() < deadline:
        try:
            if drop:
                connection.sendall(drop)
            if connection.recv(65_536) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def answer_of(connection: socket.socket) -> bytes:
    """One answer that ends with a JSON object."""
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65_536)
    return answer


def memory(server: Server) -> int:
    """Resident bytes of the server."""
    assert server.process is not None
    pages = Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


# bytes: a request's head, and pages that other work of the server reads meanwhile; less than one
# read of a body whose client sends 64 KiB at a time
A_HEAD = 10 * 4096


def n_read(server: Server) -> int:
    """Bytes that the server has read from files and sockets."""
    assert server.process is not None
    text = Path(f"/proc/{server.process.pid}/io").read_text()
    return int(text.partition("rchar:")[2].split()[0])


@pytest.mark.parametrize("drop", [b"", b"x"], ids=["silent", "in drops"])
@pytest.mark.parametrize("path", ["/v1/nothing", "/healthz"])
def test_who_is_answered_before_the_body_has_ended_is_let_go(
    server: Server, path: str, drop: bytes
) -> None:
    head = f"POST {path} HTTP/1.1\r\n{OURS}content-length: 10000000\r\n\r\n".encode()
    with connect(server) as connection:
        connection.sendall(head + b"x")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 40")
        connection.sendall(b"x")
        assert is_cut(connection, 60, drop)


def test_the_rest_of_an_answered_body_is_not_read(server: Server) -> None:
    head = f"POST /v1/nothing HTTP/1.1\r\n{OURS}content-length: 10000000\r\n\r\n".encode()
    sent, before = 0, n_read(server)
    with connect(server) as connection:
        connection.sendall(head)
        answer = everything(connection)  # to its end: the server sends nothing more
        assert answer.startswith(b"HTTP/1.1 404")
        assert b"\r\nconnection: close\r\n" in answer
        connection.settimeout(5)
        with pytest.raises(OSError):  # noqa: PT012
            while sent < 10_000_000:
                sent += connection.send(b"x" * 65_536)
    assert sent < 9_000_000
    assert n_read(server) - before < A_HEAD


def test_a_strangers_body_is_not_read(tmp_path: Path) -> None:
    """Once there are keys, a request without one is answered from its head."""
    made = lhb(tmp_path / "lhb.db", "keys", "create")
    assert made.returncode == 0, made.stderr
    head = b"POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10000000\r\n\r\n"
    with Server(tmp_path / "lhb.db") as server:
        for n_with_head in (0, 1000, 1_000_000):
            before = n_read(server)
            with connect(server) as connection:
                connection.sendall(head)
                if not n_with_head:
                    assert connection.recv(100).startswith(b"HTTP/1.1 401")
                with suppress(OSError):
                    connection.sendall(b"x" * (n_with_head or 1_000_000))
                everything(connection)
            assert n_read(server) - before < (300_000 if n_with_head else A_HEAD)


def test_a_small_body_that_comes_after_its_answer_is_not_read(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(
            f"POST /v1/nothing HTTP/1.1\r\n{OURS}content-length: 90\r\n\r\n".encode()
        )
        answer = answer_of(connection)
        assert b"\r\nconnection: close\r\n" in answer
        began = time.monotonic()
        ask = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        connection.sendall(ask * 3)  # as the body, and beyond
        assert everything(connection) == b""
        assert time.monotonic() - began < 60


def test_an_answer_to_a_body_that_has_arrived_keeps_the_connection(server: Server) -> None:
    with connect(server) as connection:
        for _ in range(3):
            connection.sendall(
                f"POST /v1/nothing HTTP/1.1\r\n{OURS}content-length: 4\r\n\r\n{{  }}".encode()
            )
            answer = answer_of(connection)
            assert answer.startswith(b"HTTP/1.1 404")
            assert b"connection: close" not in answer
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_a_client_that_sends_a_long_body_reads_its_refusal(server: Server) -> None:
    with server.client() as client:
        for _ in range(3):
            answer = client.post("/v1/nothing", content=b"x" * 5_000_000)
            assert answer.status_code == 404
            assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"])
def test_empty_lines_keep_no_connection(server: Server, before: bytes) -> None:
    """Between requests they are allowed, and are no word."""
    with connect(server) as connection:
        if before:
            connection.sendall(before)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        assert is_cut(connection, 60, b"\r\n")


def test_who_never_reads_is_let_go(server: Server, session: str) -> None:
    """Answers wait for the client in the server's memory: for a while."""
    ask = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with connect(server) as connection:
        connection.sendall(ask * 200)
        assert connection.recv(1) == b"H"
        until(lambda: connection.getsockname()[1] not in clients_of(server))
        n_bytes = 1
        with pytest.raises(ConnectionResetError):  # noqa: PT012
            while more := connection.recv(2**20):
                n_bytes += len(more)
            raise ConnectionResetError
        assert n_bytes < 10_000_000


def test_a_trailer_is_refused_and_never_a_header(server: Server, session: str) -> None:
    head = f"POST /v1/sessions/{session}/decisions HTTP/1.1\r\n{OURS}".encode() + CHUNKED
    body = request_of("", {"contexts": ARMS}).partition(b"\r\n\r\n")[2]
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    with connect(server) as connection:
        connection.sendall(head + chunk + b"0\r\nauthorization: Bearer x\r\n\r\n")
        everything(connection)
    with connect(server) as connection:
        connection.sendall(head + chunk)
        connection.sendall(b"0\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 201")
    with server.client() as client:
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 1


@pytest.mark.parametrize("part", [b"a:b\r\n", b"a"], ids=["many", "endless"])
@pytest.mark.parametrize("start", [b"0\r\n", b"1;"], ids=["trailer", "extension"])
def test_what_stands_between_chunks_is_bounded(
    server: Server, session: str, start: bytes, part: bytes
) -> None:
    head = f"POST /v1/sessions/{session}/decisions HTTP/1.1\r\n{OURS}".encode() + CHUNKED
    before, sent = memory(server), 0
    with connect(server) as connection:
        connection.sendall(head + start)
        try:
            while sent < 5_000_000:
                sent += connection.send(part * (20_000 // len(part)))
        except OSError:
            pass
        assert b"HTTP/1.1 201" not in everything(connection)
    assert sent < 5_000_000
    assert memory(server) - before < 20_000_000
    with server.client() as client:
        assert client.get(f"/v1/sessions/{session}").json()["n_rounds"] == 0


def test_every_place_is_free_again(server: Server) -> None:
    """Fifty connections that would all have stayed for ever, on a limit of fifty."""
    head = f"POST /v1/nothing HTTP/1.1\r\n{OURS}content-length: 10000000\r\n\r\nx".encode()
    until(lambda: not clients_of(server))
    with ExitStack() as stack:
        kept = []
        for _ in range(45):
            kept.append(one := stack.enter_context(connect(server)))
            one.sendall(head)
            one.recv(65_536)
            one.sendall(b"x")
        deadline = time.monotonic() + 60
        assert all(is_cut(one, deadline - time.monotonic()) for one in kept)
    with server.client() as client:
        assert client.get("/healthz").status_code == 200
