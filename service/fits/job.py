"""One fit, as run in a process of its own, under limits. It reads the database itself.

The limit of memory (on Linux alone) is on private memory beyond what the process holds when the fit
begins. An allocation beyond it fails as any other that the system refuses, and the process goes on.
The limit of CPU time (not on Windows) counts what the fit has had of a processor, not how long it
waited for one: on a busy machine a fit takes long and has done nothing wrong.
"""

import os
import platform
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_info

from lhb_engine.agents.base import NeedsMore
from lhb_engine.blas import one_thread
from lhb_engine.design.products import Products
from service.fits.fit_answer import Fitted
from service.fits.warm_start import beginning
from service.session.records import SessionKey, SessionRow
from service.storage.database_url import open_reader

Returned = TypeVar("Returned")
SPENT = -int(getattr(signal, "SIGPROF", 0))  # exit code of a process that reached the limit
SPARE_MB = 16  # a thread's stack, and what holds no data
_megabytes: int | None = None  # that a fit of this process may take
_is_on = False


class NeedsMoreMemory(Exception):
    """A fit needed more than its memory."""


def take_buffers() -> None:
    """Let both BLAS libraries allocate this thread's buffers now, beside the limit.

    A library that cannot allocate its buffers ends the process.
    """
    from scipy.linalg.blas import dgemm

    square = np.ones((256, 256))  # small products take no buffers
    if not _is_on:
        dgemm(1.0, square, square @ square)
        return
    (limit, most), before = resource.getrlimit(resource.RLIMIT_DATA), data_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    dgemm(1.0, square, square @ square)
    limit += max(0, data_bytes() - before)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


@contextmanager
def limited() -> Iterator[None]:
    """Run a fit under the limit that `prepare_process` has set; `NeedsMoreMemory` beyond it."""
    global _is_on
    if _megabytes is None or sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if before[1] != resource.RLIM_INFINITY:  # the system's own limit stays
        yield
        return
    limit = data_bytes() + (_megabytes + SPARE_MB) * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    _is_on = True
    try:
        yield
    except MemoryError:
        raise NeedsMoreMemory(f"the fit needed more than {_megabytes} MB") from None
    finally:
        _is_on = False
        resource.setrlimit(resource.RLIMIT_DATA, before)


def data_bytes() -> int:
    """Return the private memory of this process that counts towards RLIMIT_DATA."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmData":
            return int(value.split()[0]) * 1024
    return 0


def within_cpu_time(seconds: float, work: Callable[..., Returned], *arguments: Any) -> Returned:
    """Run `work(*given)`; the process dies with `SPENT` once all its threads had `seconds`."""
    if not SPENT:
        return work(*arguments)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work(*arguments)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


if TYPE_CHECKING:
    from service.fits.prepared_fit import Answer, PreparedFit, ReadFit, Sums

STARVED = 75  # exit status of a process whose fit got too little idle time


def prepare_process(niceness: int, memory_mb: int) -> None:
    """Lower the priority of this process, keep BLAS to one thread, and limit its fits' memory."""
    global _megabytes
    os.nice(niceness)
    one_thread()
    _megabytes = memory_mb
    take_buffers()


def run_fit(
    database_url: str, tenant: str, session_id: str, due: int, idle_seconds: float
) -> Fitted | None:
    """Run the fit of a session that is due after round `due`.

    `idle_seconds` are those of `in_idle_time`; 0 fits at the process's own priority, as does a
    session whose decisions wait for its fits. The answer is None if the session's current fit is
    another one by now.
    """
    from service.fits import prepared_fit, stored_sums

    fit = _SessionFit(prepared_fit.read_fit, database_url, (tenant, session_id), due, idle_seconds)
    try:
        with limited():
            read = prepared_fit.answered(fit.read, fit.run)
            made = replace(fit.made, settled=read.settled)
            if read.fit is None or read.answer is None:
                return replace(made, reason=read.reason, is_final=read.reason is not None)
            estimate, sums = read.answer
            answer = estimate.to_json() | {"seconds": time.perf_counter() - fit.began}
            kept = None
            if sums is not None:
                anew = read.fit.anew
                kept = stored_sums.sums_to_keep(sums, fit.session, anew, is_new=fit.is_new)
            return replace(made, estimate=answer, fingerprint=fingerprint(), sums=kept)
    except _Ended as ended:
        return ended.fitted
    except NeedsMoreMemory as error:
        return Fitted(reason=str(error), is_final=True)


class _Ended(Exception):
    """A fit has ended without an answer: `fitted` is what its process returns."""

    def __init__(self, fitted: Fitted | None) -> None:
        self.fitted = fitted


@dataclass
class _SessionFit:
    """The fit of a session that is due after a round, as it was last read."""

    read_fit: Callable[..., "ReadFit"]
    url: str
    key: SessionKey
    due: int
    idle_seconds: float
    made: Fitted = field(default_factory=Fitted)  # what is returned of it, but for an answer
    is_new: bool = False  # it begins from nothing
    session: SessionRow = field(init=False)
    began: float = 0.0

    def read(self, sums: "Sums", products: Products | None) -> "ReadFit":
        """Read the fit, which ends if the session's current fit is another one by now."""
        with open_reader(self.url) as reader:
            session = reader.session(self.key)
            if session is None or session.fit_due != self.due:
                raise _Ended(None)
            current = session.schedule.current
            assert current is not None
            begun = beginning(reader, session, current.known.revision)
            self.session, self.is_new = session.at_revision(current.known.revision), begun.is_new
            if session.n_erased_rows != self.made.n_erased:
                products = None  # rows that are gone may have shown these
            self.made = Fitted(session_name=session.name, n_erased=session.n_erased_rows)
            place = self.session, begun.agent(reader, self.session), current.window, current.known
            return self.read_fit(reader, *place, begun.measured, sums, products)

    def run(self, fit: "PreparedFit") -> "Answer":
        """Make the fit, in idle time unless decisions wait for it."""
        self.began = time.perf_counter()
        try:
            if self.idle_seconds and self.session.refit != "blocking":
                return in_idle_time(fit.run, self.idle_seconds)
            return fit.run()
        except (NeedsMore, MemoryError):
            raise
        except Exception as error:  # of an algorithm: a failed fit, not a dead process
            reason = f"{type(error).__name__}: {error}"
            raise _Ended(replace(self.made, reason=reason)) from error


def in_idle_time(work: Callable[[], Returned], seconds: float) -> Returned:
    """Run `work` in a thread of the scheduling policy SCHED_IDLE (Linux; elsewhere as any thread).

    Any thread that wakes up preempts an idle-policy thread at once, while a niced thread keeps the
    processor until its quantum ends. On a busy machine the idle-policy thread makes no progress,
    and it cannot leave the policy. Therefore this process exits with `STARVED` if the work has had
    less than half a processor over `seconds`, and the caller starts it again without this.
    """
    with ThreadPoolExecutor(1, initializer=_take_idle_time) as thread:
        future = thread.submit(work)
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

    config: Any = np.show_config(mode="dicts")
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
        # the instruction sets that numpy uses here
        "cpu_features": " ".join(config.get("SIMD Extensions", {}).get("found", [])),
    }
