"""Processes that parse what is large, so that no request beside it waits for the GIL."""

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from pebble import ProcessExpired

from service.base.problems import Problem, ProblemCode
from service.base.process_pool import NotBegun, Processes

Found = TypeVar("Found")
PARSED_HERE_BYTES = 2**17  # a smaller text is parsed faster than it is sent to another process
N_PROCESSES = 2  # one of them is always free of what takes long
ATTEMPTS = 2
START_SECONDS = 30.0  # until a process begins; it may have to be started first
UNHURRIED_SECONDS = 240.0  # the same where nobody waits: imports are slow on a busy machine
TIMEOUT_SECONDS = 600.0
NICENESS = 5  # parsing gives way to decisions


class ParsingProcesses:
    """A pool of processes that starts with the first large text."""

    def __init__(self, start_seconds: float = START_SECONDS) -> None:
        self._start_seconds = start_seconds
        self._processes = Processes(N_PROCESSES, (os.nice, NICENESS), start_seconds)
        self._parsing = asyncio.Semaphore(N_PROCESSES)
        self._long = asyncio.Semaphore(N_PROCESSES - 1)
        self._starting: asyncio.Task[object] | None = None
        self._are_up: bool | None = None  # not known yet

    async def are_up(self, *functions: Callable[..., object]) -> bool:
        """Return whether processes begin work. Their first start is waited for, later ones are not.

        They import these functions, which takes seconds, and may not start at all.
        """
        if not self._are_up and (self._starting is None or self._starting.done()):
            self._starting = asyncio.get_running_loop().create_task(self._start(functions))
        if self._are_up is None and self._starting is not None:
            await asyncio.wait([self._starting], timeout=self._start_seconds)
            self._are_up = self._are_up or False
        return bool(self._are_up)

    async def run_long(self, work: Callable[..., Found], *arguments: Any) -> Found:
        """Run a function as `run` does; beside it a process stays free of such."""
        async with self._long:
            return await self.run(work, *arguments)

    async def run(self, work: Callable[..., Found], *arguments: Any) -> Found:
        """Run a function in a process, whose start may have to be waited for.

        Raises what the function raises, or 503 overloaded: no process came to its end.
        """
        for _ in range(ATTEMPTS):
            with suppress(NotBegun):
                return await self.run_once_begun(work, *arguments)
        raise unread()

    async def run_once_begun(self, work: Callable[..., Found], *arguments: Any) -> Found:
        """Run a function in a process if one begins it.

        Raises what `run` does, and `NotBegun`: processes are frozen, or the system refuses to start
        one.
        """
        for _ in range(ATTEMPTS):
            try:
                return await self._run(work, *arguments)
            except ProcessExpired:
                continue  # it was killed, perhaps for its memory
            except TimeoutError:
                break
        raise unread()

    async def _run(
        self, work: Callable[..., Found], *arguments: Any, start_seconds: float | None = None
    ) -> Found:
        run, limit = self._processes.run, TIMEOUT_SECONDS
        async with self._parsing:
            try:
                answer: Found = await run(
                    work, *arguments, seconds=limit, start_seconds=start_seconds
                )
            except NotBegun:
                self._are_up = False
                raise
        self._are_up = True
        return answer

    async def _start(self, functions: tuple[Callable[..., object], ...]) -> None:
        with suppress(NotBegun, ProcessExpired, TimeoutError):
            await self._run(len, functions, start_seconds=UNHURRIED_SECONDS)

    async def close(self) -> None:
        """Stop the processes."""
        if self._starting is not None:
            self._starting.cancel()
        await self._processes.close()


def unread() -> Problem:
    """Return the error of a body that processes began and did not read."""
    detail = "no process could read this body to its end; try again, or send less at once"
    return Problem(ProblemCode.OVERLOADED, detail, "body", retry_after=5)
