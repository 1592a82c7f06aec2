"""An open-loop load: requests go out at their rate, whether those before are answered or not.

One thread, one epoll, requests made beforehand, and of an answer no more than status and length is
read: so one processor offers several times what a server on another one can answer.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

POLL_SECONDS = 0.002  # the longest wait for an answer while requests come due
PATIENCE = 60.0  # seconds that the last answers may take
BUFFER = 2**18  # bytes that a socket takes at once: a request and more


class Offered(NamedTuple):
    """What was sent and answered after the first `settle` seconds.

    Attributes
    ----------
    sent_per_second, accepted_per_second, refused_per_second : float
        Requests that went out, and their answers.
    latencies : list of float
        Seconds of accepted requests from when each was due, sorted.
    n_accepted : int
        Of the whole load.
    n_late : int
        Requests that had to wait for a connection that is free.
    """

    sent_per_second: float
    accepted_per_second: float
    refused_per_second: float
    latencies: list[float]
    n_accepted: int
    n_late: int


def offer(
    url: str,
    requests: list[bytes],
    rate: float,
    seconds: float,
    n_connections: int,
    settle: float = 0.0,
) -> Offered:
    """Send `requests` in turn, `rate` of them a second.

    Raises
    ------
    SystemExit
        An answer is neither 201 nor 503, was not asked for, or a connection was lost.
    """
    with _connected(url, n_connections) as sockets:
        load = _Load(sockets, requests, settle)
        load.run(rate, seconds)
    window = seconds - settle
    return Offered(
        load.n_sent / window,
        len(load.latencies) / window,
        load.n_refused / window,
        sorted(load.latencies),
        load.n_accepted,
        load.n_late,
    )


@contextmanager
def _connected(url: str, n: int) -> Iterator[list[socket.socket]]:
    at, sockets = urlsplit(url), list[socket.socket]()
    try:
        for _ in range(n):
            sockets.append(socket.create_connection((at.hostname, at.port), timeout=30))
            sockets[-1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            sockets[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sockets[-1].setblocking(False)
        yield sockets
    finally:
        for one in sockets:
            one.close()


class _Load:
    """Sends what is due on free connections, and counts answers between settling and the end."""

    def __init__(self, sockets: list[socket.socket], requests: list[bytes], settle: float) -> None:
        self._requests, self._settle = requests, settle
        self._poll = select.epoll()
        self._by_file = {one.fileno(): one for one in sockets}
        for file in self._by_file:
            self._poll.register(file, select.EPOLLIN)
        self._free = deque(sockets)
        self._late: deque[float] = deque()
        self._due: dict[int, float] = {}  # of what is under way, by its connection
        self._parts: dict[int, bytes] = {}
        self._n = 0
        self._from = self._until = 0.0
        self.n_sent = self.n_refused = self.n_accepted = self.n_late = 0
        self.latencies: list[float] = []

    def run(self, rate: float, seconds: float) -> None:
        clock, began, n_due = time.perf_counter, time.perf_counter(), 0
        self._from, self._until = began + self._settle, began + seconds
        with self._poll:
            while (now := clock()) < self._until:
                while n_due < (now - began) * rate:
                    due = began + n_due / rate
                    n_due += 1
                    if self._free:
                        self._send(self._free.popleft(), due, now)
                    else:
                        self.n_late += 1
                        self._late.append(due)
                self._receive(min(POLL_SECONDS, max(0.0, began + n_due / rate - now)))
            self._late.clear()
            last = clock() + PATIENCE
            while self._due:
                if clock() > last:
                    raise SystemExit(f"{len(self._due)} requests were not answered")
                self._receive(POLL_SECONDS)

    def _send(self, one: socket.socket, due: float, now: float) -> None:
        request = self._requests[self._n % len(self._requests)]
        self._n += 1
        if one.send(request) != len(request):
            raise SystemExit("a request does not fit into a socket's buffer")
        self._due[one.fileno()] = due
        self.n_sent += self._from <= now < self._until

    def _receive(self, timeout: float) -> None:
        for file, _ in self._poll.poll(timeout):
            one = self._by_file[file]
            data = one.recv(65_536)
            if not data:
                raise SystemExit("a connection was lost")
            if file in self._parts:
                data = self._parts.pop(file) + data
            if not _is_whole(data):
                self._parts[file] = data
                continue
            if file not in self._due:
                raise SystemExit(f"the server answered what was not asked: {data!r}")
            self._count(data, self._due.pop(file))
            if self._late:
                self._send(one, self._late.popleft(), time.perf_counter())
            else:
                self._free.append(one)

    def _count(self, data: bytes, due: float) -> None:
        now, status = time.perf_counter(), data[9:12]
        is_counted = self._from <= now < self._until
        if status == b"201":
            self.n_accepted += 1
            if is_counted:
                self.latencies.append(now - due)
        elif status == b"503":
            self.n_refused += is_counted
        else:
            raise SystemExit(f"the server answered {data!r}")


def _is_whole(data: bytes) -> bool:
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    at = data.find(b"content-length:") + 15
    return len(data) == end + 4 + int(data[at : data.index(b"\r\n", at)])
