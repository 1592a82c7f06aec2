"""Large writes: many small transactions, between which other commands slip."""

import asyncio
import time
from collections.abc import Generator
from typing import Any, TypeVar

from service.writer.command import Command
from service.writer.group_commit import GroupCommit

Result = TypeVar("Result")
# the commands of a large write; it is sent the result of each, and returns its own
LargeWrite = Generator[Command[Any], Any, Result]


class Slices:
    """Runs large writes, one slice of one of them at a time.

    After a slice all of them pause for as long as it took, so together they take at most half of
    the writer's time. Within their half they take turns.
    """

    def __init__(self, writer: GroupCommit) -> None:
        self._writer = writer
        self._turn = asyncio.Lock()

    async def run(self, write: LargeWrite[Result]) -> Result:
        """Run the commands of a large write, and return its result.

        Raises
        ------
        Problem
            What a command raises and the write lets through. It is raised in the write, which may
            undo by further commands what it has written.
        """
        try:
            command = next(write)
            while True:
                async with self._turn:
                    began = time.monotonic()
                    try:
                        result = await self._writer.submit(command)
                    except Exception as error:
                        command = write.throw(error)
                    else:
                        command = write.send(result)
                    await asyncio.sleep(time.monotonic() - began)
        except StopIteration as done:
            found: Result = done.value
            return found
        finally:
            write.close()
