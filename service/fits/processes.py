"""A pool of fitting processes that runs a fit, retries it if its process dies, and records it."""

import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import structlog
from pebble import ProcessExpired, ProcessPool
from pebble.pool.process import WORKERS_NAME

from service.agent_cache import Agents
from service.fits.cost import time_limit
from service.fits.install import FinishFit, RetryPolicy
from service.fits.job import STARVED, prepare_process, run_fit
from service.fits.record import Fitted
from service.fits.slots import Slot, Slots
from service.settings import Settings
from service.writer.group_commit import GroupCommit

log = structlog.get_logger()
Job = Callable[[str, str, str, int, float], str | None]
MAX_DEATHS = 3  # of a fit whose process dies, before the fit counts as failed
PAUSE_SECONDS = 0.5  # until the pool notices that its processes were killed
BUSY_SECONDS = 60.0  # after a fit that got too little idle time, in which no fit runs in idle time


class NotBegun(Exception):
    """No process began the fit in time: all are frozen or still starting."""


class FitProcesses:
    """A pool of processes that fit.

    Parameters
    ----------
    settings : Settings
        Number of processes, niceness, time limits.
    agents : Agents
        The cache of the process that records the results.
    job : callable
        The function that a process runs, with the signature of `run_fit`.

    Attributes
    ----------
    on_finish : callable
        Called with the status and the seconds of every recorded fit.
    """

    def __init__(self, settings: Settings, agents: Agents, job: Job = run_fit) -> None:
        self.job = job
        self.on_finish: Callable[[str, float], None] = lambda status, seconds: None
        self._settings = settings
        self._agents = agents
        self._retry = RetryPolicy(settings.fit_attempts, settings.fit_retry_seconds)
        self._writer: GroupCommit | None = None
        self._pools: dict[bool, ProcessPool] = {}  # by whether it is the spare process
        self._tasks: set[asyncio.Task[Any]] = set()
        self._slots = Slots(settings.fit_workers)
        self._busy_until = 0.0
        self._is_stalled = False  # no process began the last fit

    def warm_up(self) -> None:
        """Create the pool of processes before the first fit."""
        self._processes(is_spare=False)

    async def close(self) -> None:
        """Stop the processes. Due marks stay, and the next start takes the fits up."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for pool in self._pools.values():
            pool.stop()  # type: ignore[no-untyped-call]
            await asyncio.to_thread(pool.join, 5)

    def _processes(self, is_spare: bool) -> ProcessPool:
        pool = self._pools.get(is_spare)
        if pool is None or not pool.active:
            pool = self._pools[is_spare] = ProcessPool(
                max_workers=1 if is_spare else self._settings.fit_workers,
                initializer=prepare_process,
                initargs=(self._settings.fit_niceness, self._settings.fit_memory_mb),
                context=multiprocessing.get_context("spawn"),
            )
        return pool

    def _spawn(self, work: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _freed(self) -> None:
        """Do what follows when a slot is free again."""

    async def _fit(self, slot: Slot, due: int) -> None:
        assert self._writer is not None
        key, began = slot.key, time.monotonic()
        try:
            fitted = await self._fitted(slot, due)
        finally:
            self._slots.release(slot, time.monotonic() - began)
            self._freed()
        if fitted is None:
            return
        finish = FinishFit(key, due, fitted, self._agents, self._retry)
        status = await self._persist(finish)
        seconds = time.monotonic() - began
        if status is not None:
            self.on_finish(status, seconds)
            told = {"session": key[1], "due": due, "seconds": round(seconds, 4)}
            log.info("fit", **told, status=status, **fitted.summary())

    async def _persist(self, finish: FinishFit) -> str | None:
        """Record the result; retry until the database can be written."""
        assert self._writer is not None
        pause = 0.1
        while True:
            try:
                status: str | None = await self._writer.submit(finish)
                return status
            except Exception as error:
                log.warning("fit_not_recorded", session=finish.key[1], reason=str(error))
            await asyncio.sleep(pause)
            pause = min(5.0, 2 * pause)

    async def _fitted(self, slot: Slot, due: int) -> Fitted | None:
        key, limit = slot.key, time_limit(slot.seconds, self._settings)
        is_busy = time.monotonic() < self._busy_until
        idle_seconds, n_died = 0.0 if is_busy else self._settings.fit_idle_seconds, 0
        while True:
            try:
                future = self._processes(slot.is_spare).schedule(
                    self.job,
                    args=(self._settings.database_url, *key, due, idle_seconds),
                    timeout=limit,
                )
                text = await self._result(future)
            except NotBegun as error:
                log.warning("fit_not_begun", session=key[1], due=due, reason=str(error))
                n_died += 1
                if n_died == MAX_DEATHS:
                    return Fitted(None, reason=str(error))
                continue
            except BrokenProcessPool as error:  # the operating system refuses new processes
                self._is_stalled = True
                self._pools.pop(slot.is_spare, None)
                return Fitted(None, reason=f"no process could be started: {error.__cause__}")
            except ProcessExpired as error:
                if error.exitcode == STARVED and idle_seconds:
                    log.info("fit_begun_anew", session=key[1], due=due, reason="no idle time")
                    self._busy_until, idle_seconds = time.monotonic() + BUSY_SECONDS, 0.0
                    continue
                log.warning("fit_process_died", session=key[1], due=due, reason=str(error))
                n_died += 1
                if n_died == MAX_DEATHS:
                    return Fitted(
                        None, reason=f"the fitting process died {MAX_DEATHS} times: {error}"
                    )
                continue
            except TimeoutError:
                reason = f"the fit took longer than {limit:g} s"
                return Fitted(None, reason=reason, is_final=True)
            except Exception as error:  # the job could not read its data
                return Fitted(None, reason=f"{type(error).__name__}: {error}")
            return None if text is None else Fitted(**{"estimate": None, **json.loads(text)})

    async def _result(self, future: Any) -> str | None:
        """Wait for a process's result.

        Raises
        ------
        NotBegun
            No process began it within `fit_start_seconds`; all processes have been killed.
        """
        result, seconds = asyncio.wrap_future(future), self._settings.fit_start_seconds
        try:
            await asyncio.wait([result], timeout=seconds)
            self._is_stalled = not (future.running() or future.done())
            if not self._is_stalled:
                text: str | None = await result
                return text
        finally:
            result.cancel()  # no effect if it is done
        for process in multiprocessing.active_children():
            if process.name == WORKERS_NAME:
                process.kill()  # the pool replaces it
        await asyncio.sleep(PAUSE_SECONDS)
        raise NotBegun(f"no process began the fit within {seconds} s")
