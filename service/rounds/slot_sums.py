"""The summed contexts of slots of time (docs/model.md (9.1)), each slot summed once.

A slot is settled when it takes no decision any more. The sums of settled slots are kept, in
stretches. They follow from the decisions, to the bit, whoever adds these up and whenever: a slot's
decisions are added in order of positions. They are read a few at a time, so that the memory needed
does not grow with their number.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lhb_engine.history import Floats, Ints
from service.rounds.stored_rows import joined_ranges, n_given, n_named
from service.session.fit_schedule import Watermark
from service.session.records import DecisionRow, SessionKey, SessionRow, SlotSumsRow, TrajectoryRow
from service.session.slot_clock import SlotClock
from service.storage.ports import Changes
from service.storage.reader import FOR_EVER, Range, Reader
from service.writer.command import session_command
from service.writer.unit_of_work import UnitOfWork

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
        self.latest = 0  # slot of a decision

    def add(
        self, names: list[str], slots: Ints, positions: Ints, contexts: Floats, after: int = 0
    ) -> None:
        """Add the contexts of decisions of slots after one, each after those of earlier positions.

        `names`: the trajectory of each; `slots` and `positions` (n,); `contexts` (n, dim).
        """
        self.latest = max(self.latest, int(slots.max(initial=0)))
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
        every = np.union1d(self._codes, codes)
        at = np.searchsorted(every, self._codes)
        sums, counts = np.zeros((len(every), self._dim)), np.zeros(len(every), np.int64)
        firsts = np.full(len(every), np.iinfo(np.int64).max)
        sums[at], counts[at], firsts[at] = self._sums, self._counts, self._firsts
        self._codes, self._sums, self._counts, self._firsts = every, sums, counts, firsts

    def with_rows(self, rows: Iterable[SlotSumsRow]) -> "SlotTable":
        """Return a table that has the slots of stored rows, too, to be read and not added to."""
        table = SlotTable(self._dim)
        table._owners = dict(self._owners)
        codes, sums = [self._codes], [self._sums]
        for row in rows:
            values = np.frombuffer(row.sums).reshape(-1, 1 + self._dim)
            owner = table._owners.setdefault(row.trajectory, len(table._owners))
            codes.append(owner * SLOTS + values[:, 0].astype(np.int64))
            sums.append(values[:, 1:])
        table._codes = np.concatenate(codes)
        order = np.argsort(table._codes, kind="stable")
        table._codes, table._sums = table._codes[order], np.concatenate(sums)[order]
        return table

    def contexts(self, ranges: list[Range]) -> list[Floats]:
        """Return the contexts of ranges of slots, an (n_slots, dim) array each."""
        pieces = []
        for name, first, last in ranges:
            contexts = np.zeros((last - first + 1, self._dim))
            owner = self._owners.get(name)
            if owner is not None:
                edges = owner * SLOTS + first, owner * SLOTS + last + 1
                start, stop = np.searchsorted(self._codes, edges).tolist()
                slots = self._codes[start:stop] - owner * SLOTS
                contexts[slots - first] = self._sums[start:stop]
            pieces.append(contexts)
        return pieces

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


MOST_BYTES = 2**22  # of rows that one transaction keeps, or one stretch


@dataclass
class SlotSums:
    """The contexts of a session's slots up to slot n."""

    reader: Reader
    session: SessionRow
    kept_to: int  # the sums of slots up to this one are read when they are asked for
    table: SlotTable  # those of later slots
    settled: int = 0  # the last slot whose context stays as it is
    new: list[SlotSumsRow] = field(default_factory=list)  # stretches that were not kept yet
    # whether the table has all later slots. Else the new stretches are as many as one transaction
    # keeps, and come first
    is_whole: bool = True

    def contexts(self, ranges: list[Range]) -> list[Floats]:
        """Return the contexts of ranges of slots of trajectories, an (n_slots, dim) array each.

        Where rewards are totals over all, they are those of the default trajectory.
        """
        n = self.session.kind.sizes.n_slots  # of a row: its last one, and at most so many before
        kept = [one for one in ranges if one[1] <= self.kept_to]
        spans = joined_ranges([(name, first, last + n - 1) for name, first, last in kept])
        rows = self.reader.slot_sums_in(self.session.key, spans, self.kept_to) if spans else ()
        return self.table.with_rows(rows).contexts(ranges)


