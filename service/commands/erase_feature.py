"""Erasing the name of a category: it may be a person's."""

from dataclasses import dataclass

from service.commands.sessions import find_session
from service.session.records import COMMAND_LINE, Actor, SessionKey
from service.writer.audit import note
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class EraseFeature(SessionCommand[None]):
    """Command: forget what a category is called, like ``user=bob``.

    Its column stays, and what was learned of it. If the category comes again, it is a new one.
    """

    key: SessionKey
    name: str
    by: Actor = COMMAND_LINE

    def __call__(self, uow: UnitOfWork) -> None:
        """Replace the name in the session.

        Raises 404 unknown_session or unknown_feature; 422 as `Names.without`; 503 history_pending.
        """
        session = find_session(uow, self.key)
        before = session.names
        session.names = before.without(self.name)
        uow.save(session)
        column = before.columns.index(self.name)  # the entry does not hold the name
        note(uow, session.tenant, self.by, "feature_erased", session.id, column=column)
