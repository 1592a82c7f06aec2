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
class Slot:
    """The place of one running fit, which is expected to take `seconds` of CPU time."""

    key: SessionKey
    seconds: float
    is_spare: bool


class Slots:
    """The running fits, and which one is next; `n_processes` without the spare one."""

    def __init__(self, n_processes: int) -> None:
        self._n_processes = n_processes
        self._taken: list[Slot] = []
        self._turns = Turns()
        self.has_spare = True

    @property
    def room(self) -> float:
        """The most seconds that a fit may be expected to take to begin now; -1 if none may."""
        n_used = sum(not slot.is_spare for slot in self._taken)
        if n_used < self._n_processes:
            return inf
        has_long = any(slot.seconds > SHORT_SECONDS for slot in self._taken)
        is_free = self.has_spare and len(self._taken) == n_used
        return SHORT_SECONDS if has_long and is_free else -1.0

    def take(self, waiting: Mapping[SessionKey, float]) -> Slot | None:
        """Take a slot for the fit whose turn it is; None if none waits or there is no process."""
        room = self.room
        if room < inf:
            waiting = {key: seconds for key, seconds in waiting.items() if seconds <= room}
        key = self._turns.next(waiting, [slot.key for slot in self._taken])
        if key is None:
            return None
        slot = Slot(key, waiting[key], is_spare=room < inf)
        self._taken.append(slot)
        self._turns.charge(key, slot.seconds)
        return slot

    def release(self, slot: Slot, seconds: float | None) -> None:
        """Give a slot back; `seconds` are what its fit took, None if it is not known."""
        self._taken.remove(slot)
        if seconds is not None:
            self._turns.charge(slot.key, seconds - slot.seconds)

    def cancel(self, slot: Slot) -> None:
        """Give a slot back whose fit was not begun."""
        self.release(slot, 0.0)
