"""The thread of a writer: one job at a time, each answered in the event loop that asked.

An executor would do, but its two futures a job, their locks and the callbacks between them cost as
much as two statements of a transaction, in both threads, and the interpreter's lock is handed over
more often. Everybody waits for this thread to wake, so it asks the system for short slices of a
processor: it then need not wait for the end of a fit's.
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

Given = TypeVar("Given")
Found = TypeVar("Found")
SLICE_NS = 100_000
SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}  # numbers of the system call, which os has not
Job = tuple["asyncio.Future[Any]", Callable[[Any], Any], Any]


class WriterThread:
    """Started with the first job; `close` ends it once its jobs are done."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def call(self, work: Callable[[Given], Found], argument: Given) -> "asyncio.Future[Found]":
        """A future of the running loop that gets what `work` returns or raises."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="writer", daemon=True)
            thread.start()  # raises where the system has no more of them
            self._thread = thread
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        self._jobs.put((future, work, argument))
        return future

    def close(self) -> None:
        """Wait for the jobs that were given, and end."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        take_short_slices()
        while (job := self._jobs.get()) is not None:
            future, work, argument = job
            result, error = None, None
            try:
                result = work(argument)
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                future.get_loop().call_soon_threadsafe(_settle, future, result, error)
            del job, future, work, argument, result, error  # nothing is kept until the next


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def take_short_slices() -> None:
    """Have the calling thread scheduled in slices of a tenth of a millisecond.

    On Linux 6.12 and later one with a shorter slice interrupts one with a longer. Nothing happens
    on other systems, nor where this is refused.
    """
    number = SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None or sys.maxsize < 2**32:
        return
    policy, nice = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    if policy == os.SCHED_OTHER:
        settings = struct.pack("IIQiIQQQ", 48, policy, 0, nice, 0, SLICE_NS, 0, 0)
        ctypes.CDLL(None).syscall(number, 0, settings, 0)