def read_slot_sums(
    reader: Reader, session: SessionRow, n: int, limit: Watermark | None, *, kept: bool
) -> SlotSums:
    """Sum the contexts of slots 1 to n, at most those that had begun when the fit was due.

    Decisions after the watermark `limit` of a fit are left out. `kept`: stretches that are kept are
    taken, and for a fit new ones returned. Those with decisions that were voided after its
    watermark are not taken. Those of slots whose decisions are dropped always are.
    """
    mark = Watermark(FOR_EVER, session.n_rounds) if limit is None else limit
    measured, decided = mark.measured, mark.decided
    assert session.clock is not None
    clock, settled = session.clock, session.clock.settled(n)
    kept_to, after = reader.summed_for_good(session), session.dropped_to
    if kept:
        void = first_void_slot(reader, session, measured)
        last = reader.last_slot_sums(session.key, min(settled, void - 1))
        if last is not None and last.last_slot > kept_to:
            kept_to, after = last.last_slot, last.decided
    sums = SlotSums(reader, session, kept_to, SlotTable(n_given(session)), settled)
    begun = kept_to
    for until in _read(sums, clock, (after, decided), measured):
        if not kept or limit is None:
            continue
        complete = settled if until == decided else min(settled, clock.settled(sums.table.latest))
        begun = _settle(sums, begun, complete, until)
        n_bytes = sum(len(row.sums) for row in sums.new)
        if len(sums.new) >= session.kind.sizes.most_rows or n_bytes >= MOST_BYTES:
            sums.is_whole = until == decided
            break
    return sums


def slot_sums_of(
    reader: Reader, session: SessionRow, clock: SlotClock, trajectory: TrajectoryRow
) -> SlotSums:
    """Return the sums of one trajectory: kept ones, and those of its decisions since."""
    key, n_begun = (*session.key, trajectory.key), session.schedule.n_slots
    settled = clock.settled(n_begun)
    last = reader.last_slot_sums(session.key, settled)
    kept_to, decided = (0, 0) if last is None else (last.last_slot, last.decided)
    sums = SlotSums(reader, session, kept_to, SlotTable(n_given(session)), settled)
    until, rows, n = trajectory.n_rounds, list[DecisionRow](), session.kind.sizes.page
    while until > 0 and not (rows and rows[0].position <= decided):
        first, page = max(0, until - n), list[DecisionRow]()
        while some := reader.decisions(key, page[-1].round if page else first, n, until):
            page += some
        rows, until = page + rows, first if page else 0  # earlier ones are dropped
    void = {one.round for one in reader.voids_of(key, until + 1, trajectory.n_rounds)}
    rows = [row for row in rows if row.context and row.round not in void]
    slots = clock.slots.at_each(np.array([row.at for row in rows]))
    places = np.array([row.position for row in rows], np.int64)
    none = bytes(8 * n_given(session))
    numbers = b"".join(row.context + none[len(row.context) :] for row in rows)
    contexts = np.frombuffer(numbers).reshape(-1, n_given(session))
    sums.table.add([trajectory.key] * len(rows), slots, places, contexts, kept_to)
    return sums


def _read(sums: SlotSums, clock: SlotClock, span: tuple[int, int], measured: int) -> Iterator[int]:
    """Add the decisions of slots after `kept_to` to the table, and yield how far they are read.

    `span` is the position before the first decision, and that of the last one; `measured` that of
    the last void that counts.
    """
    reader, session = sums.reader, sums.session
    void = {one[:2] for one in reader.voids(session.key, 0, measured)}
    after, decided = span
    round = reader.unnamed_after(session.key, after, n_named(reader, session))
    none = bytes(8 * n_given(session))
    while after < decided:
        until = min(after + session.kind.sizes.n_positions, decided)
        names: list[str] = []
        times, positions, contexts = [], [], bytearray()
        for name, number, position, at, context in reader.timed_decisions(
            session.key, after, until, round
        ):
            if not name:
                round = number
            if not context or not session.has(name):
                continue
            # an older fit may know of no void, and must find the decision's position
            numbers = b"" if (name, number) in void else context
            whole = clock.owner(name)
            # an erasure takes a trajectory out of the sums of dropped decisions
            for owner in dict.fromkeys((whole, name if session.drops_rows else whole)):
                names.append(owner)
                times.append(at)
                positions.append(position)
                contexts += numbers
                contexts += none[len(numbers) :]
        slots = clock.slots.at_each(np.array(times))
        places = np.array(positions, np.int64)
        summed = np.frombuffer(contexts).reshape(-1, n_given(session))
        sums.table.add(names, slots, places, summed, sums.kept_to)
        after = until
        yield until


