"""The protocol of commands, which the writer runs on a unit of work."""

from typing import Any, Protocol, TypeVar

from service.session.records import SessionKey
from service.storage.ports import Keys
from service.writer.unit_of_work import UnitOfWork

Result = TypeVar("Result", covariant=True)


class Command(Protocol[Result]):
    """A request that writes; the writer commits it together with others.

    A command checks before it writes, so a `Problem` that it raises leaves nothing written.
    """

    __slots__ = ()

    def keys(self, keys: Keys) -> None:
        """Add the keys of the rows that this command will read, so that they are read in bulk."""
        return

    def whose(self) -> str:
        """Return the tenant whose share of transactions this takes; "": the service's own."""
        return ""

    def is_brief(self, uow: UnitOfWork) -> bool:
        """Return whether the command is short enough to run in the event loop."""
        return False

    def __call__(self, uow: UnitOfWork) -> Result:
        """Check, write, and return the result; a `Problem` is raised with nothing written."""


class SessionCommand(Command[Result], Protocol[Result]):
    """A command that announces one session, `key`, and nothing else."""

    __slots__ = ()
    key: SessionKey

    def whose(self) -> str:
        """Return the session's tenant."""
        return self.key[0]

    def keys(self, keys: Keys) -> None:
        """Add the session's key."""
        keys.sessions.add(self.key)


Commands = list[Command[Any]]
CommandOutcome = tuple[Any, BaseException | None]  # its result, or its error
