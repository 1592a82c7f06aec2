"""A request's body as it comes in: bounded in size, in time, and together with all others."""

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from service.api.body_parsing import LARGE
from service.problems import Problem, ProblemCode
from service.settings import Settings

IMPORT_PATH = "/v1/sessions/import"
SMALL = 2**16  # a whole body up to this size is not counted
# far above a hundred thousand rewards with all their keys, the most that any body may hold
MOST_OF_A_KIND = {b"[": 10**6, b"{": 10**6, b":": 10**6, b'"': 4 * 10**6}


class Body:
    """The body as it comes in, watched for size and pace."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        settings: Settings,
        watch: "SlowBodies",
        held: "HeldBodies",
    ) -> None:
        self._headers = scope["headers"]
        self._receive = receive
        self._is_import = scope["path"] == IMPORT_PATH
        self._limit = settings.max_import_bytes if self._is_import else settings.max_body_bytes
        self._watch = watch
        self._held = held
        self.n_held = 0
        self._counts: dict[bytes, int] = {}
        self._n_bytes = 0
        self._is_whole = False
        self._deadline: float | None = None

    def check_length(self) -> None:
        """Refuse a body that announces itself as too large, before reading any of it."""
        for name, value in self._headers:
            if name == b"content-length" and value.isdigit() and int(value) > self._limit:
                raise self._too_large()

    async def read(self) -> bytes:
        """All of it.

        Raises
        ------
        ClientDisconnect
            The client went away before it had sent all.
        """
        chunks = []
        while not self._is_whole:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunks.append(message.get("body", b""))
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def receive(self) -> Message:
        """Return the next message, which has to come in time."""
        if self._is_whole:
            return await self._receive()
        if self._deadline is None:
            self._deadline = self._watch.deadline()
        message = await self._watch.in_time(self._receive, self._deadline)
        if message["type"] == "http.request":
            self._n_bytes += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._n_bytes > self._limit:
                raise self._too_large()
            if self._is_import:
                return message  # it goes to a file
            if self.n_held or not self._is_whole or self._n_bytes > SMALL:
                self._held.take(self._n_bytes - self.n_held)
                self.n_held = self._n_bytes
            if self._n_bytes > LARGE:
                self._refuse_crowd(message.get("body", b""))
        return message

    def _refuse_crowd(self, part: bytes) -> None:
        """422 for millions of small things: an empty list takes its size many times over."""
        for kind, most in MOST_OF_A_KIND.items():
            self._counts[kind] = self._counts.get(kind, 0) + part.count(kind)
            if self._counts[kind] > most:
                detail = f"a body holds {kind.decode()} at most {most} times"
                raise Problem(ProblemCode.OUT_OF_RANGE, detail, "body")

    def _too_large(self) -> Problem:
        return Problem(
            ProblemCode.BODY_TOO_LARGE, f"a body has at most {self._limit} bytes", "body"
        )


class HeldBodies:
    """Counts the bytes of all bodies that are in memory, and lets them be no more than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._n_bytes = 0

    def take(self, n_bytes: int) -> None:
        """Count further bytes.

        Raises
        ------
        Problem
            503 overloaded; they are not counted then.
        """
        if self._n_bytes + n_bytes > self._most:
            detail = f"bodies of more than {self._most} bytes are under way; this one has to wait"
            raise Problem(ProblemCode.OVERLOADED, detail, "body", retry_after=1)
        self._n_bytes += n_bytes

    def release(self, n_bytes: int) -> None:
        """Count them no more."""
        self._n_bytes -= n_bytes


class SlowBodies:
    """Lets nobody take longer than `seconds` over a body, however it is cut.

    One timer for all who are waited for, rather than one a request: that would cost every request.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadlines: dict[asyncio.Task[Any], float] = {}
        self._is_watching = False

    def deadline(self) -> float:
        """When a body that begins now has to be whole, in the event loop's time."""
        return asyncio.get_running_loop().time() + self._seconds

    async def in_time(self, receive: Receive, deadline: float) -> Message:
        """Return the next message.

        Raises
        ------
        Problem
            408 body_timeout.
        """
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._deadlines[task] = deadline
        if not self._is_watching:
            self._is_watching = True
            loop.call_later(self._seconds, self._look, loop)
        try:
            return await receive()
        except asyncio.CancelledError:
            if loop.time() < deadline or task.uncancel():
                raise
            detail = f"the body did not arrive within {self._seconds:g} s"
            raise Problem(ProblemCode.BODY_TIMEOUT, detail) from None
        finally:
            del self._deadlines[task]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, deadline in list(self._deadlines.items()):
            if deadline <= now:
                task.cancel()
        self._is_watching = bool(self._deadlines)
        if self._is_watching:
            loop.call_later(self._seconds / 4, self._look, loop)
