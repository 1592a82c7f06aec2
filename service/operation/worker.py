"""`lhb worker`: claims due fits in a shared PostgreSQL, runs them and records their results.

A fit is due if the session's row has a due mark. A notification of a new mark wakes a worker. A
periodic sweep finds the others: marks left by dead workers, and fits that became due by time alone.
A worker whose processes do not begin a fit gives it back for others to claim. It claims nothing
more, and readiness does not count it, until its processes begin again.
"""

import asyncio
import contextlib
import signal
from collections.abc import Callable
from typing import Any

import structlog
from prometheus_client import start_http_server

from service.api.metrics import Metrics
from service.base.logs import configure_logs
from service.base.problems import Problem, Unavailable
from service.base.process_pool import Processes
from service.base.server_settings import Settings
from service.fits.cost import due_cost
from service.fits.job import run_fit
from service.fits.processes import FitProcesses, Job
from service.fits.when_due import tick
from service.operation.build import build_info, log_start
from service.session.records import SessionKey
from service.storage.database_url import is_sqlite
from service.storage.ports import Refused
from service.storage.postgres.fit_claims import Claims
from service.storage.postgres.store import PostgresStore
from service.web.tracing import open_tracing
from service.writer.after_commit import Effects
from service.writer.agent_cache import Agents
from service.writer.group_commit import GroupCommit

log = structlog.get_logger()
SWEEP_SECONDS = 1.0
GRACE_SECONDS = 20.0  # for running fits to end when the worker is stopped


class Worker(FitProcesses):
    """Claims due fits, and runs them in `fit_workers` processes; `kind` makes these."""

    def __init__(
        self, settings: Settings, store: PostgresStore, kind: type[Processes] = Processes
    ) -> None:
        super().__init__(settings, Agents(), kind)
        self.after_commit: Callable[[Effects], None] = lambda effects: None
        self._url = settings.database_url
        self._writer = GroupCommit(
            store,
            after_commit=lambda effects: self.after_commit(effects),
            on_rollback=self._agents.forget,
        )
        self._running: dict[SessionKey, asyncio.Task[Any]] = {}
        self._ticked: dict[SessionKey, float] = {}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Claim no more fits; `run` returns after the running fits, or after `GRACE_SECONDS`."""
        self._stopping.set()

    async def run(self) -> None:
        """Claim and run fits until `stop`; reconnect if the connection is lost."""
        pause = 0.1
        while not self._stopping.is_set():
            try:
                async with Claims.open(self._url) as claims:
                    pause = 0.1
                    while not self._stopping.is_set():
                        await self._wait(claims, await self._sweep(claims))
                    if self._running:
                        await asyncio.wait(self._running.values(), timeout=GRACE_SECONDS)
            except Unavailable as error:
                log.warning("database_lost", reason=error.detail)
                await asyncio.sleep(pause)
                pause = min(5.0, 2 * pause)

    async def close(self) -> None:
        """Kill the running fits. Their due marks stay, and another worker takes them up."""
        await super().close()
        await self._writer.close()

    async def _sweep(self, claims: Claims) -> float:
        """Release finished fits, claim due ones; return the seconds until the next sweep."""
        for key in [key for key, task in self._running.items() if task.done()]:
            del self._running[key]
            await claims.release(key)
        await claims.show(self.is_stalled)
        if self._places.room > 0 and not self.is_stalled:
            await self._claim(claims)
        now = self._writer.clock()
        overdue, following = await claims.overdue(now)
        ticked, self._ticked = self._ticked, dict(overdue)
        for key, at in overdue:
            if ticked.get(key) != at:
                self._spawn(self._tick(key))
        return SWEEP_SECONDS if following is None else min(SWEEP_SECONDS, following - now + 0.001)

    async def _claim(self, claims: Claims) -> None:
        """Claim as many due fits as there are processes for, each in its turn."""
        due = {fit.key: fit for fit in await claims.due() if fit.key not in self._running}
        waiting = {key: due_cost(*fit[2:], fit.due).seconds for key, fit in due.items()}
        while place := self._places.take(waiting):
            del waiting[place.key]
            is_claimed = False
            try:
                is_claimed = await claims.claim(place.key)
            finally:  # the connection may be lost meanwhile
                if not is_claimed:
                    self._places.release(place, 0.0)
            if is_claimed:
                self._running[place.key] = self._spawn(self._fit(place, due[place.key].due))

    async def _tick(self, key: SessionKey) -> None:
        try:
            await self._writer.submit(tick(key))
        except Problem as problem:
            self._ticked.pop(key, None)
            log.warning("tick_failed", session=key[1], reason=problem.detail)

    async def _wait(self, claims: Claims, seconds: float) -> None:
        hearing = asyncio.create_task(claims.wait(seconds))
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([hearing, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if hearing.done():
            hearing.result()
        else:
            hearing.cancel()


def run(settings: Settings | None = None, job: Job = run_fit) -> None:
    """Run a worker until SIGTERM or SIGINT, by default with the environment's settings.

    Raises `Refused`: the database is SQLite, has another schema, or is configured so that commits
    may be lost; or the metrics' port cannot be opened.
    """
    settings = settings or Settings()
    configure_logs(settings.log_level)
    if is_sqlite(settings.database_url):
        raise Refused(
            "the server on SQLite fits by itself: workers need a postgresql:// LHB_DATABASE_URL"
        )
    tracing = open_tracing("worker", settings)
    store = PostgresStore(settings.database_url)
    try:
        worker = Worker(settings, store)
        worker.job = job
        if tracing is not None:
            tracing.follow_fits(worker)
        if settings.metrics_port:
            metrics, host, port = Metrics(), settings.metrics_host, settings.metrics_port
            metrics.scraped.append(build_info)
            worker.on_finish, worker.after_commit = metrics.observe_fit, metrics.after_commit
            try:
                start_http_server(port, host, metrics.registry)
            except OSError as error:
                detail = f"cannot serve metrics on {host}:{port}: {error.strerror}"
                raise Refused(detail) from None
        log_start("worker", settings)
        asyncio.run(_run(worker))
        log.info("stop", program="worker")
    finally:
        store.close()
        if tracing is not None:
            tracing.close()


async def _run(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    print("working", flush=True)
    try:
        await worker.run()
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await worker.close()
