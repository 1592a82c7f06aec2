"""A client's connection: uvicorn's, with an end to how long and how large a request's head may be.

The body's limits are the middleware's, which it reaches only once the head is whole.
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


class ClientConnection(HttpToolsProtocol):
    """One connection; heads may follow one another on it."""

    def __init__(self, settings: Settings, *, most: int, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._settings = settings
        self._most = most
        self._limit = settings.max_header_bytes
        self._n_head, self._tail = 0, b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has come; too many are sent away."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            detail = f"{self._most} connections are open, and there are no more"
            self._refuse(Problem(ProblemCode.TOO_MANY_CONNECTIONS, detail, retry_after=1))
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """They have gone."""
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """More of a head, or of a body."""
        is_head = self.cycle is None or not self.cycle.more_body or self._is_in_head()
        left = self._limit - self._n_head
        if is_head and len(data) > left and END_OF_HEAD not in self._tail + data[: max(0, left)]:
            detail = f"a request's line and headers have at most {self._limit} bytes"
            self._refuse(Problem(ProblemCode.HEADERS_TOO_LARGE, detail))
            return
        super().data_received(data)
        if self._is_in_head():
            self._n_head = self._n_head + len(data) if is_head else 0
            self._tail = data[-3:]
            if self._timer is None:
                self._watch()
        elif self._timer is not None:
            self._n_head, self._tail = 0, b""
            self._unwatch()

    def send_400_response(self, msg: str) -> None:
        """What came is not HTTP."""
        self._refuse(Problem(ProblemCode.MALFORMED_HTTP, msg))

    def _is_in_head(self) -> bool:
        """Whether a head has begun and not ended: its scope has no cycle yet."""
        return self.scope is not None and (self.cycle is None or self.cycle.scope is not self.scope)

    def _watch(self) -> None:
        seconds = self._settings.header_timeout_seconds
        self._timer = self.loop.call_later(seconds, self._is_late)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        if self.scope is None:
            self.transport.close()  # not a word: nothing to answer
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._watch()  # what was asked before is answered first
            return
        seconds = self._settings.header_timeout_seconds
        detail = f"the headers did not arrive within {seconds:g} s"
        self._refuse(Problem(ProblemCode.HEADER_TIMEOUT, detail))

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


def connection_class(settings: Settings) -> Any:
    """What uvicorn calls for every connection; as many as there may be files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    most = settings.max_connections
    if soft != resource.RLIM_INFINITY:
        most = max(1, min(most, soft - FILES_BESIDE))
    return functools.partial(ClientConnection, settings, most=most)
