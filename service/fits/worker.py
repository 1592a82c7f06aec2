"""`lhb worker`: claims due fits in a shared PostgreSQL, runs them, records what they find.

The due mark in the session row is the truth. A notification wakes a worker; a sweep finds the rest:
marks left by dead workers, and fits that time alone made due.
"""

import asyncio
import contextlib
import signal
from typing import Any

import structlog
from prometheus_client import start_http_server

from service.agent_cache import Agents
from service.fits.job import run_fit
from service.fits.processes import FitProcesses, Job
from service.fits.schedule import Tick
from service.logs import configure_logs
from service.metrics import Metrics
from service.problems import Problem, Unavailable
from service.records import SessionKey
from service.settings import Settings
from service.storage.database_url import is_sqlite
from service.storage.ports import Refused
from service.storage.postgres.fits import Claims
from service.storage.postgres.store import PostgresStore
from service.writer.group_commit import GroupCommit

log = structlog.get_logger()
SWEEP_SECONDS = 1.0
GRACE_SECONDS = 20.0  # for fits that run when the worker is asked to stop


class EmbeddedElsewhere(Refused):
    """A server on SQLite fits by itself; workers need PostgreSQL."""


class Worker(FitProcesses):
    """One process that claims, and `fit_workers` that fit.

    Parameters
    ----------
    settings : Settings
        Which database, how many processes.
    """

    def __init__(self, settings: Settings, store: PostgresStore, job: Job = run_fit) -> None:
        super().__init__(settings, Agents(), job)
        self._url = settings.database_url
        self._writer = GroupCommit(
            store, after_commit=lambda effects: None, on_rollback=self._agents.forget
        )
        self._running: dict[SessionKey, asyncio.Task[Any]] = {}
        self._ticked: dict[SessionKey, float] = {}
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Claim nothing more; `run` returns once the fits that run are recorded."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped; reconnect whenever the database is lost."""
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
        """Kill the fits that still run; their due marks stay."""
        await super().close()
        assert self._writer is not None
        await self._writer.close()

    async def _sweep(self, claims: Claims) -> float:
        """Release finished fits, claim due ones; return the seconds until the next sweep."""
        for key in [key for key, task in self._running.items() if task.done()]:
            del self._running[key]
            await claims.release(key)
        n_free = self._settings.fit_workers - len(self._running)
        if n_free > 0:
            for key, due in await claims.claim(list(self._running), n_free):
                self._running[key] = self._spawn(self._fit(key, due))
        assert self._writer is not None
        now = self._writer.clock()
        overdue, following = await claims.overdue(now)
        ticked, self._ticked = self._ticked, dict(overdue)
        for key, at in overdue:
            if ticked.get(key) != at:
                self._spawn(self._tick(key))
        return SWEEP_SECONDS if following is None else min(SWEEP_SECONDS, following - now + 0.001)

    async def _tick(self, key: SessionKey) -> None:
        assert self._writer is not None
        try:
            await self._writer.submit(Tick(key))
        except Problem as problem:
            self._ticked.pop(key, None)
            log.warning("tick_failed", session=key[1], reason=problem.detail)

    async def _wait(self, claims: Claims, seconds: float) -> None:
        heard = asyncio.create_task(claims.wait(seconds))
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([heard, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if heard.done():
            heard.result()
        else:
            heard.cancel()


def run(settings: Settings | None = None, job: Job = run_fit) -> None:
    """Work until SIGTERM or SIGINT.

    Raises
    ------
    Refused
        The database is SQLite, or has another schema, or may lose data.
    """
    settings = settings or Settings()
    configure_logs(settings.log_level)
    if is_sqlite(settings.database_url):
        raise EmbeddedElsewhere(
            "the server on SQLite fits by itself: workers need a postgresql:// LHB_DATABASE_URL"
        )
    store = PostgresStore(settings.database_url)
    try:
        worker = Worker(settings, store, job)
        if settings.metrics_port:
            show_metrics(worker, settings.metrics_host, settings.metrics_port)
        asyncio.run(_run(worker))
    finally:
        store.close()


def show_metrics(worker: Worker, host: str, port: int) -> None:
    """Serve this worker's metrics to Prometheus."""
    metrics = Metrics()
    worker.on_finish = metrics.observe_fit
    try:
        start_http_server(port, host, metrics.registry)
    except OSError as error:
        raise Refused(f"cannot show metrics on {host}:{port}: {error.strerror}") from None


async def _run(worker: Worker) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    worker.warm_up()
    print("working", flush=True)
    try:
        await worker.run()
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await worker.close()
