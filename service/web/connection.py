"""A client's connection: uvicorn's, with a deadline at every moment of its life.

- Until a request's head is whole: `header_timeout_seconds`, and `max_header_bytes`.
- While a request is answered: its body has the middleware's deadline.
- After an answer to a request whose body is not whole: as for a head; little more of it is read.
- Between requests: uvicorn's keep-alive, or the first of these.
- While an answer waits for the client to read it: `body_timeout_seconds` a megabyte.
"""

import asyncio
import functools
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.problems import MEDIA_TYPE, TITLES, Problem, ProblemCode
from service.settings import Settings

FILES_BESIDE = 100  # that a server has open beside its connections
MOST_FILES = 65_536
END_OF_HEAD = b"\r\n\r\n"
DRAINED_BYTES = 2**16  # read of a body after its request was answered
LINGER_SECONDS = 1.0  # after that, for the client to find the answer
PROGRESS_BYTES = 2**20


class Trailers:
    """Stands in for the list of headers once a head is whole: no header comes after it."""

    def append(self, header: tuple[bytes, bytes]) -> None:
        """Refuse a trailer."""
        raise ValueError(f"{header[0]!r} is a trailer")


TRAILERS: Any = Trailers()


class ClientConnection(HttpToolsProtocol):
    """One connection; requests may follow one another on it."""

    def __init__(self, settings: Settings, *, most: int, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._settings = settings
        self._most = most
        self._limit = settings.max_header_bytes
        self._n_head, self._tail = 0, b""
        self._n_framing = self._n_drained = 0
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._has_resumed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch a connection; refuse it where too many are open."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            detail = f"{self._most} connections are open, and there are no more"
            self._refuse(Problem(ProblemCode.TOO_MANY_CONNECTIONS, detail, retry_after=1))
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop watching."""
        self._unwatch()
        if self._write_timer is not None:
            self._write_timer.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take more of a head, or of a body."""
        cycle = self.cycle
        is_head = cycle is None or not cycle.more_body or self._is_in_head()
        if is_head:
            left = self._limit - self._n_head
            if len(data) > left and END_OF_HEAD not in self._tail + data[: max(0, left)]:
                detail = f"a request's line and headers have at most {self._limit} bytes"
                self._refuse(Problem(ProblemCode.HEADERS_TOO_LARGE, detail))
                return
            super().data_received(data)
        elif cycle.response_complete:
            self._drain(data)
        else:
            self._feed_body(data)
        if self._is_in_head():
            self._n_head = self._n_head + len(data) if is_head else 0
            self._tail = data[-3:]
        else:
            self._n_head, self._tail = 0, b""
            if self._is_answering():
                self._unwatch()
                return
        if self._timer is None and not self.transport.is_closing():
            self._watch()

    def _feed_body(self, data: bytes) -> None:
        """Take more of a body. Chunk sizes, extensions and trailers are bounded like a head."""
        cycle, n_before = self.cycle, len(self.cycle.body)
        super().data_received(data)
        if len(cycle.body) > n_before or not cycle.more_body:
            self._n_framing = 0
            return
        self._n_framing += len(data)
        if self._n_framing > self._limit:
            detail = f"what stands between the chunks of a body has at most {self._limit} bytes"
            self._refuse(Problem(ProblemCode.HEADERS_TOO_LARGE, detail))

    def _drain(self, data: bytes) -> None:
        """Read a little of what is left of a body, so that the client finds its answer."""
        self._n_drained += len(data)
        if self._n_drained <= DRAINED_BYTES:
            super().data_received(data)
        elif not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_later(LINGER_SECONDS, self._abort)

    def on_headers_complete(self) -> None:
        """Begin to answer; what comes as a header from now on is a trailer."""
        super().on_headers_complete()
        self.headers = TRAILERS

    def on_message_complete(self) -> None:
        """Note that a body is whole, be it answered already or not."""
        self.cycle.more_body = False
        if not self.cycle.response_complete:
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Go on to the next request, once this one's body is whole and its answer is on its way."""
        super().on_response_complete()
        if self.transport.get_write_buffer_size():
            self._watch_writing()
        if self.cycle.more_body and self.cycle.response_complete and not self._is_in_head():
            self._n_drained = 0
            if self._timer is None and not self.transport.is_closing():
                self._watch()

    def pause_writing(self) -> None:
        """Wait for the client to read; not for ever."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """Note that the client has read."""
        self._has_resumed = True
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._refuse(Problem(ProblemCode.MALFORMED_HTTP, msg))

    def _is_in_head(self) -> bool:
        """Whether a head has begun and not ended: its scope has no cycle yet."""
        return self.scope is not None and (self.cycle is None or self.cycle.scope is not self.scope)

    def _is_answering(self) -> bool:
        """Whether a request is being answered: the server is at work, or waits for its body."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        seconds = self._settings.header_timeout_seconds
        self._timer = self.loop.call_later(seconds, self._is_late)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        self._timer = None
        if self._is_answering():
            self._watch()  # what was asked before is answered first
            return
        if not self._is_in_head():
            self._abort()  # not a word, or the rest of a body that is answered
            return
        seconds = self._settings.header_timeout_seconds
        detail = f"the headers did not arrive within {seconds:g} s"
        self._refuse(Problem(ProblemCode.HEADER_TIMEOUT, detail))

    def _watch_writing(self) -> None:
        """Hang up unless the client reads what is written to it."""
        if self._write_timer is None:
            self._has_resumed = False
            n_bytes = self.transport.get_write_buffer_size()
            seconds = self._settings.body_timeout_seconds
            self._write_timer = self.loop.call_later(seconds, self._look_at_writing, n_bytes)

    def _look_at_writing(self, n_before: int) -> None:
        self._write_timer = None
        n_bytes = self.transport.get_write_buffer_size()
        if n_bytes == 0:
            return
        if self._has_resumed or n_bytes <= n_before - PROGRESS_BYTES:
            self._watch_writing()
        else:
            self._abort()

    def _abort(self) -> None:
        """Cut the connection, whatever it still holds."""
        self.transport.abort()

    def _refuse(self, problem: Problem) -> None:
        """Answer, unless another answer is under way, and hang up."""
        if self.cycle is None or self.cycle.response_complete:
            body = problem.body()
            head = [f"HTTP/1.1 {problem.status} {TITLES[problem.status]}"]
            head += [f"content-type: {MEDIA_TYPE}", f"content-length: {len(body)}"]
            head += [f"{name}: {value}" for name, value in problem.headers().items()]
            text = "\r\n".join([*head, "connection: close"])
            self.transport.write(text.encode() + END_OF_HEAD + body)
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._watch_writing()


def connection_class(settings: Settings) -> Any:
    """Return what uvicorn calls for every connection; allow as many as there may be files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = settings.max_connections
    if soft != resource.RLIM_INFINITY:
        most = max(1, min(most, soft - FILES_BESIDE))
    return functools.partial(ClientConnection, settings, most=most)
