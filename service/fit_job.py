"""A fit, as it runs in its own process: reads the database itself, hands back JSON."""

import json
import os
import platform
import sys
import time
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from lhb_engine.blas import one_thread
from service.agents import build_agent
from service.storage.urls import open_reader


def prepare_process(niceness: int, idle: bool) -> None:
    """Give way to the processes that answer, and keep BLAS to one thread.

    With `idle` they do not even wait for a fit's slice of time to end, where the system is Linux.
    """
    os.nice(niceness)
    if idle and sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    one_thread()


def run_fit(database_url: str, tenant: str, session_id: str, due: int) -> str | None:
    """Fit what the session's due mark says; None where that fit is not at work any more.

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
        estimate = agent.fit(history).to_json()
    except Exception as error:  # whatever an algorithm does, decisions go on
        return json.dumps({"reason": f"{type(error).__name__}: {error}"})
    estimate["seconds"] = time.perf_counter() - began
    return json.dumps({"estimate": estimate, "fingerprint": fingerprint()})


@cache
def fingerprint() -> dict[str, Any]:
    """Where the numbers come from: equal fingerprints give equal estimates to the bit."""
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
    """The instruction sets that numpy dispatches to here."""
    config: Any = np.show_config(mode="dicts")
    return " ".join(config.get("SIMD Extensions", {}).get("found", []))
