"""A pool of processes that says so in time when no process begins a piece of work."""

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from time import monotonic
from typing import Any

import structlog
from pebble import ProcessExpired, ProcessPool

from service.base.logs import configure_logs

log = structlog.get_logger()
PAUSE_SECONDS = 0.5  # until the pool notices that its processes were killed
LOOK_SECONDS = 0.05  # between two looks whether a process has begun


class NotBegun(Exception):
    """No process began the work: all are frozen or starting, or the system refuses to start any."""


def _begin(prepare: Callable[..., object], *arguments: Any) -> None:
    """Prepare a process, whose lines are those of a log, too."""
    configure_logs("warning")
    prepare(*arguments)


class Processes:
    """`n` processes that start with the first work and live on.

    Each first calls the function that `prepare` begins with, on the arguments after it.
    No more than `n` pieces of work may be under way at once: one that waits behind another would
    seem not to begin, which each does within `start_seconds`. `is_stalled`: no process began the
    last piece of work.
    """

    def __init__(self, n: int, prepare: tuple[Any, ...], start_seconds: float) -> None:
        self._n, self._prepare, self._start_seconds = n, prepare, start_seconds
        self._pool: ProcessPool | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._n_running = 0
        self.is_stalled = False

    async def run(
        self,
        work: Callable[..., Any],
        *arguments: Any,
        seconds: float,
        start_seconds: float | None = None,
    ) -> Any:
        """Run a function in a process, and return what it returns or raise what it raises.

        The function may take `seconds` from its beginning, else TimeoutError. Raises `NotBegun`,
        with all processes killed, where no process began it in `start_seconds`, by default the
        pool's; pebble.ProcessExpired where its process died.
        """
        start_seconds = start_seconds or self._start_seconds
        pool = self._current()
        try:
            future = pool.schedule(work, args=arguments)  # starts the processes
        except (BrokenProcessPool, RuntimeError, OSError) as error:
            raise self._refused(pool, error) from error
        result = asyncio.wrap_future(future)
        self._n_running += 1
        try:
            until = monotonic() + start_seconds
            while not (begun := future.running() or future.done()) and monotonic() < until:
                await asyncio.wait([result], timeout=LOOK_SECONDS)
            self.is_stalled = not begun
            if begun:
                async with asyncio.timeout(seconds):  # the pool's own limit follows the wall clock
                    return await result
            result.cancel()
            for process in list(pool._pool_manager.worker_manager.workers.values()):
                process.kill()  # the pool replaces it
            await asyncio.sleep(PAUSE_SECONDS)
        except BrokenProcessPool as error:
            raise self._refused(pool, error) from error
        finally:
            self._n_running -= 1
            result.cancel()  # no effect if it is done
        raise NotBegun(f"no process began the work within {start_seconds:g} s")

    async def probe(self) -> None:
        """Find out, if a process is free, whether processes begin work again."""
        if not self.is_stalled or self._n_running >= self._n:
            return
        try:
            await self.run(os.getpid, seconds=self._start_seconds)
        except (NotBegun, ProcessExpired, TimeoutError) as error:
            log.warning("processes_stalled", reason=str(error))

    async def close(self) -> None:
        """Stop the processes."""
        if self._pool is not None:
            self._end(self._pool)
        if self._ending:
            await asyncio.wait(self._ending)

    def _current(self) -> ProcessPool:
        if self._pool is not None and not self._pool.active:  # its idle processes were killed
            self._end(self._pool)
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPool(self._n, 0, _begin, self._prepare, context)
        return self._pool

    def _refused(self, pool: ProcessPool, error: Exception) -> NotBegun:
        """Replace a pool that cannot start its processes or threads, unless that is done."""
        self.is_stalled = True
        if self._pool is pool:
            self._end(pool)
        return NotBegun(f"no process could be started: {error.__cause__ or error}")

    def _end(self, pool: ProcessPool) -> None:
        """End the pool, in a thread of its own: the next work has another."""
        self._pool = None
        pool.stop()  # type: ignore[no-untyped-call]
        task = asyncio.get_running_loop().create_task(self._join(pool))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _join(self, pool: ProcessPool) -> None:
        with suppress(RuntimeError):  # no thread can be started either
            await asyncio.to_thread(pool.join, 5)
