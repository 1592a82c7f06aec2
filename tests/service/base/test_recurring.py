"""Work that recurs goes on whatever fails, and the log knows of it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from service.base.problems import Problem, ProblemCode
from service.base.recurring import Recurring

pytestmark = pytest.mark.anyio
BUSY = Problem(ProblemCode.STORAGE_BUSY, "the database is locked")


async def do_each(
    *times: Exception | None, again_seconds: float = Recurring.again_seconds
) -> list[dict[str, object]]:
    """The log of work that fails, or not, each time as it is told, and is then done once more."""
    left, is_done = list(times), asyncio.Event()

    async def work() -> None:
        if not left:
            is_done.set()
        elif (error := left.pop(0)) is not None:
            raise error

    looks = Recurring("look", lambda: 0.0, work)
    looks.again_seconds = again_seconds
    with capture_logs() as logs:
        looks.start()
        await is_done.wait()
        await looks.close()
    return [dict(line) for line in logs]


async def test_it_goes_on_after_any_error_and_tells_once_what_fails_in_a_row() -> None:
    logs = await do_each(BUSY, BUSY, KeyError("a"), KeyError("b"), None, KeyError("a"), BUSY)
    busy, key = "the database is locked", "KeyError"
    assert [line["reason"] for line in logs] == [busy, key, key, busy]
    assert {(line["event"], line["work"]) for line in logs} == {("work_failed", "look")}
    # a message may hold what a client sent: the line has the place instead
    assert [line["exc_info"] for line in logs] == [False, True, True, False]


async def test_what_goes_on_failing_is_told_again() -> None:
    assert len(await do_each(BUSY, BUSY, BUSY, again_seconds=0.0)) == 3


async def started(work: Callable[[], Awaitable[None]]) -> Recurring:
    looks = Recurring("look", lambda: 3600.0, work)
    looks.start()
    for _ in range(10):
        await asyncio.sleep(0)
    return looks


async def test_it_waits_first_and_does_not_when_woken() -> None:
    is_done = asyncio.Event()

    async def work() -> None:
        is_done.set()

    looks = await started(work)
    assert not is_done.is_set()
    looks.wake()
    await is_done.wait()
    await looks.close()


async def test_to_close_ends_work_that_is_being_done() -> None:
    is_begun, is_ended = asyncio.Event(), False

    async def work() -> None:
        nonlocal is_ended
        is_begun.set()
        try:
            await asyncio.sleep(3600.0)
        finally:
            is_ended = True

    looks = await started(work)
    looks.wake()
    await is_begun.wait()
    await looks.close()
    assert is_ended


async def test_what_has_not_begun_can_be_closed() -> None:
    await Recurring("look", lambda: 0.0, asyncio.Event().wait).close()
