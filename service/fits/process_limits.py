"""Limits to the memory and the CPU time of each fit, in the process that runs it.

The limit of memory (on Linux alone) is on private memory beyond what the process holds when the fit
begins. An allocation beyond it fails as any other that the system refuses, and the process goes on.
The limit of CPU time (not on Windows) counts what the fit has had of a processor, not how long it
waited for one: on a busy machine a fit takes long and has done nothing wrong.
"""

import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

Returned = TypeVar("Returned")
SPENT = -int(getattr(signal, "SIGPROF", 0))  # exit code of a process that reached the limit
SPARE_MB = 16  # a thread's stack, and what holds no data
_megabytes: int | None = None  # that a fit of this process may take
_is_on = False


class NeedsMoreMemory(Exception):
    """A fit needed more than its memory."""


def limit_fits(megabytes: int) -> None:
    """Limit the fits of this process from now on."""
    global _megabytes
    _megabytes = megabytes
    take_buffers()


def take_buffers() -> None:
    """Let both BLAS libraries allocate this thread's buffers now, beside the limit.

    A library that cannot allocate its buffers ends the process.
    """
    from scipy.linalg.blas import dgemm

    square = np.ones((256, 256))  # small products take no buffers
    if not _is_on:
        dgemm(1.0, square, square @ square)
        return
    (limit, most), before = resource.getrlimit(resource.RLIMIT_DATA), _data_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    dgemm(1.0, square, square @ square)
    limit += max(0, _data_bytes() - before)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


@contextmanager
def limited() -> Iterator[None]:
    """Run a fit under the limit that `limit_fits` has set, if any; `NeedsMoreMemory` beyond it."""
    global _is_on
    if _megabytes is None or sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if before[1] != resource.RLIM_INFINITY:  # the system's own limit stays
        yield
        return
    limit = _data_bytes() + (_megabytes + SPARE_MB) * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    _is_on = True
    try:
        yield
    except MemoryError:
        raise NeedsMoreMemory(f"the fit needed more than {_megabytes} MB") from None
    finally:
        _is_on = False
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int:
    """Return the private memory of this process that counts towards RLIMIT_DATA."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmData":
            return int(value.split()[0]) * 1024
    return 0


def within_cpu_time(seconds: float, work: Callable[..., Returned], *given: Any) -> Returned:
    """Run `work(*given)`; the process dies with `SPENT` once all its threads had `seconds`."""
    if not SPENT:
        return work(*given)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work(*given)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
