"""What a session gives up, and dropping the rows of old rounds (`service.rounds.retention`)."""

from collections.abc import Generator

from service.rounds.retention import Plan, in_lift, is_busy
from service.rounds.timeline import timeline_of
from service.session.records import SessionKey, SessionRow
from service.storage.ports import DropCursor
from service.storage.reader import Reader
from service.writer.command import Command, session_command
from service.writer.unit_of_work import UnitOfWork

DAY = 86_400.0
# a pass over the rows begins when this share of them may go: then each row is looked at a few times
LEAST_SHARE = 1 / 8


def plan(reader: Reader, session: SessionRow, now: float, young: float = 3600.0) -> Plan | None:
    """Return what a session may give up; None if it is nothing, or too little for a pass."""
    keeps_all = session.keep_rounds is None and session.keep_days is None
    if keeps_all or is_busy(session) or session.archived_at is not None:
        return None
    # a retry of the last `young` seconds gets its first answer, whatever is kept
    n, until = session.n_rounds, now - max((session.keep_days or 0.0) * DAY, young)
    least = session.dropped_to + (n - session.dropped_to) * LEAST_SHARE
    n_kept = session.keep_rounds or session.kind.sizes.latest
    to = min(n - n_kept, in_lift(reader, session).decided)
    if to <= least:
        return None
    found = timeline_of(session).to_give_up(reader, session, to, until, now)
    if found is None or found.dropped_to <= least:
        return None
    return found if _may_begin(reader, session, found, now) else None


def _may_begin(reader: Reader, session: SessionRow, found: Plan, now: float) -> bool:
    """Return whether a plan holds still: the next fit goes on from the sums, whatever has come.

    A value that a fit has used, or a decision, may have been corrected since.
    """
    if is_busy(session) or session.archived_at is not None:
        return False
    if found.dropped_to > in_lift(reader, session).decided:
        return False
    return timeline_of(session).still_given_up(reader, session, found, now)


@session_command
def give_up_rounds(uow: UnitOfWork, key: SessionKey, plan: Plan) -> bool:
    """From now on rounds up to a position take no rewards, and their rows may go.

    This is what cannot be undone: from here on fits need the kept sums. Returns whether rounds were
    given up; not if the plan does not hold any more.
    """
    session = uow.session(key)
    if session is None or session.swept_to < session.dropped_to:
        return False
    if plan.dropped_to <= session.dropped_to or not _may_begin(uow.stored, session, plan, uow.now):
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
    dropped = uow.drop(key, to, timeline_of(session).n_before(session), done)
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
