"""The real server, whose fits take seconds, and whose event loop notes when it was held up.

Each fit is a real one, made over and over. A ticker in the loop, every 2 ms, writes a line for each
time it came late: when (monotonic clock), by how much, and the CPU that the loop's own thread used
meanwhile. Late without CPU, something else had the processor or the interpreter.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import service.app
import service.fits.embedded
from service.fits.job import run_fit
from service.server import run

SECONDS = 6.0
TICK_SECONDS = 0.002
NOTED_SECONDS = 0.005
BEGUN = ".fit"  # a file that says so, beside the one of the stalls


def long_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> str | None:
    """A fit, again and again until its time is up."""
    Path(os.environ["LHB_BENCH_STALLS"] + BEGUN).touch()
    deadline = time.monotonic() + SECONDS
    while True:
        fitted = run_fit(database_url, tenant, session_id, due, idle_seconds)
        if time.monotonic() > deadline:
            return fitted


class WatchedPool(service.fits.embedded.FitPool):
    """The pool as it is, in a loop that is watched."""

    def start(self, *parts: Any) -> None:
        """Begin to tick."""
        super().start(*parts)
        self._log = open(os.environ["LHB_BENCH_STALLS"], "a", buffering=1)  # noqa: SIM115
        loop = asyncio.get_running_loop()
        loop.call_later(TICK_SECONDS, self._watch, loop, time.monotonic(), time.thread_time())

    def _watch(self, loop: asyncio.AbstractEventLoop, began: float, used: float) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        late = now - began - TICK_SECONDS
        if late > NOTED_SECONDS:
            self._log.write(f"{now} {late} {cpu - used}\n")
        loop.call_later(TICK_SECONDS, self._watch, loop, now, cpu)


def serve() -> None:
    """Run the server. Called, not run as a module: the fitting process finds `long_fit` by name."""
    service.fits.embedded.FitPool.__init__.__defaults__ = (long_fit,)
    setattr(service.app, "FitPool", WatchedPool)  # noqa: B010
    run(port=0)
