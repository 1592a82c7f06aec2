"""How many fits run at once: one a process, and a spare process for short fits alone.

A fit cannot be put aside once it runs. Where long fits hold every process, a short one still gets
the spare one, which is started when it is first needed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from service.fits.cost import SHORT_SECONDS
from service.fits.turns import Turns
from service.session.records import SessionKey


@dataclass(frozen=True, eq=False)
class Place:
    """The place of one running fit, which is expected to take `seconds` of CPU time."""

    key: SessionKey
    seconds: float
    is_spare: bool


class Places:
    """The running fits, and which one is next; `n_processes` without the spare one."""

    def __init__(self, n_processes: int) -> None:
        self._n_processes = n_processes
        self._taken: list[Place] = []
        self._turns = Turns()
        self.has_spare = True

    @property
    def room(self) -> float:
        """The most seconds that a fit may be expected to take to begin now; -1 if none may."""
        n_used = sum(not place.is_spare for place in self._taken)
        if n_used < self._n_processes:
            return inf
        has_long = any(place.seconds > SHORT_SECONDS for place in self._taken)
        is_free = self.has_spare and len(self._taken) == n_used
        return SHORT_SECONDS if has_long and is_free else -1.0

    def take(self, waiting: Mapping[SessionKey, float]) -> Place | None:
        """Take a place for the fit whose turn it is; None if none waits or there is no process."""
        room = self.room
        if room < inf:
            waiting = {key: seconds for key, seconds in waiting.items() if seconds <= room}
        key = self._turns.next(waiting, [place.key for place in self._taken])
        if key is None:
            return None
        place = Place(key, waiting[key], is_spare=room < inf)
        self._taken.append(place)
        self._turns.charge(key, place.seconds)
        return place

    def release(self, place: Place, seconds: float | None) -> None:
        """Give a place back; `seconds` are what its fit took, None if it is not known."""
        self._taken.remove(place)
        if seconds is not None:
            self._turns.charge(place.key, seconds - place.seconds)

    def cancel(self, place: Place) -> None:
        """Give a place back whose fit was not begun."""
        self.release(place, 0.0)
