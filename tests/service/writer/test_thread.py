"""The writer's thread answers in the event loop, in order, whatever the job does."""

import asyncio
import re
import threading
from pathlib import Path

import pytest

from service.writer.thread import QUANTUM_NS, WriterThread


def test_jobs_run_one_by_one_in_one_thread_and_end_with_it() -> None:
    thread, done = WriterThread(), []

    def job(i: int) -> threading.Thread:
        done.append(i)
        return threading.current_thread()

    async def play() -> list[threading.Thread]:
        return await asyncio.gather(*(thread.call(job, i) for i in range(100)))

    [used] = set(asyncio.run(play()))
    assert done == list(range(100))
    assert used.name == "writer"
    thread.close()
    assert not used.is_alive()
    thread.close()  # closing what is closed is nothing


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_what_a_job_raises_is_raised_where_it_was_asked_for(error: BaseException) -> None:
    thread = WriterThread()

    def fail(_: None) -> None:
        raise error

    async def play() -> BaseException | None:
        failed = thread.call(fail, None)
        await asyncio.wait([failed])
        assert await thread.call(abs, -1) == 1
        return failed.exception()

    assert asyncio.run(play()) is error
    thread.close()


def quantum_ns(_: None) -> int:
    """Of the calling thread; 0 where the kernel does not say."""
    told = Path("/proc/thread-self/sched")
    found = re.search(r"(?m)^se\.slice *: *(\d+)$", told.read_text() if told.exists() else "")
    return 0 if found is None else int(found[1])


@pytest.mark.skipif(
    not quantum_ns(None), reason="the kernel does not tell a quantum: Linux 6.12 and later may"
)
def test_it_is_scheduled_in_short_quanta_and_no_other_thread_is() -> None:
    thread = WriterThread()

    async def play() -> int:
        return await thread.call(quantum_ns, None)

    before = quantum_ns(None)
    assert asyncio.run(play()) == QUANTUM_NS < before
    assert quantum_ns(None) == before
    thread.close()


def test_a_loop_that_has_gone_does_not_end_the_thread() -> None:
    thread, held = WriterThread(), threading.Event()

    async def leave() -> None:
        thread.call(lambda _: held.wait(120), None)

    async def ask() -> int:
        return await thread.call(abs, -3)

    asyncio.run(leave())
    held.set()
    assert asyncio.run(ask()) == 3
    thread.close()


def test_a_caller_that_has_gone_is_no_trouble() -> None:
    thread, held = WriterThread(), threading.Event()

    async def play() -> int:
        gone = thread.call(lambda _: held.wait(120), None)
        gone.cancel()
        held.set()
        return await thread.call(abs, -2)

    assert asyncio.run(play(), debug=True) == 2
    thread.close()
