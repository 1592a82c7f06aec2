"""The real server with fits that take seconds, and a log of the stalls of its event loop.

Each fit is a real one, repeated until its time is up.
"""

import os
import time
from pathlib import Path

import service.fits.embedded
from clients.bench.server import stalls
from service.fits.job import run_fit
from service.fits.sums import FitAnswer

SECONDS = 6.0
BEGUN = ".fit"  # suffix of the file that appears when a fit begins


def long_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> FitAnswer | None:
    """Run a fit repeatedly for `SECONDS`."""
    Path(os.environ[stalls.LOG] + BEGUN).touch()
    deadline = time.monotonic() + SECONDS
    while True:
        fitted = run_fit(database_url, tenant, session_id, due, idle_seconds)
        if time.monotonic() > deadline:
            return fitted


def serve() -> None:
    """Run the server. Import and call it: the fit process finds `long_fit` by its module."""
    service.fits.embedded.FitPool.__init__.__defaults__ = (long_fit,)
    stalls.serve()
