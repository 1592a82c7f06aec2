"""Processes that parse what is large, so that no request beside it waits for the GIL."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pebble import ProcessExpired

from service.base.problems import Problem, ProblemCode
from service.base.process_pool import NotBegun, Processes
from service.transfer.import_file import PreparedImport, prepare_import

Found = TypeVar("Found")
PARSED_HERE_BYTES = 2**17  # a smaller text is parsed faster than it is sent to another process
N_PROCESSES = 2  # one of them is always free of imports
ATTEMPTS = 2
START_SECONDS = 30.0  # until a process begins; it may have to be started first
TIMEOUT_SECONDS = 600.0
NICENESS = 5  # parsing gives way to decisions


class ParsingProcesses:
    """A pool of processes that starts with the first large text."""

    def __init__(self) -> None:
        self._processes = Processes(N_PROCESSES, os.nice, (NICENESS,), START_SECONDS)
        self._parsing = asyncio.Semaphore(N_PROCESSES)
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
        for _ in range(ATTEMPTS):
            try:
                async with self._parsing:
                    run = self._processes.run
                    found: Found = await run(work, *arguments, seconds=TIMEOUT_SECONDS)
                return found
            except (NotBegun, ProcessExpired):
                continue  # it was frozen, or killed, perhaps for its memory
            except TimeoutError:
                break
        detail = "no process could read this body to its end; try again, or send less at once"
        raise Problem(ProblemCode.OVERLOADED, detail, "body", retry_after=5)

    async def close(self) -> None:
        """Stop the processes."""
        await self._processes.close()
