"""The one ASGI middleware: request id, access, limits, hot routes, errors, metrics and log line."""

import time
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api import batch, decisions, rewards
from service.api.access import ADMIN, EVERYBODY, NEEDED, ROLES, WRITER
from service.api.metrics import Metrics
from service.api.routes import Handler
from service.api.runtime import Service, service_of
from service.api.session_names import is_by_name, replace_name
from service.base.field_types import field_name, in_words
from service.base.logs import REQUEST_ID, log_failure, shown_path
from service.base.problems import Problem, ProblemCode, defect
from service.base.server_settings import Settings
from service.base.session_ids import has_form_of_id
from service.personalizer.errors import problem_answer
from service.web.admission import Admission, may_refuse
from service.web.api_keys import KeyWatch
from service.web.connection import API_HEADERS, is_for_data
from service.web.cross_site import CrossSiteCheck
from service.web.full_tenants import refuse_full
from service.web.proxies import TrustedProxies
from service.web.rate_limit import RateLimit
from service.web.request_body import BodyDeadlines, BodyMemory, RequestBody
from service.web.request_log import Asked, RequestIds, RequestLog, trace_of

BATCH_ROUTE = "/v1/batch"
HANDLERS: dict[str, tuple[Handler, str]] = {
    "decisions": (decisions.post_decision, "/v1/sessions/{session_id}/decisions"),
    "rewards": (rewards.post_rewards, "/v1/sessions/{session_id}/rewards"),
}
if TYPE_CHECKING:
    from service.web.spans import RequestSpan, Tracing

log = structlog.get_logger()
NO_MORE: dict[str, str] = {}
JSON = "application/json"
HOT_HEADERS = f"content-type: {JSON}\r\n".encode() + b"".join(
    b"%b: %b\r\n" % header for header in API_HEADERS
)


