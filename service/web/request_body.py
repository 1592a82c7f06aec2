"""Reading of request bodies, with limits on size, on time, and on all bodies in memory together."""

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from service.api.body_parsing import LARGE
from service.base.problems import Problem, ProblemCode
from service.base.server_settings import Settings
from service.web.connection import MCP_PATH

IMPORT_PATH = "/v1/sessions/import"
MCP_BYTES = 2**18  # of a message to /mcp
UNCOUNTED_BYTES = 2**13  # a body of one chunk up to this size is not counted in `BodyMemory`
# far above what the largest valid body needs: 100 000 rewards with all their keys
MAX_OF_EACH = {b"[": 10**6, b"{": 10**6, b":": 10**6, b'"': 4 * 10**6}


class RequestBody:
    """One request's body, read within the limits; an import has its own.

    `is_whole` says whether all of it was read. At the end the caller releases `n_held` bytes of the
    memory.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        settings: Settings,
        deadlines: "BodyDeadlines",
        memory: "BodyMemory",
    ) -> None:
        self.scope, self._receive = scope, receive
        path = scope["path"]
        self._is_import = path == IMPORT_PATH
        self._limit = settings.max_import_bytes if self._is_import else settings.max_body_bytes
        if path == MCP_PATH:  # it is parsed in the event loop
            self._limit = min(self._limit, MCP_BYTES)
        self._deadlines = deadlines
        self._memory = memory
        self.n_held = 0
        self._counts: dict[bytes, int] = {}
        self._n_bytes = 0
        self.is_whole = False
        self._deadline: float | None = None

    def check_headers(self, headers: Mapping[bytes, bytes]) -> None:
        """Raise 415 for a compressed body, 413 if the Content-Length is above the limit."""
        length = headers.get(b"content-length", b"")
        has_body = length.strip(b"0") or b"transfer-encoding" in headers
        encoding = headers.get(b"content-encoding", b"").lower()
        if has_body and encoding not in (b"", b"identity"):
            detail = "a body is not compressed: send it without Content-Encoding"
            raise Problem(ProblemCode.UNSUPPORTED_MEDIA_TYPE, detail, "content-encoding")
        if length.isdigit() and int(length) > self._limit:
            raise self._too_large()

    def arrived(self) -> bytes:
        """Return the whole body if it has arrived, else nothing; raises a Problem as `read` does.

        Most have: to await them would cost each of them.
        """
        connection = self.scope.get("lhb.connection")
        whole: bytes | None = connection and connection.take_body(self.scope)
        if whole is None:
            return b""
        self._count(whole, is_last=True)
        return whole

    async def read(self) -> bytes:
        """Return the whole body.

        Raises `ClientDisconnect` where the client went before its end, and 408, 413, 422 or 503
        where a limit is exceeded.
        """
        chunks = []
        while not self.is_whole:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunks.append(message.get("body", b""))
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def receive(self) -> Message:
        """Return the next ASGI message; raises a Problem as `read` does."""
        if self.is_whole:
            return await self._receive()
        if self._deadline is None:
            self._deadline = self._deadlines.deadline()
        message = await self._deadlines.receive(self._receive, self._deadline)
        if message["type"] == "http.request":
            self._count(message.get("body", b""), is_last=not message.get("more_body", False))
        return message

    def _count(self, part: bytes, *, is_last: bool) -> None:
        """Count a part that has arrived; raises a Problem as `read` does."""
        self._n_bytes += len(part)
        self.is_whole = is_last
        if self._n_bytes > self._limit:
            raise self._too_large()
        if self._is_import:
            return  # it goes to a file
        if self.n_held or not is_last or self._n_bytes > UNCOUNTED_BYTES:
            self._memory.take(self._n_bytes - self.n_held)
            self.n_held = self._n_bytes
        # too many brackets, keys or strings take more memory when they are parsed
        for kind, most in MAX_OF_EACH.items() if self._n_bytes > LARGE else ():
            self._counts[kind] = self._counts.get(kind, 0) + part.count(kind)
            if self._counts[kind] > most:
                detail = f"a body contains the character {kind.decode()} at most {most} times"
                raise Problem(ProblemCode.OUT_OF_RANGE, detail, "body")

    def _too_large(self) -> Problem:
        return Problem(
            ProblemCode.BODY_TOO_LARGE, f"a body has at most {self._limit} bytes", "body"
        )


class BodyMemory:
    """Counts the bytes of all bodies in memory, and limits them to `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Count further bytes; 503 overloaded, uncounted, if they would exceed the limit."""
        if self._n_bytes + n_bytes > self._most:
            detail = f"request bodies in memory have reached the limit of {self._most} bytes"
            raise Problem(ProblemCode.OVERLOADED, detail, "body", retry_after=1)
        self._n_bytes += n_bytes

    def release(self, n_bytes: int) -> None:
        """Stop counting these bytes."""
        self._n_bytes -= n_bytes


class BodyDeadlines:
    """Gives every body a deadline, `seconds` after its first read, by one timer for them all."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[asyncio.Task[Any], float] = {}
        self._is_watching = False

    def deadline(self) -> float:
        """Return the deadline of a body that begins now, in seconds of the event loop's clock."""
        return asyncio.get_running_loop().time() + self._seconds

    async def receive(self, receive: Receive, deadline: float) -> Message:
        """Return the next message of `receive`; 408 body_timeout after the deadline."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._deadlines[task] = deadline
        if not self._is_watching:
            self._is_watching = True
            loop.call_later(self._seconds, self._cancel_late, loop)
        try:
            return await receive()
        except asyncio.CancelledError:
            if loop.time() < deadline or task.uncancel():
                raise
            detail = f"the body did not arrive within {self._seconds:g} s"
            raise Problem(ProblemCode.BODY_TIMEOUT, detail) from None
        finally:
            del self._deadlines[task]

    def _cancel_late(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, deadline in list(self._deadlines.items()):
            if deadline <= now:
                task.cancel()
        self._is_watching = bool(self._deadlines)
        if self._is_watching:
            loop.call_later(self._seconds / 4, self._cancel_late, loop)
