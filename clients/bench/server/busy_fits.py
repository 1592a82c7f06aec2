"""The real server with fits that take seconds, and a log of the stalls of its event loop.

Each fit is a real one, repeated until its time is up. A ticker in the loop runs every 2 ms. When it
runs late it writes a line: the time (monotonic clock), by how much it was late, and the CPU time of
the loop's thread meanwhile. A late tick without CPU time means that another process had the
processor, or another thread the GIL.
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
BEGUN = ".fit"  # suffix of the file that appears when a fit begins


def long_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> str | None:
    """Run a fit repeatedly for `SECONDS`."""
    Path(os.environ["LHB_BENCH_STALLS"] + BEGUN).touch()
    deadline = time.monotonic() + SECONDS
    while True:
        fitted = run_fit(database_url, tenant, session_id, due, idle_seconds)
        if time.monotonic() > deadline:
            return fitted


class WatchedPool(service.fits.embedded.FitPool):
    """The server's own pool, with a ticker in its event loop."""

    def start(self, *parts: Any) -> None:
        """Start the pool and the ticker."""
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
    """Run the server. Import and call it: the fit process finds `long_fit` by its module."""
    service.fits.embedded.FitPool.__init__.__defaults__ = (long_fit,)
    setattr(service.app, "FitPool", WatchedPool)  # noqa: B010
    run(port=0)
