"""Processes that parse what is large, so that no request beside it waits for the GIL."""

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pebble import ProcessExpired, ProcessPool

from service.problems import Problem, ProblemCode
from service.transfer.import_file import PreparedImport, prepare_import

Found = TypeVar("Found")
PARSED_HERE_BYTES = 2**17  # a smaller text is parsed faster than it is sent to another process
N_PROCESSES = 2  # one of them is always free of imports
TIMEOUT_SECONDS = 600.0
NICENESS = 5  # parsing gives way to decisions


class ParsingProcesses:
    """A pool of processes that starts with the first large text."""

    def __init__(self) -> None:
        self._pool: ProcessPool | None = None
        self._importing = asyncio.Semaphore(N_PROCESSES - 1)

    async def import_file(self, given: tuple[Path, Path, str, str | None, bool]) -> PreparedImport:
        """Run `prepare_import` with these arguments."""
        async with self._importing:
            return await self.run(prepare_import, *given)

    async def run(self, work: Callable[..., Found], *arguments: Any) -> Found:
        """Run a function in a process.

        Raises
        ------
        Problem
            What the function raises, or 503 overloaded: no process came to its end.
        """
        for is_last in (False, True):
            if self._pool is None or not self._pool.active:
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPool(
                    max_workers=N_PROCESSES,
                    initializer=os.nice,
                    initargs=(NICENESS,),
                    context=context,
                )
            future = self._pool.schedule(work, args=arguments, timeout=TIMEOUT_SECONDS)
            try:
                return await asyncio.wrap_future(future)
            except ProcessExpired:  # it was killed, perhaps for its memory
                if is_last:
                    break
            except TimeoutError:
                break
        detail = "no process could read this body to its end; try again, or send less at once"
        raise Problem(ProblemCode.OVERLOADED, detail, "body", retry_after=5)

    async def close(self) -> None:
        """Stop the processes."""
        if self._pool is not None:
            self._pool.stop()  # type: ignore[no-untyped-call]
            await asyncio.to_thread(self._pool.join, 5)
