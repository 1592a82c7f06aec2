"""A client's connection: uvicorn's protocol class, with a timeout in every state.

- Until a request's head is complete: `header_timeout_seconds`, and at most `max_header_bytes`.
- While a request is answered: the middleware's deadline for its body.
- After an answer to a request whose body has not arrived: `LINGER_SECONDS`. Nothing of that body is
  read, and the answer says that the connection closes.
- Between requests: uvicorn's keep-alive timeout, or `header_timeout_seconds`.
- While an answer waits for the client to read it: `body_timeout_seconds` per megabyte.
"""

import asyncio
import functools
import re
import resource
from math import inf
from typing import Any

from starlette.types import Message, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service.base.problems import MEDIA_TYPE, TITLES, Problem, ProblemCode
from service.base.server_settings import Settings
from service.personalizer.errors import is_personalizer
from service.web.admission import Admission, is_plain

END_OF_HEAD = b"\r\n\r\n"
OFFER = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
# for a browser that is shown an answer: it is data, of whoever asked, and no page
API_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
API_LINES = [f"{name.decode()}: {value.decode()}" for name, value in API_HEADERS]
RESERVED_FILES = 100  # file descriptors kept free for everything but connections
MAX_FILES = 65_536
CLOSE = (b"connection", b"close")
LINGER_SECONDS = 1.0  # until a connection whose request is not read is cut, to read the answer
PROGRESS_BYTES = 2**20
MCP_PATH = "/mcp"


def is_for_data(path: str) -> bool:
    """Return whether a path is of the API, and not a page, a metric or a state."""
    return path.startswith("/v1/") or path == MCP_PATH or is_personalizer(path)


class Trailers:
    """Replaces the list of headers once a head is complete, and refuses trailers."""

    def append(self, header: tuple[bytes, bytes]) -> None:
        """Refuse a trailer: the parser reports it as a further header."""
        raise ValueError(f"{header[0]!r} is a trailer")


TRAILERS: Any = Trailers()


