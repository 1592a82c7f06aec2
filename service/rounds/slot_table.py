"""Sums of contexts by trajectory and slot, of those slots alone that have decisions."""

from collections.abc import Iterable, Iterator

import numpy as np

from lhb_engine.history import Floats, Ints
from service.session.records import SlotSumsRow
from service.session.slot_clock import SlotClock
from service.storage.reader import Range

SLOTS = 2**32  # more than there are


class SlotTable:
    """Sums that grow decision by decision, in order of trajectories and slots."""

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._owners: dict[str, int] = {}
        self._codes: Ints = np.zeros(0, np.int64)  # number of the trajectory and slot
        self._sums: Floats = np.zeros((0, dim))
        self._counts: Ints = np.zeros(0, np.int64)
        self._firsts: Ints = np.zeros(0, np.int64)  # the least position of a slot's decisions
        self._latest = 0

    def add(
        self, names: list[str], slots: Ints, positions: Ints, contexts: Floats, after: int = 0
    ) -> None:
        """Add the contexts of decisions of slots after one, each after those of earlier positions.

        `names`: the trajectory of each; `slots` and `positions` (n,); `contexts` (n, dim).
        """
        self._latest = max(self._latest, int(slots.max(initial=0)))
        order = np.argsort(positions)
        order = order[slots[order] > after]
        owners = np.array([self._owners.setdefault(n, len(self._owners)) for n in names], np.int64)
        codes = owners[order] * SLOTS + slots[order]
        self._grow(codes)
        at = np.searchsorted(self._codes, codes)
        np.add.at(self._sums, at, contexts[order])
        np.add.at(self._counts, at, 1)
        np.minimum.at(self._firsts, at, positions[order])

    def _grow(self, codes: Ints) -> None:
        """Make room for sums."""
        known = np.union1d(self._codes, codes)
        at = np.searchsorted(known, self._codes)
        sums, counts = np.zeros((len(known), self._dim)), np.zeros(len(known), np.int64)
        firsts = np.full(len(known), np.iinfo(np.int64).max)
        sums[at], counts[at], firsts[at] = self._sums, self._counts, self._firsts
        self._codes, self._sums, self._counts, self._firsts = known, sums, counts, firsts

    def with_rows(self, rows: Iterable[SlotSumsRow]) -> "SlotTable":
        """Return a table that has the slots of stored rows, too, to be read and not added to."""
        found = SlotTable(self._dim)
        found._owners = dict(self._owners)
        codes, sums = [self._codes], [self._sums]
        for row in rows:
            values = np.frombuffer(row.sums).reshape(-1, 1 + self._dim)
            owner = found._owners.setdefault(row.trajectory, len(found._owners))
            codes.append(owner * SLOTS + values[:, 0].astype(np.int64))
            sums.append(values[:, 1:])
        found._codes = np.concatenate(codes)
        order = np.argsort(found._codes, kind="stable")
        found._codes, found._sums = found._codes[order], np.concatenate(sums)[order]
        return found

    def contexts(self, ranges: list[Range]) -> list[Floats]:
        """Return the contexts of ranges of slots, an (n_slots, dim) array each."""
        found = []
        for name, first, last in ranges:
            contexts = np.zeros((last - first + 1, self._dim))
            owner = self._owners.get(name)
            if owner is not None:
                edges = owner * SLOTS + first, owner * SLOTS + last + 1
                start, stop = np.searchsorted(self._codes, edges).tolist()
                slots = self._codes[start:stop] - owner * SLOTS
                contexts[slots - first] = self._sums[start:stop]
            found.append(contexts)
        return found

    def settled(self, clock: SlotClock) -> int:
        """Return the last slot that takes no decision after those that were added."""
        return clock.settled(self._latest)

    def between(self, after: int, last: int) -> tuple[Ints, Ints, Ints]:
        """Return slot, trajectory and number of decisions of sums of slots, in order of slots."""
        slots = self._codes % SLOTS
        places = np.flatnonzero((slots > after) & (slots <= last))
        places = places[np.argsort(slots[places], kind="stable")]
        return slots[places], self._codes[places] // SLOTS, self._counts[places]

    def first_after(self, slot: int, default: int) -> int:
        """Return the least position of a decision of a later slot."""
        return int(self._firsts[self._codes % SLOTS > slot].min(initial=default))

    def stretch(self, after: int, last: int) -> Iterator[tuple[str, bytes]]:
        """Yield trajectories with the bytes of their slots after one, up to another.

        The default trajectory comes first, and others that have any.
        """
        slots = self._codes % SLOTS
        for name, owner in {"": -1, **self._owners}.items():
            edges = owner * SLOTS + after + 1, owner * SLOTS + last + 1
            start, stop = np.searchsorted(self._codes, edges)
            values = np.column_stack([slots[start:stop], self._sums[start:stop]])
            if not name or len(values):
                yield name, values.astype(np.float64).tobytes()
