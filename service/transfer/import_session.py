"""A session from its events: checked whole first, then written in one transaction."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, BinaryIO

from service.agent_cache import build_agent
from service.commands.sessions import find_session, new_id
from service.problems import Problem, ProblemCode
from service.records import SessionRow
from service.transfer.import_check import Check
from service.transfer.import_records import InvalidRecord, bad_import
from service.transfer.ndjson import (
    PAGE,
    decision_of,
    estimate_of,
    measurement_of,
    read_lines,
    trajectory_of,
)
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork

OpenFile = Callable[[], BinaryIO]
MOST_OF_A_LINE = 2**26  # bytes: a million lag weights take half; parsing it stops everybody else


@dataclass(slots=True)
class ImportSession(Command[tuple[SessionRow, bool]]):
    """Command: a new session from a file; `check_import` makes it.

    Attributes
    ----------
    session : as it will be, but for its id
    mark : of the file's bytes; the id ends in it, which makes a named import safe to repeat
    """

    session: SessionRow
    open_file: OpenFile
    mark: str

    def __call__(self, uow: UnitOfWork) -> tuple[SessionRow, bool]:
        """The session, which goes on where the other one was, and whether it is new."""
        session = replace(self.session, id=new_id(uow.now, self.mark))
        if session.name is not None:
            known = uow.session_named(session.tenant, session.name)
            if known is not None and known.id.endswith(self.mark):
                return known, False
            for session_id, _ in uow.created_as(session.tenant, session.name):
                if session_id.endswith(self.mark):  # it bears another name since
                    return find_session(uow, (session.tenant, session_id)), False
            if known is not None:
                detail = f"the name {session.name!r} is taken; give another one"
                raise Problem(ProblemCode.SESSION_CONFLICT, detail, "name")
        known = uow.session(session.key)
        if known is not None:  # asked for twice within a millisecond
            return known, False
        with self.open_file() as file:
            records = (record for _, record in read_lines(file))
            next(records)
            uow.add_session(session)
            for i, record in enumerate(records):
                self._write(uow, session, record)
                if i % PAGE == 0:
                    uow.flush()
        if session.schedule.current is not None:
            uow.effects.due[session.key] = session.schedule.current.key
        if session.wake_at is not None:
            uow.effects.timed[session.key] = session.wake_at
        return session, True

    def _write(self, uow: UnitOfWork, session: SessionRow, record: dict[str, Any]) -> None:
        kind = record["record"]
        if kind == "decision":
            uow.add_decision(decision_of(record, *session.key))
        elif kind == "measurement":
            uow.add_measurement(measurement_of(record, *session.key))
        elif kind == "trajectory":
            uow.save_trajectory(trajectory_of(record, *session.key))
        elif kind == "estimate":
            uow.add_estimate(estimate_of(record, *session.key))
        else:
            agent = build_agent(session, record["state"])
            uow.restore_agent(session.key, agent, session.n_estimates)


def check_import(
    open_file: OpenFile, tenant: str, name: str | None, allow_oracles: bool
) -> ImportSession:
    """Read it all, and believe nothing; the command that writes it.

    Raises
    ------
    Problem
        422 naming line, record and field; mostly bad_import.
    """
    check, digest = Check(allow_oracles), blake2b(digest_size=6)
    try:
        with open_file() as file:
            for line, record in read_lines(_digested(file, digest)):
                check.take(line, record)
            check.finish()
    except Problem:
        raise
    except InvalidRecord as misfit:
        raise bad_import(check.line, check.kind, misfit) from None
    except UNREADABLE as error:
        shown = str(error) if isinstance(error, ValueError) else f"{check.line}: {error!r}"
        raise Problem(ProblemCode.BAD_IMPORT, shown, "body") from None
    session = check.session
    name = name or session.name
    session = replace(session, tenant=tenant, name=name, created_as=name, archived_at=None)
    return ImportSession(session, open_file, digest.hexdigest())


UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError, MemoryError),
)


def _digested(file: BinaryIO, digest: Any) -> Iterator[bytes]:
    while line := file.readline(MOST_OF_A_LINE + 1):
        if len(line) > MOST_OF_A_LINE:
            raise ValueError(f"a line is longer than {MOST_OF_A_LINE} bytes")
        digest.update(line)
        yield line