class ClientConnection(HttpToolsProtocol):
    """One connection, which may carry several requests, one after another.

    `refusal` is the answer to a request that `admission` refuses; `most` connections may be open at
    once.
    """

    def __init__(
        self,
        settings: Settings,
        admission: Admission,
        refusal: bytes,
        *,
        most: int,
        **of_uvicorn: Any,
    ) -> None:
        super().__init__(**of_uvicorn)
        self._settings = settings
        self._admission, self._refusal = admission, refusal
        self._is_late = False
        self._most = most
        self._limit = settings.max_header_bytes
        self._n_head, self._tail = 0, b""
        self._n_framing = 0
        self._is_last = False  # no more is read, and the present answer is the last
        # when the present state ends, by the loop's clock; inf: not by itself
        self._until = self._fires_at = inf
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._has_resumed = False
        # Authorization of the last request, and the digest of its key. uvicorn keeps the headers of
        # the last request as long
        self.presented = b"", b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first head; answer 503 if too many connections are open."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            detail = f"{self._most} connections are open, which is the limit"
            self._refuse(Problem(ProblemCode.TOO_MANY_CONNECTIONS, detail, retry_after=1))
            return
        self._watch(self._settings.header_timeout_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse more of a head or a body, within its limits, and set the timer of the new state."""
        if self._is_last:
            return
        cycle, was_in_head = self.cycle, self._is_in_head()
        is_head = was_in_head or cycle is None or not cycle.more_body
        if is_head:
            left = self._limit - self._n_head
            if len(data) > left and END_OF_HEAD not in self._tail + data[: max(0, left)]:
                detail = f"a request's line and headers have at most {self._limit} bytes"
                self._refuse(Problem(ProblemCode.HEADERS_TOO_LARGE, detail))
                return
            self._is_late = self._admission.is_late()
            is_refused = self._is_late and is_plain(data)
            if is_refused and not (was_in_head or self._is_answering()):
                self._watch(self._settings.header_timeout_seconds)
                self._admission.n_refused += 1
                self.transport.write(self._refusal)  # the connection stays
                return
            super().data_received(without_offer(data))
        else:
            self._feed_body(data)
        if self._is_in_head():
            self._n_head = self._n_head + len(data) if is_head else 0
            self._tail = data[-3:]
            if not was_in_head:
                self._watch(self._settings.header_timeout_seconds)
        else:
            self._n_head, self._tail = 0, b""
            if self._is_answering():
                self._until = inf

    def _feed_body(self, data: bytes) -> None:
        """Parse more of a body. Chunk sizes, extensions and trailers are limited like a head."""
        cycle, n_before = self.cycle, len(self.cycle.body)
        super().data_received(data)
        if len(cycle.body) > n_before or not cycle.more_body:
            self._n_framing = 0
            return
        self._n_framing += len(data)
        if self._n_framing > self._limit:
            detail = (
                f"chunk sizes, extensions and trailers of a body have at most {self._limit} bytes"
            )
            self._refuse(Problem(ProblemCode.HEADERS_TOO_LARGE, detail))

    def on_headers_complete(self) -> None:
        """Begin to answer. Headers that the parser reports after this are trailers."""
        self.scope["lhb.connection"] = self  # type: ignore[typeddict-unknown-key]
        if self._is_late:
            self.scope["lhb.late"] = True  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        self.headers = TRAILERS

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._admission.receive()
        # a task without a name makes one from a number, for 2000 instructions
        self.tasks.add(asyncio.Task(self._run(cycle, app), loop=self.loop, name="request"))

    async def _run(self, cycle: Any, app: Any) -> None:
        try:
            await cycle.run_asgi(app)
        finally:  # a callback of the task would cost a turn of the event loop
            self.tasks.discard(asyncio.current_task())

    def take_body(self, scope: Scope) -> bytes | None:
        """Return the whole body of a request if it has arrived; None if it has to be awaited."""
        cycle = self.cycle
        if cycle.scope is not scope or cycle.more_body or cycle.disconnected:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def answer_at_once(
        self, scope: Scope, status: int, headers: bytes, request_id: str, body: bytes
    ) -> bool:
        """Write a whole answer, which takes a third of the time that uvicorn takes for its parts.

        `headers` are lines without length and request id. False if nothing was written: the
        connection is about to close, the client does not read, or another request follows already.
        """
        cycle = self.cycle
        if (
            cycle.scope is not scope
            or cycle.more_body
            or cycle.disconnected
            or cycle.response_started
            or not cycle.keep_alive
            or self.flow.write_paused
            or cycle.default_headers
        ):
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        rest = headers, len(body), request_id.encode(), body
        self.transport.write(
            b"%b%bcontent-length: %d\r\nx-request-id: %b\r\n\r\n%b" % (STATUS_LINE[status], *rest)
        )
        cycle.on_response()
        return True

    async def begin_answer(self, scope: Scope, message: Message, send: Send) -> None:
        """Send the head of an answer to a request whose body was not read to its end.

        If the body has not arrived, this answer is the last: the head says so, and no more is read.
        """
        cycle = self.cycle
        if cycle.scope is not scope or not cycle.more_body:
            await send(message)  # all of it is here, and the next request may follow
            return
        self._is_last = True
        self._until = inf
        self.transport.pause_reading()
        message["headers"].append(CLOSE)
        await send(message)
        cycle.keep_alive = True  # uvicorn would close at once: see `_linger`

    def on_response_complete(self) -> None:
        """Go on to the next request, or close; set the timer for an answer that is not read."""
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self._start_asgi_task(*self.pipeline.pop())
            elif not self._is_in_head():
                self._watch(self.timeout_keep_alive)
        if self.transport.get_write_buffer_size():
            self._start_write_timer()
        if self._is_last and not self.transport.is_closing():
            self.transport.pause_reading()
            self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self._linger)

    def _linger(self) -> None:
        """Cut the connection, once its answer is sent: at once, the client could lose that."""
        if self.transport.get_write_buffer_size():
            self.loop.call_later(LINGER_SECONDS, self._linger)
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        """Pause writing until the client reads, and start the timer for that."""
        super().pause_writing()
        self._start_write_timer()

    def resume_writing(self) -> None:
        """Resume writing: the client has read."""
        self._has_resumed = True
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer 400 malformed_http to what is not HTTP."""
        self._refuse(Problem(ProblemCode.MALFORMED_HTTP, msg))

    def _is_in_head(self) -> bool:
        """Return whether a head has begun but is incomplete: its scope has no cycle yet."""
        return self.scope is not None and (self.cycle is None or self.cycle.scope is not self.scope)

    def _is_answering(self) -> bool:
        """Return whether a request is being answered, or its body is awaited."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self, seconds: float) -> None:
        """Have the present state end in so many seconds, by one timer for all requests."""
        self._until = self.loop.time() + seconds
        if self._timer is not None:
            if self._fires_at <= self._until:
                return
            self._timer.cancel()
        self._fires_at = self._until
        self._timer = self.loop.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer, left = None, self._until - self.loop.time()
        if left == inf:
            return  # the end of the answer sets another
        if left > 0:
            self._watch(left)
        elif self._is_answering():  # a pipelined head waits for the answer to the request before it
            self._watch(self._settings.header_timeout_seconds)
        elif self._is_in_head():
            seconds = self._settings.header_timeout_seconds
            detail = f"the headers did not arrive within {seconds:g} s"
            self._refuse(Problem(ProblemCode.HEADER_TIMEOUT, detail))
        else:
            self.transport.close()  # no request began

    def _start_write_timer(self) -> None:
        """Start the timer that aborts the connection unless the client reads the answer."""
        if self._write_timer is None:
            self._has_resumed = False
            n_bytes = self.transport.get_write_buffer_size()
            seconds = self._settings.body_timeout_seconds
            self._write_timer = self.loop.call_later(seconds, self._check_write_progress, n_bytes)

    def _check_write_progress(self, n_before: int) -> None:
        self._write_timer = None
        n_bytes = self.transport.get_write_buffer_size()
        if n_bytes == 0:
            return
        if self._has_resumed or n_bytes <= n_before - PROGRESS_BYTES:
            self._start_write_timer()
        else:
            self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        """Answer with the problem, unless another answer is under way, and close."""
        cycle = self.cycle
        awaits_body = cycle is not None and cycle.more_body and not self._is_in_head()
        if awaits_body and not (cycle.response_started or self.pipeline):
            cycle.disconnected = cycle.response_complete = True  # whoever awaits the body gives up
            cycle.message_event.set()
        if cycle is None or cycle.response_complete:
            self.transport.write(whole_answer(problem, "connection: close"))
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._start_write_timer()


def without_offer(data: bytes) -> bytes:
    """Return a head without its offer to go on in another protocol, after which no body is read."""
    if data.find(b"pgrade:") < 0:  # `in` raises and drops an error first
        return data
    end = data.find(END_OF_HEAD) + 1 or len(data)
    return OFFER.sub(b"\r\nx-offer:", data[:end]) + data[end:]


def whole_answer(problem: Problem, *lines: str) -> bytes:
    """Return the bytes of a problem document with its head, to which `lines` are added."""
    body = problem.body()
    head = [f"HTTP/1.1 {problem.status} {TITLES[problem.status]}"]
    head += [f"content-type: {MEDIA_TYPE}", f"content-length: {len(body)}"]
    head += [f"{name}: {value}" for name, value in problem.headers().items()]
    return "\r\n".join([*head, *lines]).encode() + END_OF_HEAD + body


def most_connections(wanted: int) -> int:
    """Return how many connections may be open at once: `wanted`, or what the system allows.

    The soft limit of open files is raised as far as the system allows; if it stays lower, fewer
    connections are allowed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
        soft = files
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - RESERVED_FILES))


def connection_class(settings: Settings, admission: Admission) -> Any:
    """Return the factory that uvicorn calls for every connection."""
    most = most_connections(settings.max_connections)
    refusal = whole_answer(admission.problem(), *API_LINES)
    return functools.partial(ClientConnection, settings, admission, refusal, most=most)
