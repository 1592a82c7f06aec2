"""The composition root: creates the store, the writer, the fits and the web application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import structlog
from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.telemetry import TelemetryConfig
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api import (
    batch,
    credit,
    decisions,
    estimates,
    history,
    keys,
    lift,
    rank,
    rewards,
    series,
    sessions,
    status,
    trajectories,
    transfer,
    webhooks,
)
from service.api.metrics import Metrics
from service.api.routes import add_definitions
from service.api.runtime import Service
from service.base.logs import configure_logs
from service.base.process_pool import Processes
from service.base.recurring import Intervals
from service.base.server_settings import Settings
from service.dashboard import pages as dashboard
from service.fits.fits_in_server import FitPool
from service.lift.watch import LiftWatch
from service.operation.build import log_start
from service.operation.scraped_metrics import scraped_metrics
from service.operation.sweeper import Sweeper
from service.operation.webhooks import WebhookSender
from service.personalizer import events
from service.personalizer.configuration import move_version
from service.session.records import LimitRow
from service.storage.database_url import is_sqlite, open_store
from service.storage.transactions import Store
from service.web.api_keys import KeyWatch
from service.web.connection import MCP_PATH
from service.web.full_tenants import FullTenants
from service.web.middleware import (
    ERROR_ANSWERS,
    Middleware,
    refuse_by_role,
    refuse_unknown_parameters,
)
from service.web.tracing import open_tracing
from service.writer.after_commit import Effects
from service.writer.agent_cache import Agents
from service.writer.group_commit import GroupCommit
from service.writer.large_writes import Slices

if TYPE_CHECKING:
    from service.fits.listener import FitSignals
    from service.web.spans import Tracing

DESCRIPTION = """
Decisions whose rewards come late, mixed together and without saying which action earned them.
A session is one durable agent: ask it for decisions, tell it what was measured.
"""
# FastAPI's own: it misses the hot routes, and its records of errors hold what clients sent
NO_TELEMETRY = TelemetryConfig(tracing=False, metrics=False, logs=False, auto_configure=False)
log = structlog.get_logger()
ROUTERS = (
    *(transfer, sessions, decisions, rewards, batch, history),
    *(estimates, rank, trajectories, credit, series, lift, keys, webhooks),
    *(status, dashboard),
    events,  # with the configuration: Personalizer's
)
# of all applications of a process: FastAPI prepares each router with its first request
ROUTES = APIRouter(
    dependencies=[Depends(refuse_by_role), Depends(refuse_unknown_parameters)],
    generate_unique_id_function=lambda route: route.name,
)
for module in ROUTERS:
    ROUTES.include_router(module.router)


class App(FastAPI):
    """FastAPI behind the one middleware.

    The middleware runs before FastAPI's own layers, which cost more than a decision.
    """

    outer_middleware: Middleware

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve with FastAPI what the middleware does not serve itself."""
        move_version(scope)
        await super().__call__(scope, receive, send)

    def build_middleware_stack(self) -> ASGIApp:
        """Leave out Starlette's `ServerErrorMiddleware`.

        It answers an exception in plain text and raises it again, which closes the connection. Our
        middleware answers it with a problem document.
        """
        stack = super().build_middleware_stack()
        assert isinstance(stack, ServerErrorMiddleware)
        return stack.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass requests to the middleware, and through it lifespan events to FastAPI."""
        await self.outer_middleware(scope, receive, send)


def create_app(
    settings: Settings | None = None,
    store: Store | None = None,
    processes: type[Processes] = Processes,
    intervals: Intervals | None = None,
) -> App:
    """Make the ASGI application; the service behind it runs from start-up to shutdown.

    By default settings are read from the environment, and a store is opened at start-up. A store is
    closed at shutdown. `processes` makes the processes that fit; `intervals` says how often the
    server looks for changes.
    """
    settings = settings or Settings()
    configure_logs(settings.log_level)
    metrics, key_watch, intervals = Metrics(), KeyWatch(), intervals or Intervals()
    tracing = open_tracing("server", settings)

    app: App = App(
        lifespan=lambda _: running(app, settings, metrics, tracing, store, processes, intervals),
        exception_handlers=ERROR_ANSWERS,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages load their scripts from elsewhere
        redoc_url=None,
        telemetry=NO_TELEMETRY,
    )
    app.outer_middleware = Middleware(app.framework, settings, metrics, key_watch, tracing)
    app.state.key_watch = key_watch
    app.router.routes.extend(ROUTES.routes)
    app.openapi = openapi  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def running(
    app: App,
    settings: Settings,
    metrics: Metrics,
    tracing: "Tracing | None",
    store: Store | None,
    processes: type[Processes],
    intervals: Intervals,
) -> AsyncIterator[None]:
    """Run the service behind an application until the block ends."""
    store = store or open_store(settings.database_url)
    agents, sweeper, key_watch = Agents(), Sweeper(), app.state.key_watch
    fits = open_fits(settings, agents, store, metrics, processes)

    def after_commit(effects: Effects) -> None:
        for part in (fits, sweeper, metrics):
            part.after_commit(effects)

    writer = GroupCommit(
        store,
        after_commit=after_commit,
        on_rollback=agents.forget,
        max_batch=settings.max_batch,
        max_queue=settings.max_queue,
    )
    fits.start(writer, store)
    writer.on_batch = metrics.observe_commit
    parts = agents, writer, Slices(writer), fits, metrics, sweeper.abandon
    service = Service(settings, store, *parts, intervals)
    metrics.scraped.append(partial(scraped_metrics, service))
    app.state.service = app.outer_middleware.service = service
    if tracing is not None:
        tracing.follow_writer(writer)
        if isinstance(fits, FitPool):
            tracing.follow_fits(fits)
    app.outer_middleware.admission.committing = writer.committing
    metrics.scraped.append(app.outer_middleware.admission.metrics)
    sweeper.sweep(service)
    full_tenants, rates = FullTenants(service), app.outer_middleware.rates

    def take_limits(rows: list[LimitRow]) -> None:
        rates.set_own(rows)
        full_tenants.wake()

    key_watch.on_limits = take_limits
    await key_watch.start(service)
    await full_tenants.look()
    watches = WebhookSender(service), LiftWatch(service), full_tenants
    for watch in watches:
        watch.start()
    closing = [*watches, key_watch, sweeper, fits, writer, service.parsing, service.playground]
    if not is_sqlite(settings.database_url):  # with the other servers on a PostgreSQL
        from service.web.shared_rates import SharedRates

        closing.insert(0, SharedRates(settings.database_url, rates))
    log_start("server", settings)
    try:
        async with open_door(app, settings):
            yield
    finally:
        for part in closing:
            await part.close()
        service.readers.shutdown()
        store.close()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)
        log.info("stop", program="server")


@cache
def openapi() -> dict[str, Any]:
    """Return what /openapi.json says, of every application."""
    title, routes = "Long-horizon bandits", ROUTES.routes
    schema = get_openapi(title=title, version="1", description=DESCRIPTION, routes=routes)
    return add_definitions(schema)


def open_door(app: App, settings: Settings) -> AbstractAsyncContextManager[None]:
    """Serve /mcp within the block, if it is to be served."""
    if not settings.mcp:
        return nullcontext()
    from service.operation.mcp_door import Door

    door = Door(app)
    # POST alone: a GET would be a stream without an end
    app.router.routes.append(Route(MCP_PATH, door, methods=["POST"], include_in_schema=False))
    return door.running()


def open_fits(
    settings: Settings, agents: Agents, store: Store, metrics: Metrics, processes: type[Processes]
) -> "FitPool | FitSignals":
    """Create this server's own fitting processes, or on PostgreSQL the listener to workers."""
    if is_sqlite(settings.database_url):
        fits = FitPool(settings, agents, kind=processes)
        fits.on_finish = metrics.observe_fit
        return fits
    from service.fits.listener import FitSignals
    from service.storage.postgres.store import PostgresStore

    assert isinstance(store, PostgresStore)
    return FitSignals(store)
