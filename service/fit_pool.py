"""Fits in supervised processes of their own; the database says which, this is only the wake-up."""

import asyncio
import json
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import structlog
from pebble import ProcessExpired, ProcessPool

from service.agents import Agents
from service.fit_job import prepare_process, run_fit
from service.fits import FinishFit, Fitted, RetryPolicy, Tick
from service.group_commit import GroupCommit
from service.records import SessionKey
from service.settings import Settings
from service.storage.ports import Store
from service.storage.unit_of_work import Effects

log = structlog.get_logger()
Job = Callable[[str, str, str, int], str | None]
TRIES = 3  # of a fit whose process dies under it, before that counts as a failure


class FitPool:
    """Runs due fits, installs what they find, wakes who waits for it.

    Parameters
    ----------
    settings : Settings
        Number of processes, niceness, time limits.
    job : callable
        What a process runs: database URL, tenant, session id, due round -> JSON or None.
    """

    def __init__(self, settings: Settings, agents: Agents, job: Job = run_fit) -> None:
        self.job = job
        self._settings = settings
        self._agents = agents
        self._retry = RetryPolicy(settings.fit_attempts, settings.fit_retry_seconds)
        self._writer: GroupCommit | None = None
        self._pool: ProcessPool | None = None
        self._timers: dict[SessionKey, asyncio.TimerHandle] = {}
        self._due: dict[SessionKey, int] = {}
        self._waiters: dict[SessionKey, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.on_finish: Callable[[str, float], None] = lambda status, seconds: None

    @property
    def n_jobs(self) -> int:
        """Fits at work or queued for a process."""
        return len(self._due)

    def start(self, writer: GroupCommit, store: Store) -> None:
        """Take up what the database says is due, and what time will make due."""
        self._writer = writer
        with store.reader() as reader:
            unfinished = reader.unfinished()
        for key, due, wake_at in unfinished:
            if due is not None:
                self._run(key, due)
            if wake_at is not None:
                self._wake_at(key, wake_at)

    def after_commit(self, effects: Effects) -> None:
        """Act on what a batch has made durable."""
        for key in effects.installed | effects.removed:
            self._due.pop(key, None)
            event = self._waiters.pop(key, None)
            if event is not None:
                event.set()
        for key, due in effects.due.items():
            self._run(key, due)
        for key, at in effects.timed.items():
            self._wake_at(key, at)

    async def wait(self, key: SessionKey, due: int, seconds: float) -> bool:
        """Wait until the session's fit is installed; False after so many seconds."""
        if self._due.get(key) != due:
            return True
        event = self._waiters.setdefault(key, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Stop the processes; due marks stay, so that the next start takes the fits up."""
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]
            await asyncio.to_thread(self._pool.join, 5)

    def warm_up(self) -> None:
        """Start the processes before the first fit asks for them."""
        self._processes()

    def _processes(self) -> ProcessPool:
        if self._pool is None or not self._pool.active:
            self._pool = ProcessPool(
                max_workers=self._settings.fit_workers,
                initializer=prepare_process,
                initargs=(self._settings.fit_niceness,),
                context=multiprocessing.get_context("spawn"),
            )
        return self._pool

    def _run(self, key: SessionKey, due: int) -> None:
        self._due[key] = due
        task = asyncio.get_running_loop().create_task(self._fit(key, due))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fit(self, key: SessionKey, due: int) -> None:
        assert self._writer is not None
        began = time.monotonic()
        fitted = await self._fitted(key, due)
        if fitted is None:
            return
        finish = FinishFit(key, due, fitted, self._agents, self._retry)
        status = await self._persist(finish)
        seconds = time.monotonic() - began
        if status is not None:
            self.on_finish(status, seconds)
            log.info("fit", session=key[1], due=due, status=status, seconds=round(seconds, 4))

    async def _persist(self, finish: FinishFit) -> str | None:
        """Installation waits for a store that cannot write just now."""
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

    async def _fitted(self, key: SessionKey, due: int) -> Fitted | None:
        for trial in range(1, TRIES + 1):
            future = self._processes().schedule(
                self.job,
                args=(self._settings.database_url, *key, due),
                timeout=self._settings.fit_timeout_seconds,
            )
            try:
                text = await asyncio.wrap_future(future)
            except ProcessExpired as error:
                log.warning("fit_process_died", session=key[1], due=due, reason=str(error))
                if trial == TRIES:
                    return Fitted(None, reason=f"the fitting process died {TRIES} times: {error}")
                continue
            except TimeoutError:
                seconds = self._settings.fit_timeout_seconds
                return Fitted(None, reason=f"the fit took longer than {seconds} s")
            except Exception as error:  # the job could not read its data
                return Fitted(None, reason=f"{type(error).__name__}: {error}")
            return None if text is None else Fitted(**{"estimate": None, **json.loads(text)})
        raise AssertionError("unreachable")

    def _wake_at(self, key: SessionKey, at: float) -> None:
        loop = asyncio.get_running_loop()
        pending = self._timers.pop(key, None)
        if pending is not None:
            pending.cancel()
        delay = max(0.0, at - time.time()) + 0.001
        self._timers[key] = loop.call_later(delay, self._tick, key)

    def _tick(self, key: SessionKey) -> None:
        self._timers.pop(key, None)
        task = asyncio.get_running_loop().create_task(self._submit_tick(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _submit_tick(self, key: SessionKey) -> None:
        assert self._writer is not None
        try:
            await self._writer.submit(Tick(key))
        except Exception as error:
            log.warning("tick_failed", session=key[1], reason=str(error))
            self._wake_at(key, time.time() + 1.0)