def _settle(sums_read: SlotSums, begun: int, complete: int, until: int) -> int:
    """Make rows of the stretches after slot `begun` that are to be kept; return the last slot.

    Decisions are those up to position `until`, and all of slots up to `complete` are in the table.
    """
    while True:
        stop = _end(sums_read, begun, complete)
        if stop is None:
            return begun
        decided = sums_read.table.first_after(stop, until + 1) - 1
        for name, sums in sums_read.table.stretch(begun, stop):
            sums_read.new.append(SlotSumsRow(*sums_read.session.key, name, stop, decided, sums))
        begun = stop


def _end(sums: SlotSums, begun: int, complete: int) -> int | None:
    """Return where the stretch after slot `begun` ends; None if it can go on.

    It ends after so many slots with decisions, or before too many trajectories or decisions.
    """
    sizes = sums.session.kind.sizes
    slots, owners, counts = sums.table.between(begun, complete)
    if len(owners) == 0:
        return None
    last = int(slots[0]) - 1 + sizes.n_slots
    stop = min(last, complete)
    within = slots <= stop
    slots, owners, counts = slots[within], owners[within], counts[within]
    _, firsts = np.unique(owners, return_index=True)
    n_owners: Ints = np.cumsum(np.isin(np.arange(len(slots)), firsts))
    if n_owners[-1] > sizes.most_trajectories:
        over = int(slots[np.argmax(n_owners > sizes.most_trajectories)])
        return max(over - 1, int(slots[0]))
    return stop if stop == last or int(counts.sum()) >= sizes.most_again else None


class SettledSlots(NamedTuple):
    """What a fit's process returns of slots of time that it has summed, in a session with a clock.

    `rows` are stretches of slots that take no decision any more. `measured` is the position of the
    last measurement, or void, that the fit could know; `n_erased` and `drops_rows` of the session
    are as when it read the decisions.
    """

    rows: list[SlotSumsRow]
    measured: int
    n_erased: int
    drops_rows: bool


def without_part(whole: SlotSumsRow, part: SlotSumsRow, session: SessionRow) -> SlotSumsRow:
    """Return a stretch's sums over all trajectories without those of one, within rounding."""
    shape = -1, 1 + n_given(session)
    sums, less = (np.frombuffer(one.sums).reshape(shape) for one in (whole, part))
    left = sums.copy()
    left[np.isin(sums[:, 0], less[:, 0]), 1:] -= less[np.isin(less[:, 0], sums[:, 0]), 1:]
    return whole._replace(sums=left[left[:, 1:].any(axis=1)].tobytes())


@session_command
def keep_slots(uow: UnitOfWork, key: SessionKey, settled: SettledSlots) -> bool:
    """Keep slots of a fit that has more than one transaction keeps; return if any were kept."""
    session = uow.session(key)
    return session is not None and keep_settled(uow, session, settled)


def keep_settled(uow: UnitOfWork, session: SessionRow, settled: SettledSlots) -> bool:
    """Store slots that a fit has summed, but for those that decisions left meanwhile, if any."""
    state = settled.n_erased, settled.drops_rows
    if not settled.rows or state != (session.n_erased_rows, session.drops_rows):
        return False
    void = first_void_slot(uow.stored, session, settled.measured)
    rows = [row for row in settled.rows if row.last_slot < void]
    uow.write_rows(Changes(slot_sums=rows))
    return bool(rows)


def first_void_slot(reader: Reader, session: SessionRow, after: int) -> int:
    """Return the first slot of which a decision was voided after a position; one far off if none.

    A decision whose row is gone may have been in any slot.
    """
    clock = session.clock
    assert clock is not None
    times = (one.taken_at for one in reader.voids(session.key, after, FOR_EVER))
    return min((1 if at is None else clock.slots.at(at) for at in times), default=FOR_EVER)
