"""Access to a database without a server, for `lhb export`, `import` and `replay`.

A database can be read while a server runs on it. Writing needs ownership of the file: if a server
owns it, `NotPossible` says so, and the same command with `--url` goes through that server.
"""

from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from service.base.problems import Problem
from service.base.server_settings import Settings
from service.commands.sessions import change_session, unknown_session
from service.session.records import SessionRow
from service.storage.database_url import open_reader, open_store
from service.storage.ports import Refused
from service.storage.reader import Reader
from service.storage.sqlite.database_file import OwnedElsewhere
from service.transfer.import_file import import_session, prepare_import
from service.writer.agent_cache import Agents
from service.writer.command import Command, Result
from service.writer.group_commit import GroupCommit
from service.writer.large_writes import LargeWrite

TENANT = ""


class NotPossible(Refused):
    """A refused operation; the message says what to do instead."""


def find(reader: Reader, session_id: str) -> SessionRow:
    """Find a session of any tenant by id, or, if there is no such id, by name.

    Raises `NotPossible`: there is no such session, or several tenants have one of this name.
    """
    for tenant in _tenants(reader):
        row = reader.session((tenant, session_id))
        if row is not None:
            return row
    named = [session for session in all_sessions(reader) if session.name == session_id]
    if len(named) > 1:
        ids = " and ".join(session.id for session in named)
        raise NotPossible(
            f"several tenants have a session {session_id!r}; give one of the ids {ids}"
        )
    if not named:
        raise NotPossible(str(unknown_session(session_id)))
    return named[0]


def all_sessions(reader: Reader) -> list[SessionRow]:
    """Return all tenants' sessions, with archived ones."""
    sessions: list[SessionRow] = []
    for tenant in _tenants(reader):
        after = ""
        while page := reader.sessions(tenant, after, 1000, True):
            sessions += page
            after = page[-1].id
    return sessions


def _tenants(reader: Reader) -> list[str]:
    """Return the tenants that may have sessions: "", and those of all keys, revoked or not."""
    return sorted({TENANT, *(key.tenant for key in reader.api_keys())})


def archive(url: str, session_id: str) -> None:
    """Archive a session, so that it takes no decisions and no rewards any more."""
    with open_reader(url) as reader:
        key = find(reader, session_id).key
    run(url, change_session(key, {"archived": True}))


def import_file(settings: Settings, path: Path, name: str | None) -> str:
    """Import an exported file, and return the id of the new session.

    Raises `NotPossible`: the file is not valid, or a server owns the database.
    """
    try:
        with TemporaryDirectory(prefix="lhb-import-") as folder:
            rows = Path(folder, "rows")
            prepared = prepare_import(path, rows, TENANT, name, settings.allow_oracles)
            # what fails is swept when a server starts
            write = import_session(prepared, abandon=lambda key, writer: None)
            session, _ = run_large(settings.database_url, write)
    except Problem as problem:
        raise NotPossible(problem.detail) from None
    return session.id


THROUGH_SERVER = "or give --url, and it goes through the server that owns it"


def run(url: str, command: Command[Result], otherwise: str = THROUGH_SERVER) -> Result:
    """Run one command in a transaction of its own; see `run_large`."""

    def one() -> Generator[Command[Any], Any, Result]:
        result: Result = yield command
        return result

    return run_large(url, one(), otherwise)


def run_large(url: str, write: LargeWrite[Result], otherwise: str = THROUGH_SERVER) -> Result:
    """Run the commands of a large write, each in a transaction of its own.

    Raises `NotPossible`: a command is refused, or a server owns the database; then `otherwise` ends
    the message.
    """
    try:
        store = open_store(url)
    except OwnedElsewhere as owned:
        raise NotPossible(f"{owned}; {otherwise}") from None
    try:
        agents = Agents()
        writer = GroupCommit(store, after_commit=lambda effects: None, on_rollback=agents.forget)
        result: Any = None
        while True:
            [(result, error)], _ = writer.run_in_thread([write.send(result)])
            if isinstance(error, Problem):
                raise NotPossible(error.detail)
            if error is not None:
                raise error
    except StopIteration as done:
        answer: Result = done.value
        return answer
    finally:
        write.close()
        store.close()
