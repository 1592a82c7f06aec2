"""Dropping the rows of old rounds, in slices (`service.rounds.retention`)."""

from collections.abc import Generator
from dataclasses import dataclass

from service.rounds.retention import Plan, is_busy, may_begin, n_before
from service.session.records import SessionKey
from service.storage.ports import DropCursor
from service.writer.command import Command, SessionCommand
from service.writer.effects import count
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class GiveUpRounds(SessionCommand[bool]):
    """Command: from now on rounds up to a position take no rewards, and their rows may go.

    This is what cannot be undone: from here on fits need the kept sums.
    """

    key: SessionKey
    plan: Plan

    def __call__(self, uow: UnitOfWork) -> bool:
        """Return whether rounds were given up; not if the plan does not hold any more."""
        session = uow.session(self.key)
        if session is None or session.swept_to < session.dropped_to:
            return False
        if self.plan.dropped_to <= session.dropped_to:
            return False
        if not may_begin(uow.stored, session, self.plan, uow.now):
            return False
        session.dropped_to = self.plan.dropped_to
        uow.save(session)
        return True


@dataclass(frozen=True, slots=True)
class DropSlice(SessionCommand[DropCursor | None]):
    """Command: delete some rows of rounds up to a position, and note the end of a pass.

    A later pass may have a later position `to`; `done` is where the slice before ended.
    """

    key: SessionKey
    to: int
    done: DropCursor | None = None

    def __call__(self, uow: UnitOfWork) -> DropCursor | None:
        """Return where to go on; None at the end, or where something else has the rows."""
        session = uow.session(self.key)
        if session is None or is_busy(session) or session.swept_to >= self.to:
            return None
        dropped = uow.drop(self.key, self.to, n_before(session), self.done)
        session.n_dropped_rounds += dropped.n_rounds
        session.n_dropped_measurements += dropped.n_measurements
        session.n_dropped_complete += dropped.n_complete
        if dropped.cursor is None:
            session.swept_to = self.to
        uow.save(session)
        count(uow.effects.n_dropped, session.tenant, dropped.n_rounds)
        return dropped.cursor


def drop_rounds(
    key: SessionKey, to: int
) -> Generator[Command[DropCursor | None], DropCursor | None, None]:
    """Yield the commands of one pass over the rows of a session."""
    done = yield DropSlice(key, to)
    while done is not None:
        done = yield DropSlice(key, to, done)
