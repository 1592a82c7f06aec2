"""What a worker's fitting processes run in tests."""

import errno
import multiprocessing.util
import os
import time
from pathlib import Path
from typing import Any

from service.fits.fit_answer import Fitted
from service.fits.job import run_fit
from service.storage.database_url import open_reader


def held_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """A real fit, once the gate is gone; leaves its process id beside it."""
    gate = Path(os.environ["LHB_TEST_GATE"])
    gate.with_suffix(".pid").write_text(str(os.getpid()))
    while gate.exists():
        time.sleep(0.01)
    return run_fit(database_url, tenant, session_id, due, idle_seconds)


def held_if_wide(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """A real fit; of many features only once the gate is gone."""
    with open_reader(database_url) as reader:
        session = reader.session((tenant, session_id))
    if session is not None and session.dim > 2:
        return held_fit(database_url, tenant, session_id, due, idle_seconds)
    return run_fit(database_url, tenant, session_id, due, idle_seconds)


def failing_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Cannot read its data."""
    raise OSError("on fire")


def refuse_processes() -> None:
    """From now on, let the system refuse to start processes while the gate is there."""
    start, gate = multiprocessing.util.spawnv_passfds, Path(os.environ["LHB_TEST_GATE"])

    def refuse(*arguments: Any) -> int:
        if gate.exists():
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return int(start(*arguments))

    setattr(multiprocessing.util, "spawnv_passfds", refuse)  # noqa: B010
