"""Processes that parse large bodies: what happens to a body when they are frozen or killed."""

import os
import signal

import pytest

from service.base.parsing_processes import ParsingProcesses
from service.base.problems import Problem
from tests.service.kept_processes import freeze

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def die(number: int) -> None:
    os.kill(os.getpid(), number)


async def test_frozen_and_dying_processes_are_replaced() -> None:
    parsing = ParsingProcesses(25.0)
    try:
        first = await parsing.run(os.getpid)
        freeze(parsing._processes)
        again = await parsing.run(os.getpid)
        assert again != first
        with pytest.raises(Problem, match="no process could read this body"):
            await parsing.run(die, signal.SIGKILL)
        assert await parsing.run(os.getpid) != again
    finally:
        await parsing.close()
