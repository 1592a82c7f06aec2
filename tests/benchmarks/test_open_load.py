"""The open-loop load: what it counts is what a server has answered, and it does not wait for it."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from benchmarks.server.open_load import offer

REQUEST = b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
ACCEPTED = b"HTTP/1.1 201 Created\r\ncontent-length: 4\r\n\r\nbody"
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
Answer = Callable[[int], bytes]


@contextmanager
def answering(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """A server with a thread a connection; its URL, and the requests that it has read."""
    asked: list[bytes] = []
    lock = threading.Lock()

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65_536):
                with lock:
                    asked.append(data)
                    n = len(asked)
                text = answer(n)
                connection.sendall(text[:30])
                time.sleep(0.001)  # the rest comes by itself
                connection.sendall(text[30:])

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        listening.shutdown(socket.SHUT_RDWR)


def test_each_answer_is_counted_by_its_status() -> None:
    with answering(lambda n: REFUSED if n % 3 == 0 else ACCEPTED) as (url, asked):
        found = offer(url, [REQUEST, REQUEST + b""], 200.0, 0.5, 8)
    assert 0 < len(asked) <= 101  # no more than the rate allows
    assert set(asked) == {REQUEST}
    assert found.sent_per_second * 0.5 == len(asked)
    assert found.n_accepted == len(asked) - len(asked) // 3
    assert len(found.latencies) <= found.n_accepted  # some come after the end
    assert found.latencies == sorted(found.latencies)


def test_a_request_that_finds_no_connection_is_timed_from_when_it_was_due() -> None:
    def slowly(n: int) -> bytes:
        time.sleep(0.05)
        return ACCEPTED

    with answering(slowly) as (url, asked):
        found = offer(url, [REQUEST], 100.0, 1.0, 1)
    assert len(asked) <= 21  # one connection, 0.05 s each
    assert found.n_late > 50 - 21
    assert found.latencies[-1] > 0.2  # the last that was answered was due long before


def test_what_settles_is_not_counted() -> None:
    with answering(lambda n: ACCEPTED) as (url, asked):
        found = offer(url, [REQUEST], 100.0, 0.6, 8, settle=0.5)
    assert len(found.latencies) < found.n_accepted == len(asked)


def test_another_answer_ends_it() -> None:
    wrong = ACCEPTED.replace(b"201", b"422")
    with answering(lambda n: wrong) as (url, _), pytest.raises(SystemExit, match="422"):
        offer(url, [REQUEST], 100.0, 5.0, 1)


def test_an_answer_that_nothing_asked_for_ends_it() -> None:
    is_over = threading.Event()

    def refuse_both() -> None:
        (one, _), (other, _) = listening.accept(), listening.accept()
        with one, other:
            one.sendall(REFUSED)
            other.sendall(REFUSED)
            is_over.wait()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = threading.Thread(target=refuse_both)
        refusing.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(SystemExit, match="not asked"):
            offer(url, [REQUEST], 1.0, 5.0, 2)  # a second until the second is asked for
        is_over.set()
        refusing.join()
