"""Erasing rows that no reader sees, in slices."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from service.fits.when_due import recount
from service.session.records import HiddenRows, SessionKey
from service.storage.ports import EraseCursor
from service.writer.command import Command, SessionCommand
from service.writer.unit_of_work import UnitOfWork


class Erased(NamedTuple):
    """The note of the rows that a sweep erases, and where its last slice ended."""

    note: HiddenRows
    cursor: EraseCursor


@dataclass(frozen=True, slots=True)
class EraseSlice(SessionCommand[Erased | None]):
    """Command: erase some hidden rows of a session, and their note with the last of them."""

    key: SessionKey
    done: Erased | None = None  # what the slice before returned
    # the token of a writer that is known to be gone; any other writer has until `sweep_at`
    abandoned_by: str | None = None

    def __call__(self, uow: UnitOfWork) -> Erased | None:
        """Return where to go on; None if nothing is left, or the rows are another's to write."""
        hidden = uow.hidden_rows(self.key)
        if hidden is None:
            return None
        if hidden.writer is not None:
            if hidden.sweep_at > uow.now and hidden.writer != self.abandoned_by:
                return None
            hidden = hidden._replace(writer=None)
            uow.pending.hidden.append(hidden)  # the writer, if it lives, finds them not its own
        # another note hides other rows: since the slice before, the session was deleted, or another
        # sweep has come to its end and another log was begun
        done = self.done
        cursor = uow.erase(hidden, done.cursor if done and done.note == hidden else None)
        if cursor is not None:
            return Erased(hidden, cursor)
        uow.pending.swept.append(self.key)
        session = uow.session(self.key)
        if session is not None:
            was_erasing = session.erasing is not None
            session.append_token = session.erasing = None
            if was_erasing:
                recount(uow, session)
            uow.save(session)
        return None


def sweep(
    key: SessionKey, *, abandoned_by: str | None = None
) -> Generator[Command[Erased | None], Erased | None, None]:
    """Yield the commands that erase a session's hidden rows; see `EraseSlice`."""
    done = yield EraseSlice(key, None, abandoned_by)
    while done is not None:
        done = yield EraseSlice(key, done, abandoned_by)
