"""Erasing rows that no reader sees, in slices."""

from collections.abc import Generator
from dataclasses import dataclass

from service.records import SessionKey
from service.storage.ports import Place
from service.writer.command import Command, SessionCommand
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class EraseSlice(SessionCommand[Place | None]):
    """Command: erase some hidden rows of a session, and their note with the last of them.

    Attributes
    ----------
    place : Place or None
        Where the slice before ended.
    is_abandoned : bool
        Whether their writer is known to be gone. Otherwise it has until `sweep_at`.
    """

    key: SessionKey
    place: Place | None
    is_abandoned: bool

    def __call__(self, uow: UnitOfWork) -> Place | None:
        """Return where to go on; None if nothing is left, or the rows are another's to write."""
        hidden = uow.hidden_rows(self.key)
        if hidden is None:
            return None
        if hidden.writer is not None:
            if hidden.sweep_at > uow.now and not self.is_abandoned:
                return None
            hidden = hidden._replace(writer=None)
            uow.hide(hidden)  # the writer, if it lives, finds that they are no longer its own
        place = uow.erase(hidden, self.place)
        if place is None:
            uow.forget_hidden(self.key)
            session = uow.session(self.key)
            if session is not None:
                session.append_token = None
                uow.save(session)
        return place


def sweep(
    key: SessionKey, *, is_abandoned: bool = False
) -> Generator[Command[Place | None], Place | None, None]:
    """Yield the commands that erase a session's hidden rows."""
    place: Place | None = None
    while True:
        place = yield EraseSlice(key, place, is_abandoned)
        if place is None:
            return
