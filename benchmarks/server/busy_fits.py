"""The real server with fits that take as long as they are wanted, and a log of its loop's stalls.

Each fit is a real one, repeated until a file says that it is enough.
"""

import os
from pathlib import Path

import service.fits.processes
from benchmarks.server import stalls
from service.fits.fit_answer import Fitted
from service.fits.job import run_fit

BEGUN = ".begun"  # suffix of the file that appears when a fit begins
ENOUGH = ".enough"  # and of the one that lets it end


def long_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Run a fit repeatedly until it has been long enough."""
    log = os.environ[stalls.LOG]
    Path(log + BEGUN).touch()
    while True:
        fitted = run_fit(database_url, tenant, session_id, due, idle_seconds)
        if Path(log + ENOUGH).exists():
            return fitted


def serve() -> None:
    """Run the server. Import and call it: the fit process finds `long_fit` by its module."""
    setattr(service.fits.processes, "run_fit", long_fit)  # noqa: B010
    stalls.serve()
