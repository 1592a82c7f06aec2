"""Admission: under overload requests are refused before they are read, so that others are served.

The expected wait of a request that arrives now is the number of requests that are read and not yet
committed, times the processor time that the event loop spends for each (Little's law). If the
writer's full batches take longer, the wait is their time: batches and parsing go on at once. A
request whose wait is beyond `max_wait_seconds` is answered 503 at once. As in CoDel (RFC 8289) the
measure is a time and not a length. A slow disk is no overload: of the requests that only wait for
the disk, full batches alone count.
"""

import re
import time
from collections.abc import Callable, Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.types import Scope

from service.base.problems import Problem, ProblemCode

SHORT = 32  # a queue that is no overload whatever each request takes
WINDOW = 256  # requests of one measurement, at least
# times the requests that are read and not committed: these are read together, then committed, then
# answered, and a shorter measurement would be of one of these alone
CYCLES = 2
WINDOW_SECONDS = 5.0  # a longer window measures other work
RISE = 1 / 8  # share of a larger measurement that is believed; a smaller one is taken as it is
# where POST is refused under overload
REFUSED = ("/v1/sessions", "/v1/batch", "/personalizer/", "/mcp")
_TARGET = re.compile(rb"POST /v1/(?:sessions|batch)[^ \r\n]* HTTP/1\.1\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*(?:\r\n|\Z)")
# headers that change where a request ends, or what follows it: such a request is parsed
_NOT_PLAIN = re.compile(rb"transfer-encoding|expect|upgrade|close")


class Admission:
    """Predicts the wait of a request that arrives now, and refuses it if that is too long.

    With `most_seconds` 0 every request is admitted. `cpu_clock` tells seconds of processor time of
    this thread. `n_refused` is counted by whoever refuses. `committing`, to be set at start-up,
    returns the number of requests whose commands are not committed, and the seconds that full
    batches of them will take.
    """

    def __init__(
        self,
        most_seconds: float,
        clock: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.committing: Callable[[], tuple[int, float]] = lambda: (0, 0.0)
        self._most = most_seconds
        self._clock, self._cpu_clock = clock, cpu_clock
        self._n_waiting = 0
        self.n_refused = 0
        self._n_begun = 0  # requests of the present window
        self._window = WINDOW  # how many it will have
        self._began = self._began_cpu = 0.0  # when it began
        self._seconds_each = 0.0

    def receive(self) -> None:
        """Count a request that waits to be begun."""
        self._n_waiting += 1

    def begin(self) -> None:
        """Count a request that is begun."""
        self._n_waiting -= 1
        self._n_begun += 1
        if self._n_begun >= self._window:
            self._measure()

    def _measure(self) -> None:
        now, cpu = self._clock(), self._cpu_clock()
        if now - self._began < WINDOW_SECONDS:
            each = (cpu - self._began_cpu) / self._n_begun
            more = each - self._seconds_each
            is_first = self._seconds_each == 0.0
            self._seconds_each += more if is_first or more < 0 else more * RISE
        self._began, self._began_cpu = now, cpu
        n_ahead = self._n_waiting + self.committing()[0]
        self._n_begun, self._window = 0, max(WINDOW, CYCLES * n_ahead)

    @property
    def wait(self) -> float:
        """The seconds that a request arriving now is expected to wait until it is its turn."""
        n_committing, seconds = self.committing()
        n = self._n_waiting + n_committing
        return max(n * self._seconds_each, seconds) if n > SHORT else seconds

    def is_late(self) -> bool:
        """Return whether a request that arrives now would wait too long."""
        return 0 < self._most < self.wait

    def problem(self) -> Problem:
        """Return what is answered to who is refused: 503 overloaded."""
        detail = (
            f"requests wait longer than {self._most:g} s; this one was not read, and wrote nothing"
        )
        return Problem(ProblemCode.OVERLOADED, detail, retry_after=1)

    def metrics(self) -> Iterator[Metric]:
        """Yield the expected wait and the number of refusals."""
        wait = "Wait that a request arriving now is expected to have"
        yield GaugeMetricFamily("lhb_wait_seconds", wait, self.wait)
        refused = "Requests refused unread, since others wait for too long"
        yield CounterMetricFamily("lhb_overload_refusals_total", refused, self.n_refused)


def may_refuse(scope: Scope) -> bool:
    """Return whether a request is one that overload refuses: it would decide, or store rows.

    Health, metrics, reads, keys, and what makes room are always served.
    """
    path: str = scope["path"]
    return scope["method"] == "POST" and path.startswith(REFUSED)


def is_plain(data: bytes) -> bool:
    """Return whether bytes are surely one request that may be refused, without parsing them."""
    if _TARGET.match(data) is None:
        return False
    end = data.find(b"\r\n\r\n")
    head = data[: max(0, end)].lower()
    lengths = _LENGTH.findall(head)
    return bool(
        head.count(b"content-length") == len(lengths) == 1
        and _NOT_PLAIN.search(head) is None
        and len(data) == end + 4 + int(lengths[0])
    )
