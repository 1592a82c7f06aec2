"""What the writer runs: a use case over a unit of work."""

from typing import Protocol, TypeVar

from service.records import SessionKey
from service.storage.ports import Keys
from service.writer.unit_of_work import UnitOfWork

Result = TypeVar("Result", covariant=True)


class Command(Protocol[Result]):
    """One request to change something, committed together with others.

    It checks first and writes then: a `Problem` it raises leaves nothing written.
    """

    __slots__ = ()

    def keys(self, keys: Keys) -> None:
        """Announce the rows that this is going to read, so that they are read together."""
        return

    def is_brief(self, uow: UnitOfWork) -> bool:
        """Return whether this reads and writes only a few rows, so the event loop may run it."""
        return False

    def __call__(self, uow: UnitOfWork) -> Result:
        """Check, write, and return the result."""


class SessionCommand(Command[Result], Protocol[Result]):
    """A command that reads one session and nothing else that could be announced."""

    __slots__ = ()
    key: SessionKey

    def keys(self, keys: Keys) -> None:
        """Announce the session."""
        keys.sessions.add(self.key)
