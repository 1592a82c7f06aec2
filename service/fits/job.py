"""One fit in a process of its own. It reads the database itself and returns JSON."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_info

from lhb_engine.blas import one_thread
from service.agent_cache import build_agent
from service.storage.database_url import open_reader

Given = TypeVar("Given")
Found = TypeVar("Found")
STARVED = 75  # exit status of a process whose fit found too little idle time


def prepare_process(niceness: int) -> None:
    """Lower the priority of this process, and keep BLAS to one thread."""
    os.nice(niceness)
    one_thread()


def run_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> str | None:
    """Run the fit of the session's due mark; return None if it is not at work any more.

    Parameters
    ----------
    idle_seconds : float
        How long to try it `in_idle_time`; not at all for a session whose decisions wait for it.

    Returns
    -------
    str
        JSON with `estimate` and `fingerprint`, or with the `reason` of the failure.
    """
    with open_reader(database_url) as reader:
        session = reader.session((tenant, session_id))
        if session is None or session.fit_due != due:
            return None
        current = session.schedule.current
        assert current is not None
        agent = build_agent(session, reader.agent_state(session.key))
        history = reader.history(session, current.window, current)
    began = time.perf_counter()
    try:
        if idle_seconds and session.refit != "blocking":
            estimate = in_idle_time(agent.fit, history, idle_seconds).to_json()
        else:
            estimate = agent.fit(history).to_json()
    except Exception as error:  # whatever an algorithm does, decisions go on
        return json.dumps({"reason": f"{type(error).__name__}: {error}"})
    estimate["seconds"] = time.perf_counter() - began
    return json.dumps({"estimate": estimate, "fingerprint": fingerprint()})


def in_idle_time(work: Callable[[Given], Found], argument: Given, seconds: float) -> Found:
    """Run `work` in a thread that runs only while a processor has nothing else to do.

    Nobody who wakes up waits for such a thread, as they do for a niced one's slice of time to end.
    But while all processors are busy it gets next to nothing, and it may not leave that policy. So
    this process ends, `STARVED`, where the work had less than half a processor for so many seconds.
    """
    with ThreadPoolExecutor(1, initializer=_take_idle_time) as thread:
        future = thread.submit(work, argument)
        used = time.process_time()
        while not wait([future], seconds).done:
            if time.process_time() - used < seconds / 2:
                os._exit(STARVED)
            used = time.process_time()
        return future.result()


def _take_idle_time() -> None:
    if sys.platform == "linux":  # others have no such policy
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


@cache
def fingerprint() -> dict[str, Any]:
    """Describe the libraries and the CPU: equal fingerprints give bit-equal estimates."""
    import scipy.linalg  # its BLAS is one of those listed below, once it is loaded

    blas = [
        f"{pool.get('internal_api')} {pool.get('version')} {pool.get('architecture')}"
        for pool in threadpool_info()
        if pool.get("user_api") == "blas"
    ]
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": sorted(set(blas)),
        "machine": platform.machine(),
        "cpu_features": _cpu_features(),
    }


def _cpu_features() -> str:
    """List the instruction sets that numpy uses here."""
    config: Any = np.show_config(mode="dicts")
    return " ".join(config.get("SIMD Extensions", {}).get("found", []))
