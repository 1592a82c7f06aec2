"""Long work in the event loop gives way to everything else, slice by slice."""

import asyncio
from collections.abc import Iterator

import pytest

from service.base.loop_slices import LoopSlices, SlicedWork, pausing, run_at_once

pytestmark = pytest.mark.anyio
MANY = 10**7  # pauses: many seconds of work that does not give way


async def test_others_have_their_turn_before_the_work_ends() -> None:
    """The work ends at what another task does: without a turn for that, after MANY pauses."""
    happened: list[int] = []

    def work() -> SlicedWork[int]:
        for n in range(MANY):
            if len(happened) > 2:
                return n
            yield
        return MANY

    async def other() -> None:
        for turn in range(3):
            await asyncio.sleep(0)
            happened.append(turn)

    beside = asyncio.create_task(other())
    assert await LoopSlices().run(work()) < MANY
    await beside


async def test_two_works_are_not_in_the_same_turn_of_the_loop() -> None:
    """After its first slice, a work has one in a turn in which no other work has any."""
    slices, turn, ran = LoopSlices(), 0, list[tuple[int, str]]()
    end = asyncio.Event()

    async def count_turns() -> None:
        nonlocal turn
        while not end.is_set():
            turn += 1
            await asyncio.sleep(0)

    def work(name: str) -> SlicedWork[None]:
        until = turn + 50
        while turn < until:
            if (turn, name) not in ran:
                ran.append((turn, name))
            yield

    counting = asyncio.create_task(count_turns())
    await asyncio.gather(slices.run(work("a")), slices.run(work("b")))
    end.set()
    await counting
    first = min(at for at, _ in ran)
    later = [at for at, _ in ran if at > first + 1]
    assert len(later) == len(set(later)) > 20


async def test_the_result_and_the_error_are_the_work_s_own() -> None:
    def broken() -> SlicedWork[None]:
        yield
        raise ValueError("of the work")

    def items() -> Iterator[int]:
        yield from range(1000)

    assert await LoopSlices().run(pausing(items())) == list(range(1000))
    assert run_at_once(pausing(items())) == list(range(1000))
    with pytest.raises(ValueError, match="of the work"):
        await LoopSlices().run(broken())
