"""Threads that read pause between slices; nothing else does."""

import itertools
import threading
import time

import pytest

from service.storage import giving_way as module
from service.storage.giving_way import LOOK_EVERY, SLICE_SECONDS, giving_way, read_giving_way
from tests.service.conftest import Serve

pytestmark = pytest.mark.anyio


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Who sleeps in place of a pause, and how long."""
    found: list[tuple[str, float]] = []

    class Time:
        thread_time = staticmethod(time.thread_time)

        @staticmethod
        def sleep(seconds: float) -> None:
            found.append((threading.current_thread().name, seconds))

    monkeypatch.setattr(module, "time", Time)
    return found


def test_who_does_not_read_never_sleeps(sleeps: list[tuple[str, float]]) -> None:
    assert list(giving_way(range(1000))) == list(range(1000))
    with pytest.raises(ZeroDivisionError):
        read_giving_way(lambda: 1 // 0)
    assert list(giving_way(range(1000))) == list(range(1000))
    assert sleeps == []


def test_all_threads_that_read_take_half_of_the_time_together(
    sleeps: list[tuple[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0

    def thread_time() -> float:
        nonlocal clock
        clock += 0.6 * SLICE_SECONDS
        return clock

    monkeypatch.setattr(module.time, "thread_time", thread_time)
    n = 12 * LOOK_EVERY
    assert read_giving_way(lambda: list(giving_way(range(n)))) == list(range(n))
    lengths = [seconds for _, seconds in sleeps]
    assert len(lengths) == 6  # at every second look
    assert set(lengths) == {SLICE_SECONDS}
    sleeps.clear()

    def beside() -> list[int]:
        return read_giving_way(lambda: list(giving_way(range(n))))

    read_giving_way(beside)  # as if in two threads
    assert {seconds for _, seconds in sleeps} == {3 * SLICE_SECONDS}


async def test_long_reads_of_a_server_pause_and_decisions_do_not(
    serve: Serve, sleeps: list[tuple[str, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.time, "thread_time", itertools.count().__next__)  # all is slow
    async with serve() as client:
        session = await client.create()
        for _ in range(20):
            await client.decide(session)
        sleeps.clear()
        for path in ("rounds", "credit", "events"):
            answer = await client.get(f"/v1/sessions/{session}/{path}")
            assert answer.status_code == 200
            assert len(sleeps) >= 20 / LOOK_EVERY, path
            assert all(name.startswith("reader") for name, _ in sleeps)
            sleeps.clear()
        await client.decide(session)
        assert all(name.startswith("reader") for name, _ in sleeps)
