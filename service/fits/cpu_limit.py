"""A limit to the CPU time of a fit, in the process that runs it (not on Windows).

It counts what the fit has had of a processor, not how long it waited for one: on a busy machine a
fit takes long and has done nothing wrong.
"""

import signal
from collections.abc import Callable
from typing import Any, TypeVar

Returned = TypeVar("Returned")
SPENT = -int(getattr(signal, "SIGPROF", 0))  # exit code of a process that reached the limit


def within_cpu_time(seconds: float, work: Callable[..., Returned], *given: Any) -> Returned:
    """Run `work(*given)`; the process dies with `SPENT` once all its threads had `seconds`."""
    if not SPENT:
        return work(*given)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        return work(*given)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
