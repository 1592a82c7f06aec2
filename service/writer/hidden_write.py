"""Rows that one large write owns, and that no reader sees until it ends."""

from service.base.problems import Problem, ProblemCode
from service.session.records import HiddenRows, SessionKey, SessionRow
from service.writer.unit_of_work import UnitOfWork

OWN_SECONDS = 15.0  # from one slice to the next; then the writer counts as dead


def hide_for(
    uow: UnitOfWork,
    key: SessionKey,
    writer: str,
    trajectory: str | None = None,
    after_round: int = 0,
) -> None:
    """Note that a large write owns these rows of a session, until OWN_SECONDS from now."""
    uow.hide(HiddenRows(*key, trajectory, after_round, writer, uow.now + OWN_SECONDS))


def own(uow: UnitOfWork, key: SessionKey, writer: str) -> None:
    """Put off the time at which the rows stop being this writer's.

    Raises
    ------
    Problem
        503 storage_busy: a sweep has begun to erase them, because no slice came for OWN_SECONDS.
    """
    note = uow.hidden_rows(key)
    if note is None or note.writer != writer:
        detail = f"the write paused for more than {OWN_SECONDS:g} s, and was undone; try again"
        raise Problem(ProblemCode.STORAGE_BUSY, detail, retry_after=1)
    uow.hide(note._replace(sweep_at=uow.now + OWN_SECONDS))


def refuse_erasing(session: SessionRow, trajectory: str) -> None:
    """Raise a 503 while the rows of this trajectory are being erased."""
    if session.erasing == trajectory:
        detail = "the trajectory is being erased; then its key may begin anew"
        raise Problem(ProblemCode.ERASURE_PENDING, detail, "trajectory", retry_after=1)


def refuse_appending(session: SessionRow) -> None:
    """Raise a 503 while a log is being appended to the session in slices."""
    if session.append_token is not None:
        detail = "a log is being appended to the session; it takes nothing else until it is whole"
        raise Problem(ProblemCode.HISTORY_PENDING, detail, retry_after=1)
