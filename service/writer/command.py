"""What a command is, which the writer runs on a unit of work: a class, or a function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from service.session.records import SessionKey
from service.storage.ports import Keys
from service.writer.unit_of_work import UnitOfWork

Result = TypeVar("Result", covariant=True)
Given = ParamSpec("Given")


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


@dataclass(frozen=True, slots=True)
class _Call(Command[Result]):
    run: Callable[[UnitOfWork], Result]

    def __call__(self, uow: UnitOfWork) -> Result:
        return self.run(uow)


@dataclass(frozen=True, slots=True)
class _SessionCall(_Call[Result], SessionCommand[Result]):
    key: SessionKey


def command(
    run: Callable[Concatenate[UnitOfWork, Given], Result],
) -> Callable[Given, Command[Result]]:
    """Make a command of a function: called with all but the unit of work, it waits for one."""
    return lambda *arguments, **named: _Call(lambda uow: run(uow, *arguments, **named))


def session_command(
    run: Callable[Concatenate[UnitOfWork, SessionKey, Given], Result],
) -> Callable[Concatenate[SessionKey, Given], SessionCommand[Result]]:
    """Make a command of a function on a session, whose key comes first; see `command`."""

    def made(key: SessionKey, /, *arguments: Given.args, **named: Given.kwargs) -> Any:
        return _SessionCall(lambda uow: run(uow, key, *arguments, **named), key)

    return made


Commands = list[Command[Any]]
CommandOutcome = tuple[Any, BaseException | None]  # its result, or its error
