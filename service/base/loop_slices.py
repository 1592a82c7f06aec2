"""Long work of requests in the event loop, in slices between which everything else goes on.

A generator that yields now and then is such work; what it returns is its result. A process that has
nothing else to do runs the same generator in one go.
"""

import asyncio
from collections.abc import Generator, Iterable
from time import perf_counter
from typing import TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")
SlicedWork = Generator[None, None, Result]
SLICE_SECONDS = 0.001
ITEMS = 64  # that are done between two looks at the clock


class LoopSlices:
    """Runs sliced work: in each turn of the event loop one slice of one piece of work."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: SlicedWork[Result]) -> Result:
        """Run the work to its end, and return its result or raise what it raises."""
        try:
            _run_slice(work)  # most often all of it
            while True:
                async with self._turn:
                    await asyncio.sleep(0)
                    _run_slice(work)
        except StopIteration as done:
            result: Result = done.value
            return result
        finally:
            work.close()


def _run_slice(work: SlicedWork[Result]) -> None:
    """Run the work for SLICE_SECONDS; raises StopIteration at its end."""
    until = perf_counter() + SLICE_SECONDS
    next(work)
    while perf_counter() < until:
        next(work)


def run_at_once(work: SlicedWork[Result]) -> Result:
    """Run the work to its end in one go."""
    try:
        while True:
            next(work)
    except StopIteration as done:
        result: Result = done.value
        return result


def pausing(items: Iterable[Item]) -> Generator[None, None, list[Item]]:
    """Make a list of items, of which each takes some time; pause in between."""
    made = []
    for i, item in enumerate(items, 1):
        made.append(item)
        if not i % ITEMS:
            yield
    return made