class Middleware:
    """Checks every request, then serves hot routes itself and passes the others to FastAPI.

    While there are no keys, what pages of other sites send is refused. The running service is to be
    set at start-up.
    """

    service: Service

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        keys: KeyWatch,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._app = app
        self._keys = keys
        self._settings = settings
        self._metrics = metrics
        self.admission = Admission(settings.max_wait_seconds)
        is_logged = settings.log_requests and settings.log_level in ("debug", "info")
        self._log = RequestLog() if is_logged else None
        self._tracing = tracing
        self.rates = RateLimit(settings.requests_per_second, settings.request_burst)
        self._deadlines = BodyDeadlines(settings.body_timeout_seconds)
        self.cross_site = CrossSiteCheck(settings.allowed_hosts)
        self._memory = BodyMemory(max(settings.max_bodies_bytes, settings.max_body_bytes))
        self._ids = RequestIds()
        named = settings.trusted_proxies
        self._proxies = TrustedProxies(named) if named else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or pass on a lifespan event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        if "lhb.connection" in scope:
            self.admission.begin()
        headers = dict(scope["headers"])
        request_id = scope["lhb.request_id"] = self._ids.id_of(headers)
        if scope["path"] == BATCH_ROUTE:
            REQUEST_ID.set(request_id)
        span = None
        if self._tracing is not None and is_for_data(scope["path"]):
            span = self._tracing.begin(scope, headers)
        exchange = Exchange(scope, receive, self._settings, self._deadlines, self._memory)
        exchange.send = send
        if self._proxies is not None:
            self._proxies.find_client(scope)
        try:
            self._check(scope, headers, exchange)
            await self._serve(scope, exchange)
        except ClientDisconnect:
            pass  # the client is gone
        except Problem as problem:
            if exchange.status:
                raise
            scope["lhb.problem"] = problem
            await send_problem(problem, scope["path"], exchange.answer)
        except Exception:
            if exchange.status:
                raise
            log.exception("defect", **self._request(scope))
            await send_problem(defect(scope["lhb.request_id"]), scope["path"], exchange.answer)
        finally:
            if exchange.n_held:
                self._memory.release(exchange.n_held)
            self._note(scope, headers, span, exchange.status, time.perf_counter() - began)

    def _check(self, scope: Scope, headers: dict[bytes, bytes], body: RequestBody) -> None:
        """Refuse a request by key, or without one by address, by origin, rate, load or length."""
        if "\0" in scope["path"]:
            raise Problem(ProblemCode.UNKNOWN_ROUTE, "a path holds no zero byte")
        try:
            access = scope["lhb.access"] = self._keys.access_of(scope)
        except Problem:
            if self.rates.is_on:
                self.rates.count_stranger(scope)
            raise
        scope["lhb.tenant"] = access.tenant
        if access is EVERYBODY:
            self.cross_site.check(headers, scope)
        if self.rates.is_on:
            self.rates.count(scope, is_keyed=self._keys.is_closed)
        if "lhb.late" in scope and may_refuse(scope):
            self.admission.n_refused += 1
            raise self.admission.problem()
        body.check_headers(headers)

    async def _serve(self, scope: Scope, exchange: "Exchange") -> None:
        """Serve a request by its hot handler, or else by FastAPI."""
        hot = find_handler(scope)
        if (hot is None or not has_form_of_id(hot[2])) and is_by_name(scope):
            await replace_name(self.service, scope["lhb.tenant"], scope)
            hot = find_handler(scope)
        if hot is None:
            serve = self._head if scope["method"] == "HEAD" else self._app
            await serve(scope, exchange.receive, exchange.answer)
            return
        handler, scope["lhb.route"], session_id = hot
        access, service = scope["lhb.access"], self.service
        if access.rank < ADMIN:
            refuse_role(access.rank, "POST", scope["lhb.route"])
        if service.full_tenants:
            refuse_full(service, access.tenant)
        if scope["query_string"]:
            refuse_parameters(scope)
        content = exchange.arrived() or await exchange.read()
        status, content = await handler(service, access.tenant, session_id, content)
        connection = scope.get("lhb.connection")
        if connection is None or not connection.answer_at_once(
            scope, status, HOT_HEADERS, scope["lhb.request_id"], content
        ):
            await send_whole(status, content, exchange.answer)
        exchange.status = status

    def _note(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        span: "RequestSpan | None",
        status: int,
        seconds: float,
    ) -> None:
        """Count a request that is over, end its span, and write its line of the log."""
        self._metrics.observe_request(scope, status, seconds)
        if self._tracing is not None and span is not None:
            self._tracing.end(span, scope, status)
        if "lhb.problem" in scope:
            if status >= 500:
                log_failure(scope["lhb.problem"], **self._request(scope))
            del scope["lhb.problem"]  # its traceback refers to the body, and this scope to it
        if self._log is not None:
            trace = scope.get("lhb.trace", NO_MORE)
            if b"traceparent" in headers:
                trace = trace_of(headers) | trace
            self._log.add(self._asked(scope), scope["lhb.request_id"], trace, status, seconds)

    def _asked(self, scope: Scope) -> Asked:
        """Return what a request's log line has in common with others."""
        client, access = scope.get("client"), scope.get("lhb.access")
        key = access.key_id if access is not None else None
        if key is None and self._keys.is_closed:
            key = self._keys.id_of(scope)
        address = client[0] if client else None
        return scope["method"], scope["path"], scope.get("lhb.tenant"), key, address

    @staticmethod
    def _request(scope: Scope) -> dict[str, str]:
        """Return what every line about a request says of it."""
        ids = {"request_id": scope["lhb.request_id"], **trace_of(dict(scope["headers"]))}
        ids |= scope.get("lhb.trace", {})
        return {**ids, "method": scope["method"], "path": shown_path(scope["path"])}

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a HEAD request: run the GET endpoint and send its headers only."""

        async def only_headers(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, only_headers)
        finally:
            scope["route"] = as_get.get("route")


class Exchange(RequestBody):
    """A request's body, and its answer on its way out, with the headers that every answer has.

    `send` is to be set. `status` is 0 until the answer has begun. An answer that comes before the
    end of the request's body closes the connection.
    """

    send: Send
    status = 0

    async def answer(self, message: Message) -> None:
        """Pass on a message."""
        if message["type"] == "http.response.start":
            scope = self.scope
            self.status = message["status"]
            named = (b"x-request-id", scope["lhb.request_id"].encode())
            message["headers"] = [*message["headers"], named]
            if is_for_data(scope["path"]):
                message["headers"] += API_HEADERS
            if not self.is_whole and "lhb.connection" in scope:
                await scope["lhb.connection"].begin_answer(scope, message, self.send)
                return
        await self.send(message)


async def send_whole(
    status: int, body: bytes, send: Send, kind: str = JSON, more: Mapping[str, str] = NO_MORE
) -> None:
    """Send a response of one piece, with its media type and more headers."""
    headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
    headers += [(name.encode(), value.encode()) for name, value in more.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_problem(problem: Problem, path: str, send: Send) -> None:
    """Send a problem document, or what stands for one under this path."""
    status, body, kind = problem_answer(problem, path)
    await send_whole(status, body, send, kind, problem.headers())


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: ProblemCode.UNKNOWN_ROUTE, 405: ProblemCode.METHOD_NOT_ALLOWED}
    problem = Problem(codes.get(error.status_code, ProblemCode.HTTP_ERROR), str(error.detail))
    problem.status = error.status_code
    request.scope["lhb.problem"] = problem
    status, body, kind = problem_answer(problem, request.scope["path"])
    return Response(body, status, error.headers, kind)


async def _parameters(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = field_name(tuple(first["loc"][1:]))
    raise Problem(ProblemCode.INVALID, f"{field}: {in_words(first['msg'])}", field)


ERROR_ANSWERS: dict[Any, Any] = {HTTPException: _http, RequestValidationError: _parameters}


def find_handler(scope: Scope) -> tuple[Handler, str, str] | None:
    """Return the handler, path template and session id ("" of a batch) of a hot route, or None.

    Hot routes bypass FastAPI, which costs more than the rest of a decision. FastAPI has routes for
    the same paths, too, for the OpenAPI schema and for requests that no hot route matches.
    """
    if scope["method"] != "POST":
        return None
    path = scope["path"]
    if path == BATCH_ROUTE:
        return batch.post_batch, BATCH_ROUTE, ""
    parts = path.split("/")
    if len(parts) != 5 or parts[2] != "sessions" or parts[1] != "v1" or parts[4] not in HANDLERS:
        return None
    return *HANDLERS[parts[4]], parts[3]


def refuse_role(rank: int, method: str, route: str) -> None:
    """Raise a 403 forbidden if a role, by its place in `ROLES`, is too low for a path template."""
    needed = NEEDED.get((method, route), ADMIN)
    if rank < needed:
        role = "no key" if rank < 0 else f"a key with the role {ROLES[rank]!r}"
        detail = f"this needs a key with the role {ROLES[needed]!r}, and came with {role}"
        raise Problem(ProblemCode.FORBIDDEN, detail, "authorization")


async def refuse_by_role(request: Request) -> None:
    """Refuse a request of a FastAPI route by its role, and what stores more by `refuse_full`."""
    access, route = request.scope["lhb.access"], request.scope["route"].path
    refuse_role(access.rank, request.method, route)
    if request.method == "POST" and NEEDED.get((request.method, route)) == WRITER:
        refuse_full(service_of(request), access.tenant)


async def refuse_unknown_parameters(request: Request) -> None:
    """Raise a 422 for a parameter that the endpoint, a FastAPI route, does not declare."""
    route = request.scope["route"]
    refuse_parameters(request.scope, {field.alias for field in route.dependant.query_params})


def refuse_parameters(scope: Scope, names: Container[str] = ()) -> None:
    """Raise a 422 for a query parameter that a route does not take; hot routes take none."""
    for name, _ in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if name not in names:
            detail = f"this route takes no query parameter {name!r}"
            raise Problem(ProblemCode.UNKNOWN_PARAMETER, detail, name)
