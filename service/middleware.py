"""The one middleware, pure ASGI: request id, body limit, error rendering, metrics, a log line."""

import asyncio
import time
from itertools import count
from secrets import token_hex
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.metrics import Metrics
from service.problems import MEDIA_TYPE, Problem
from service.settings import Settings

log = structlog.get_logger()
PROBLEM_TYPE = (b"content-type", MEDIA_TYPE.encode())


class Front:
    """What every request passes through once."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
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

        scope["lhb.tenant"] = ""
        scope["lhb.request_id"] = request_id.decode()
        body = _Body(scope, receive, self._settings)
        try:
            if "\0" in scope["path"]:
                raise Problem(404, "unknown_route", "no name holds a zero byte")
            body.check_length()
            await self._app(scope, body.receive, answer)
        except Problem as problem:
            if status:
                raise
            await send_problem(problem, answer)
        except Exception as error:
            if status or isinstance(error, asyncio.CancelledError):
                raise
            log.exception("defect", request_id=scope["lhb.request_id"], path=scope["path"])
            detail = f"this is a defect; request {scope['lhb.request_id']} is in the log"
            await send_problem(Problem(500, "internal", detail), answer)
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


async def send_problem(problem: Problem, send: Send) -> None:
    """Answer with a problem document."""
    body = problem.body()
    headers = [PROBLEM_TYPE, (b"content-length", str(len(body)).encode())]
    headers += [(k.encode(), v.encode()) for k, v in problem.headers().items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Body:
    """The body as it comes in, watched for size and pace."""

    def __init__(self, scope: Scope, receive: Receive, settings: Settings) -> None:
        self._headers = scope["headers"]
        self._receive = receive
        self._limit = settings.max_body_bytes
        self._seconds = settings.body_timeout_seconds
        self._n_bytes = 0
        self._is_whole = False

    def check_length(self) -> None:
        """Refuse a body that announces itself as too large, before reading any of it."""
        for name, value in self._headers:
            if name == b"content-length" and value.isdigit() and int(value) > self._limit:
                raise self._too_large()

    async def receive(self) -> Message:
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout(self._seconds):
                message = await self._receive()
        except TimeoutError:
            detail = f"the body did not arrive within {self._seconds:g} s"
            raise Problem(408, "body_timeout", detail) from None
        if message["type"] == "http.request":
            self._n_bytes += len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._n_bytes > self._limit:
                raise self._too_large()
        return message

    def _too_large(self) -> Problem:
        return Problem(413, "body_too_large", f"a body has at most {self._limit} bytes", "body")


def tenant_of(scope: Any) -> str:
    """Whose data this request may see."""
    return str(scope["lhb.tenant"])
