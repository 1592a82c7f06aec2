"""Dropping the rows of old rounds, in slices (`service.rounds.retention`)."""

from collections.abc import Generator

from service.rounds.retention import Plan, is_busy, may_begin, n_before
from service.session.records import SessionKey
from service.storage.ports import DropCursor
from service.writer.command import Command, session_command
from service.writer.unit_of_work import UnitOfWork


@session_command
def give_up_rounds(uow: UnitOfWork, key: SessionKey, plan: Plan) -> bool:
    """From now on rounds up to a position take no rewards, and their rows may go.

    This is what cannot be undone: from here on fits need the kept sums. Returns whether rounds were
    given up; not if the plan does not hold any more.
    """
    session = uow.session(key)
    if session is None or session.swept_to < session.dropped_to:
        return False
    if plan.dropped_to <= session.dropped_to or not may_begin(uow.stored, session, plan, uow.now):
        return False
    session.dropped_to = plan.dropped_to
    uow.save(session)
    return True


@session_command
def drop_slice(
    uow: UnitOfWork, key: SessionKey, to: int, done: DropCursor | None = None
) -> DropCursor | None:
    """Delete some rows of rounds up to a position, and note the end of a pass.

    A later pass may have a later position `to`; `done` is where the slice before ended. Returns
    where to go on; None at the end, or where something else has the rows.
    """
    session = uow.session(key)
    if session is None or is_busy(session) or session.swept_to >= to:
        return None
    dropped = uow.drop(key, to, n_before(session), done)
    session.n_dropped_rounds += dropped.n_rounds
    session.n_dropped_measurements += dropped.n_measurements
    session.n_dropped_complete += dropped.n_complete
    if dropped.cursor is None:
        session.swept_to = to
    uow.save(session)
    uow.effects.counts["rounds_dropped", session.tenant] += dropped.n_rounds
    return dropped.cursor


def drop_rounds(
    key: SessionKey, to: int
) -> Generator[Command[DropCursor | None], DropCursor | None, None]:
    """Yield the commands of one pass over the rows of a session."""
    done = yield drop_slice(key, to)
    while done is not None:
        done = yield drop_slice(key, to, done)
