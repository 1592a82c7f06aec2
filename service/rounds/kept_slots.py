"""Keeping the slots of time that a fit has summed."""

from dataclasses import dataclass
from typing import NamedTuple

from service.session.records import SessionKey, SessionRow, SlotSumsRow
from service.storage.ports import Changes
from service.storage.reader import FOR_EVER, Reader
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork


class SettledSlots(NamedTuple):
    """What a fit's process returns of slots of time that it has summed, in a session with a clock.

    `rows` are stretches of slots that take no decision any more. `measured` is the position of the
    last measurement, or void, that the fit could know; `n_erased` as when it read the decisions.
    """

    rows: list[SlotSumsRow]
    measured: int
    n_erased: int


@dataclass(frozen=True, slots=True)
class KeepSlots(SessionCommand[bool]):
    """Command: keep slots of a fit that has more of them than one transaction keeps."""

    key: SessionKey
    settled: SettledSlots

    def __call__(self, uow: UnitOfWork) -> bool:
        """Return whether any were kept."""
        session = uow.session(self.key)
        return session is not None and keep_settled(uow, session, self.settled)


def keep_settled(uow: UnitOfWork, session: SessionRow, settled: SettledSlots) -> bool:
    """Store slots that a fit has summed, but for those that decisions left meanwhile, if any."""
    if not settled.rows or settled.n_erased != session.n_erased_rows:
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
    times = [
        reader.time_of_round((*session.key, one.trajectory), one.round)
        for one in reader.voids(session.key, after, FOR_EVER)
    ]
    return min((1 if at is None else clock.slots.at(at) for at in times), default=FOR_EVER)
