"""What holds a server: late ticks of its event loop and long transactions, noted by the server.

A note is a line: its kind, the time (monotonic clock), how long it lasted, and the CPU time that
the server's own threads took meanwhile. What lasted long without CPU time waited: for another
process on the processor, for another thread that had the GIL, or for the disk.
"""

import asyncio
import os
import time
from pathlib import Path

import service.operation.app
from service.operation.server import run
from service.operation.sweeper import Sweeper
from service.writer.command import Commands
from service.writer.group_commit import Committed, GroupCommit

TICK_SECONDS = 0.002
NOTED_SECONDS = 0.005
LOG = "LHB_BENCH_STALLS"  # variable that names the file of notes
WATCHED = "from benchmarks.server.stalls import serve; serve()"


def note(kind: str, seconds: float, cpu: float) -> None:
    """Write a line unless it lasted for less than NOTED_SECONDS."""
    if seconds > NOTED_SECONDS:
        with open(os.environ[LOG], "a", buffering=1) as log:
            log.write(f"{kind} {time.monotonic()} {seconds} {cpu}\n")


def tick(loop: asyncio.AbstractEventLoop, began: float, used: float) -> None:
    """Note by how much this tick is late, and set the next."""
    now, cpu = time.monotonic(), time.thread_time()
    note("loop", now - began - TICK_SECONDS, cpu - used)
    loop.call_later(TICK_SECONDS, tick, loop, now, cpu)


def start_ticking() -> None:
    """Watch the running loop, whose thread is the caller's."""
    tick(asyncio.get_running_loop(), time.monotonic(), time.thread_time())


class WatchedSweeper(Sweeper):
    """The server's own; it starts with the server's event loop."""

    def start(self) -> None:
        """Start it and the ticks."""
        super().start()
        start_ticking()


class WatchedCommit(GroupCommit):
    """The server's own writer; it notes long transactions."""

    async def _commit(self, commands: Commands) -> Committed:
        began, used = time.monotonic(), self._cpu_seconds()
        try:
            return await super()._commit(commands)
        finally:
            note("transaction", time.monotonic() - began, self._cpu_seconds() - used)

    def _cpu_seconds(self) -> float:
        """Return what the event loop's thread and the writer's have used."""
        thread, used = self._thread._thread, time.thread_time()
        if thread is not None and thread.ident is not None:
            used += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        return used


def serve() -> None:
    """Run the server with its parts watched."""
    setattr(service.operation.app, "Sweeper", WatchedSweeper)  # noqa: B010
    setattr(service.operation.app, "GroupCommit", WatchedCommit)  # noqa: B010
    run(port=0)


def noted(log: Path, kind: str, began: float, ended: float) -> dict[str, float]:
    """Summarise the notes of a kind between two times, in milliseconds."""
    found = []
    for line in log.read_text().splitlines() if log.exists() else ():
        name, *values = line.split()
        at, seconds, cpu = map(float, values)
        if name == kind and began <= at <= ended:
            found.append((seconds, min(seconds, cpu)))
    return {
        "longest_ms": round(max((seconds for seconds, _ in found), default=0.0) * 1e3, 2),
        "longest_on_cpu_ms": round(max((cpu for _, cpu in found), default=0.0) * 1e3, 2),
        "over_20_ms": sum(seconds > 0.02 for seconds, _ in found),
    }
