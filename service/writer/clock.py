"""The clock for stored times and waits: the system's time, but never going back."""

import threading
import time
from collections.abc import Callable


class Clock:
    """Seconds since 1970, never decreasing.

    If the system's clock is set back, this one runs at half speed until the system's has caught
    up. The order of times stays, and a wait takes at most twice its length. `steady` is monotonic.
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
        """Return the time now, in seconds since 1970."""
        with self._lock:
            at = self._steady()
            self._now = max(self._system(), self._now + 0.5 * (at - self._at))
            self._at = at
            return self._now
