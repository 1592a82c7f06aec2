"""The writer's thread: it runs one job at a time and answers in the calling event loop.

The thread is cheaper than an executor, which makes two futures per job, with locks and callbacks
between them, and hands over the GIL more often. The thread asks the scheduler for short
quanta of time, so that it wakes promptly while a fit occupies the processor.
"""

import asyncio
import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

Argument = TypeVar("Argument")
Returned = TypeVar("Returned")
QUANTUM_NS = 100_000
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # system call numbers
Call = tuple["asyncio.Future[Any]", Callable[[Any], Any], Any]


class WriterThread:
    """A thread that starts with its first job and ends with `close`."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(
        self, work: Callable[[Argument], Returned], argument: Argument
    ) -> "asyncio.Future[Returned]":
        """Run a function of one argument in the thread.

        The future, which is of the running loop, gets what `work` returns or raises. A thread that
        cannot be started is a RuntimeError.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="writer", daemon=True)
            thread.start()  # raises if the system cannot start another thread
            self._thread = thread
        future: asyncio.Future[Returned] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, work, argument))
        return future

    def close(self) -> None:
        """Wait for the queued jobs, and end the thread."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        take_short_quanta()
        while (job := self._jobs.get()) is not None:
            future, work, argument = job
            result, error = None, None
            try:
                result = work(argument)
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed: no caller waits any more
                future.get_loop().call_soon_threadsafe(_settle, future, result, error)
            del job, future, work, argument, result, error  # frees them before the next wait


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def take_short_quanta() -> None:
    """Ask the scheduler for quanta of QUANTUM_NS nanoseconds for the calling thread.

    On Linux 6.12 and later, a thread with a shorter quantum preempts one with a longer one. On
    other systems, or if the call is refused, nothing happens.
    """
    number = SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None or sys.maxsize < 2**32:
        return
    policy, nice = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    if policy == os.SCHED_OTHER:
        settings = struct.pack("IIQiIQQQ", 48, policy, 0, nice, 0, QUANTUM_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, settings, 0)
