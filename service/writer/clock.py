"""The time that is stored and waited by: the system's, except that it never goes back."""

import threading
import time
from collections.abc import Callable


class Clock:
    """Seconds since 1970.

    Where the system's clock is set back, this one goes on at half its pace until it has been
    caught up with: order stays, waits end within twice their length, and the error is made good
    without a step.

    Parameters
    ----------
    system, steady : callable
        The clock that may be set, and one that cannot be.
    """

    def __init__(
        self,
        system: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._system, self._steady = system, steady
        self._lock = threading.Lock()
        self._at, self._now = steady(), system()

    def __call__(self) -> float:
        """The time now; never less than it was."""
        with self._lock:
            at = self._steady()
            self._now = max(self._system(), self._now + 0.5 * (at - self._at))
            self._at = at
            return self._now
