"""Slots of time: rounds by the clock, into each of which any number of decisions falls.

In a session with a clock the round of the model is a slot. Its context is the sum of those of its
decisions, docs/model.md (9.1); a slot without any is a round all the same.
"""

from dataclasses import dataclass

import numpy as np

from lhb_engine.history import Floats, Ints


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of `seconds`, one after the other; slot 1 begins at `start`, in seconds since 1970."""

    seconds: int
    start: int

    def at(self, time: float) -> int:
        """Return the number of the slot into which a time falls; below 1 before the first."""
        return int((time - self.start) // self.seconds) + 1

    def at_each(self, times: Floats) -> Ints:
        """Return the numbers of the slots of an array of times."""
        return ((times - self.start) // self.seconds).astype(np.int64) + 1

    def begin(self, slot: int) -> int:
        """Return when a slot begins, in seconds since 1970."""
        return self.start + (slot - 1) * self.seconds

    def between(self, since: float, until: float) -> tuple[int, int] | None:
        """Return the first and the last slot of an interval; None where it cuts a slot in two."""
        first, after = self.at(since), self.at(until)
        if self.begin(first) != since or self.begin(after) != until or after <= first:
            return None
        return first, after - 1


def slot_sums(slots: Ints, contexts: Floats, first: int, last: int) -> Floats:
    """Add up the contexts of each slot, docs/model.md (9.1): (last - first + 1, dim).

    `slots` (n,), in any order, are those of the contexts (n, dim), which are added in this order;
    contexts of slots before `first` and after `last` are left out. Slots without any are zero.
    """
    inside = (slots >= first) & (slots <= last)
    sums = np.zeros((last - first + 1, contexts.shape[1]))
    np.add.at(sums, slots[inside] - first, contexts[inside])
    return sums
