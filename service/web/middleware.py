"""The one middleware, pure ASGI: request id, body limit, error rendering, metrics, a log line."""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from secrets import token_hex
from typing import Any

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.body_parsing import LARGE
from service.api.fast_routes import find_handler
from service.api.parameters import refuse_parameters
from service.logs import REQUEST_ID
from service.metrics import Metrics
from service.problems import MEDIA_TYPE, Problem, ProblemCode, defect
from service.runtime import Service
from service.settings import Settings
from service.web.api_keys import Keyring
from service.web.rate_limit import Rates

log = structlog.get_logger()
IMPORT_PATH = "/v1/sessions/import"
# far above a hundred thousand rewards with all their keys, the most that any body may hold
MOST_OF_A_KIND = {b"[": 10**6, b"{": 10**6, b":": 10**6, b'"': 4 * 10**6}
JSON_TYPE = (b"content-type", b"application/json")
PROBLEM_TYPE = (b"content-type", MEDIA_TYPE.encode())


class Middleware:
    """What every request passes through once. Hot routes are answered here."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        keys: Keyring,
        service: Callable[[], Service],
    ) -> None:
        self._app = app
        self._keys = keys
        self._settings = settings
        self._metrics = metrics
        self._service = service
        per_second = settings.requests_per_second
        self._rates = Rates(per_second, settings.request_burst) if per_second else None
        self._watch = SlowBodies(settings.body_timeout_seconds)
        self._prefix = token_hex(6)
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        request_id = f"{self._prefix}-{next(self._numbers)}".encode()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        scope["lhb.request_id"] = request_id.decode()
        REQUEST_ID.set(scope["lhb.request_id"])
        body = Body(scope, receive, self._settings, self._watch)
        try:
            if "\0" in scope["path"]:
                raise Problem(ProblemCode.UNKNOWN_ROUTE, "no name holds a zero byte")
            scope["lhb.tenant"] = self._keys.tenant_of(scope) if self._keys.is_closed else ""
            if self._rates is not None:
                self._rates.count(scope, is_keyed=self._keys.is_closed)
            body.check_length()
            hot = find_handler(scope)
            if scope["method"] == "HEAD":
                await self._head(scope, body.receive, answer)
            elif hot is None:
                await self._app(scope, body.receive, answer)
            else:
                handler, scope["lhb.route"], session_id = hot
                if scope["query_string"]:
                    refuse_parameters(scope)
                content = await body.read()
                result = await handler(self._service(), scope["lhb.tenant"], session_id, content)
                await send_json(*result, answer)
        except ClientDisconnect:
            pass  # nobody is there to answer
        except Problem as problem:
            if status:
                raise
            await send_problem(problem, answer)
        except Exception:
            if status:
                raise
            log.exception("defect", request_id=scope["lhb.request_id"], path=scope["path"])
            await send_problem(defect(scope["lhb.request_id"]), answer)
        finally:
            seconds = time.perf_counter() - began
            self._metrics.observe_request(scope, status, seconds)
            if self._settings.log_requests:
                log.info(
                    "request",
                    request_id=scope["lhb.request_id"],
                    method=scope["method"],
                    path=scope["path"],
                    status=status,
                    ms=round(seconds * 1000, 3),
                )

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What GET would answer, without its body."""

        async def only_headers(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        as_get = {**scope, "method": "GET"}
        await self._app(as_get, receive, only_headers)
        scope["route"] = as_get.get("route")


async def send_json(status: int, body: bytes, send: Send) -> None:
    """Answer with JSON."""
    headers = [JSON_TYPE, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_problem(problem: Problem, send: Send) -> None:
    """Answer with a problem document."""
    body = problem.body()
    headers = [PROBLEM_TYPE, (b"content-length", str(len(body)).encode())]
    headers += [(k.encode(), v.encode()) for k, v in problem.headers().items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Body:
    """The body as it comes in, watched for size and pace."""

    def __init__(
        self, scope: Scope, receive: Receive, settings: Settings, watch: "SlowBodies"
    ) -> None:
        self._headers = scope["headers"]
        self._receive = receive
        self._is_import = scope["path"] == IMPORT_PATH
        self._limit = settings.max_import_bytes if self._is_import else settings.max_body_bytes
        self._watch = watch
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
        """The next message, which has to come in time."""
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
            if self._n_bytes > LARGE and not self._is_import:
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
        """The next message.

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
