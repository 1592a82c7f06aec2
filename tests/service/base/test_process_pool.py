"""How long a piece of work may take, whatever the clock on the wall says."""

import asyncio
import time

import pytest

from service.base.process_pool import Processes
from tests.service.kept_processes import ForkedProcesses

pytestmark = pytest.mark.anyio


async def begun(processes: Processes, work_seconds: float, seconds: float) -> asyncio.Task[None]:
    """A piece of work that a process has begun."""
    await processes.run(time.sleep, 0.0, seconds=60.0)
    task = asyncio.create_task(processes.run(time.sleep, work_seconds, seconds=seconds))
    await asyncio.sleep(0.1)
    return task


async def test_a_clock_that_is_set_forward_ends_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    processes, now = ForkedProcesses(1, (int,), 60.0), time.time
    try:
        work = await begun(processes, 0.5, seconds=60.0)
        monkeypatch.setattr(time, "time", lambda: now() + 7200.0)
        await work
    finally:
        await processes.close()


async def test_a_clock_that_is_set_back_lets_no_work_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the process: the next work does not wait for the end of the last."""
    processes, now = ForkedProcesses(1, (int,), 60.0), time.time
    try:
        work = await begun(processes, 60.0, seconds=0.3)
        monkeypatch.setattr(time, "time", lambda: now() - 7200.0)
        with pytest.raises(TimeoutError):
            await work
        await asyncio.wait_for(processes.run(time.sleep, 0.0, seconds=60.0), 20.0)
    finally:
        await processes.close()
