"""The composition root: the only place that puts concrete parts together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from service.agent_cache import Agents
from service.api import (
    batch,
    credit,
    decisions,
    estimates,
    events,
    history,
    rank,
    rewards,
    rounds,
    sessions,
    status,
)
from service.api.documentation import add_definitions
from service.api.parameters import refuse_unknown_parameters
from service.field_types import field_name
from service.fits.embedded import FitPool
from service.logs import configure_logs
from service.metrics import Metrics
from service.problems import MEDIA_TYPE, Problem, ProblemCode, Unavailable
from service.runtime import Fits, Service
from service.settings import Settings
from service.storage.database_url import is_sqlite, open_store
from service.storage.ports import Store
from service.web.api_keys import Keyring
from service.web.middleware import Middleware
from service.writer.group_commit import GroupCommit

DESCRIPTION = """
Decisions whose rewards come late, mixed together and without saying which action earned them.
A session is one durable agent: ask it for decisions, tell it what was measured.
"""


RELOAD_SECONDS = 5.0  # after so long every server knows a new key, and that one is revoked
ROUTERS = (
    *(events, sessions, decisions, rewards, batch, history),
    *(estimates, rank, rounds, credit, status),
)


class App(FastAPI):
    """FastAPI behind the one middleware.

    The middleware is outside, since even FastAPI's own layers cost more than a decision.
    """

    front: Middleware

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything that the front does not answer itself."""
        await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Leave out the outermost layer: the middleware answers a defect as a problem.

        That layer answers in plain text and raises the error again, which cuts the connection.
        """
        stack = super().build_middleware_stack()
        assert isinstance(stack, ServerErrorMiddleware)
        return stack.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass requests to the middleware, start-up and shutdown to the framework."""
        await self.front(scope, receive, send)


def create_app(settings: Settings | None = None, store: Store | None = None) -> FastAPI:
    """Make the service over `settings`; its parts live from start-up to shutdown.

    A `store` that is open already is used, and closed at the end.
    """
    settings = settings or Settings()
    configure_logs(settings.log_level)
    metrics, keys = Metrics(), Keyring()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = start_service(settings, metrics, store)
        app.state.service = service
        reloading = await watch_keys(keys, service)
        try:
            yield
        finally:
            reloading.cancel()
            await service.fits.close()
            await service.writer.close()
            service.readers.shutdown()
            service.store.close()

    app = App(
        title="Long-horizon bandits",
        version="1",
        description=DESCRIPTION,
        lifespan=lifespan,
        exception_handlers=HANDLERS,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.front = Middleware(app.framework, settings, metrics, keys, lambda: app.state.service)
    for module in ROUTERS:
        app.include_router(module.router)
    describe = app.openapi
    app.openapi = lambda: add_definitions(describe())  # type: ignore[method-assign]
    return app


def start_service(settings: Settings, metrics: Metrics, store: Store | None = None) -> Service:
    """Open the store, restore what is due, and be ready for requests."""
    store = store or open_store(settings.database_url)
    agents = Agents()
    fits = open_fits(settings, agents, store, metrics)
    writer = GroupCommit(
        store,
        after_commit=fits.after_commit,
        on_rollback=agents.forget,
        max_batch=settings.max_batch,
        max_queue=settings.max_queue,
    )
    fits.start(writer, store)
    metrics.gauges.update(
        {
            "lhb_commands_waiting": ("Commands that wait for a commit", lambda: writer.n_waiting),
            "lhb_commits_total": ("Transactions committed", lambda: writer.n_batches),
            "lhb_commands_total": ("Commands committed", lambda: writer.n_commands),
        }
    )
    metrics.fit_queue = fits.queue
    return Service(settings, store, agents, writer, fits, metrics)


async def watch_keys(keys: Keyring, service: Service) -> "asyncio.Task[None]":
    """Read the keys, and on a database that others write read them again and again."""

    def read() -> None:
        with service.store.reader() as reader:
            keys.load(reader.api_keys())

    async def read_again() -> None:
        while not is_sqlite(service.settings.database_url):
            await asyncio.sleep(RELOAD_SECONDS)
            with contextlib.suppress(Unavailable):  # nothing is served then
                await service.read(read)

    await service.read(read)
    return asyncio.create_task(read_again())


def open_fits(settings: Settings, agents: Agents, store: Store, metrics: Metrics) -> Fits:
    """Open this server's own fitting processes, or the line to workers that share its database."""
    if is_sqlite(settings.database_url):
        fits = FitPool(settings, agents)
        fits.on_finish = metrics.observe_fit
        return fits
    from service.fits.listener import FitSignals
    from service.storage.postgres.store import PostgresStore

    assert isinstance(store, PostgresStore)
    return FitSignals(store)


async def _problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return Response(problem.body(), problem.status, problem.headers(), MEDIA_TYPE)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: ProblemCode.UNKNOWN_ROUTE, 405: ProblemCode.METHOD_NOT_ALLOWED}
    problem = Problem(codes.get(error.status_code, ProblemCode.HTTP_ERROR), str(error.detail))
    problem.status = error.status_code
    headers = {**(error.headers or {})}
    return Response(problem.body(), problem.status, headers, MEDIA_TYPE)


async def _parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"code": ProblemCode.INVALID, "field": field_name(tuple(e["loc"][1:])), "detail": e["msg"]}
        for e in error.errors()
    ]
    top = errors[0]
    problem = Problem(ProblemCode.INVALID, f"{top['field']}: {top['detail']}", top["field"])
    return Response(problem.body(), problem.status, media_type=MEDIA_TYPE)


HANDLERS: dict[Any, Any] = {
    Problem: _problem,
    HTTPException: _http,
    RequestValidationError: _parameters,
}
