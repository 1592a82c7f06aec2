"""One fit, as run in a process of its own. It reads the database itself."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_info

from lhb_engine.agents.base import NeedsAllRows, NeedsNewSums
from lhb_engine.blas import one_thread
from service.fits.beginning import beginning
from service.fits.fit_answer import FitAnswer
from service.fits.process_limits import NeedsMoreMemory, limit_fits, limited, take_buffers
from service.session.records import SessionKey
from service.storage.database_url import open_reader

if TYPE_CHECKING:
    from service.fits.prepared_fit import Sums

Argument = TypeVar("Argument")
Returned = TypeVar("Returned")
STARVED = 75  # exit status of a process whose fit got too little idle time


def prepare_process(niceness: int, memory_mb: int) -> None:
    """Lower the priority of this process, keep BLAS to one thread, and limit its fits' memory."""
    os.nice(niceness)
    one_thread()
    limit_fits(memory_mb)


def run_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> FitAnswer | None:
    """Run the fit of a session that is due after round `due`.

    `idle_seconds` are those of `in_idle_time`; 0 fits at the process's own priority, as does a
    session whose decisions wait for its fits. The answer has `estimate` and `fingerprint`, or the
    `reason` of the failure; or slots alone if these are to be kept before the fit can go on; it is
    None if the session's current fit is another one by now.
    """
    try:
        with limited():
            return _run_fit(database_url, (tenant, session_id), due, idle_seconds)
    except NeedsMoreMemory as error:
        return FitAnswer(json.dumps({"reason": str(error), "is_final": True}))


def _run_fit(
    database_url: str, key: SessionKey, due: int, idle_seconds: float, sums: "Sums" = "kept"
) -> FitAnswer | None:
    from service.fits.prepared_fit import PreparedFit, read_fit, sums_to_keep

    with open_reader(database_url) as reader:
        session = reader.session(key)
        if session is None or session.fit_due != due:
            return None
        current = session.schedule.current
        assert current is not None
        begun = beginning(reader, session, current.known.revision)
        session = session.at_revision(current.known.revision)
        agent = begun.agent(reader, session)
        given = session, agent, current.window, current.known, begun.measured
        found = read_fit(reader, *given, takes_kept=True, sums=sums)
    made: dict[str, Any] = {"session_name": session.name, "n_erased": session.n_erased_rows}
    if found.reason is not None:
        return FitAnswer(json.dumps({**made, "reason": found.reason, "is_final": True}))
    if found.fit is None:
        return FitAnswer(json.dumps(made), settled=found.settled)
    began = time.perf_counter()
    try:
        if idle_seconds and session.refit != "blocking":
            estimate, made_sums = in_idle_time(PreparedFit.run, found.fit, idle_seconds)
        else:
            estimate, made_sums = found.fit.run()
    except NeedsNewSums:
        return _run_fit(database_url, key, due, idle_seconds, "new")
    except NeedsAllRows:
        return _run_fit(database_url, key, due, idle_seconds, "none")
    except MemoryError:
        raise
    except Exception as error:  # any error of an algorithm is a failed fit, not a dead process
        return FitAnswer(json.dumps({**made, "reason": f"{type(error).__name__}: {error}"}))
    made["estimate"] = estimate.to_json() | {"seconds": time.perf_counter() - began}
    made["fingerprint"] = fingerprint()
    kept = None
    if made_sums is not None:
        kept = sums_to_keep(made_sums, session, found.fit.anew, is_new=begun.is_new)
    return FitAnswer(json.dumps(made), kept, found.settled)


def in_idle_time(
    work: Callable[[Argument], Returned], argument: Argument, seconds: float
) -> Returned:
    """Run `work` in a thread of the scheduling policy SCHED_IDLE (Linux; elsewhere as any thread).

    Any thread that wakes up preempts an idle-policy thread at once, while a niced thread keeps the
    processor until its time slice ends. On a busy machine the idle-policy thread makes no progress,
    and it cannot leave the policy. Therefore this process exits with `STARVED` if the work has had
    less than half a processor over `seconds`, and the caller starts it again without this.
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
    take_buffers()
    if sys.platform == "linux":  # other systems have no such policy
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


@cache
def fingerprint() -> dict[str, Any]:
    """Return the versions of the libraries and the CPU's features.

    A fit repeated under an equal fingerprint gives a bit-equal estimate.
    """
    import scipy.linalg  # loads scipy's BLAS, so that it is listed below

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
