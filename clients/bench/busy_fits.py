"""The real server, whose fits take seconds: each is a real fit, made over and over."""

import time

import service.fit_pool
from service.fit_job import run_fit
from service.server import run

SECONDS = 6.0


def long_fit(database_url: str, tenant: str, session_id: str, due: int) -> str | None:
    """A fit, again and again until its time is up."""
    deadline = time.monotonic() + SECONDS
    while True:
        fitted = run_fit(database_url, tenant, session_id, due)
        if time.monotonic() > deadline:
            return fitted


if __name__ == "__main__":
    start = service.fit_pool.FitPool.__init__
    start.__defaults__ = (long_fit,)
    run(port=0)
