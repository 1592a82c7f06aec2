"""Import a session: check the whole file first, then write it in one transaction."""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, BinaryIO

import numpy as np

from service.commands.sessions import find_session, new_id
from service.problems import Problem, ProblemCode
from service.records import DecisionRow, EstimateRow, MeasurementRow, SessionKey, SessionRow
from service.transfer.import_check import ImportCheck, ImportedSession
from service.transfer.import_records import InvalidRecord
from service.transfer.ndjson import PAGE, read_lines
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork

OpenFile = Callable[[], BinaryIO]
MOST_OF_A_LINE = 2**26  # bytes; a million lag weights take half. Parsing a line holds the GIL


@dataclass(slots=True)
class ImportSession(Command[tuple[SessionRow, bool]]):
    """Command that creates a session from a file; `check_import` returns it.

    Attributes
    ----------
    session : SessionRow
        The session to create; it gets its id when the command runs.
    imported : ImportedSession
        The trajectories, windows and agent that the records describe.
    open_file : callable
        Opens the checked file once more.
    mark : str
        Digest of the file. The session's id ends in it, so that repeating an import by name finds
        the session instead of creating another.
    """

    session: SessionRow
    imported: ImportedSession
    open_file: OpenFile
    mark: str

    def __call__(self, uow: UnitOfWork) -> tuple[SessionRow, bool]:
        """Write the session; return it and whether it is new.

        Raises
        ------
        Problem
            Another session has the name.
        """
        session = replace(self.session, id=new_id(uow.now, self.mark))
        if session.name is not None:
            known = uow.session_named(session.tenant, session.name)
            if known is not None and known.id.endswith(self.mark):
                return known, False
            for session_id, _ in uow.stored.created_as(session.tenant, session.name):
                if session_id.endswith(self.mark):  # it has been renamed since
                    return find_session(uow, (session.tenant, session_id)), False
            if known is not None:
                detail = f"the name {session.name!r} is taken; give another one"
                raise Problem(ProblemCode.SESSION_CONFLICT, detail, "name")
        known = uow.session(session.key)
        if known is not None:  # the same import twice within a millisecond
            return known, False
        uow.add_session(session)
        for trajectory in self.imported.trajectories:
            uow.save_trajectory(replace(trajectory, tenant=session.tenant, session_id=session.id))
        with self.open_file() as file:
            for i, row in enumerate(self._rows(file, session.key)):
                if isinstance(row, DecisionRow):
                    uow.add_decision(row)
                elif isinstance(row, MeasurementRow):
                    uow.add_measurement(row)
                else:
                    uow.add_estimate(row)
                if i % PAGE == 0:
                    uow.flush()
        if self.imported.agent is not None:
            uow.restore_agent(session.key, self.imported.agent, session.n_estimates)
        if session.schedule.current is not None:
            uow.effects.due[session.key] = session.schedule.current.key
        if session.wake_at is not None:
            uow.effects.timed[session.key] = session.wake_at
        return session, True

    def _rows(
        self, file: BinaryIO, owner: SessionKey
    ) -> Iterator[DecisionRow | MeasurementRow | EstimateRow]:
        """Yield the rows of the file, with numbers and versions derived from earlier rows."""
        windows = self.imported.windows
        dues = [window.due for window in windows]
        n_measurements: Counter[str] = Counter()
        n_estimates = installed = model_version = 0
        for _, record in read_lines(file):
            kind = record.pop("record")
            if kind == "decision":
                i = bisect_left(dues, record["position"])
                ahead = windows[i] if i < len(windows) else None
                record["number"] = record["round"]
                record["epoch"] = windows[i].epoch if ahead is not None else 1
                record["next_fit_round"] = None if ahead is None else ahead.due
                digest = record["digest"]
                record["digest"] = None if digest is None else bytes.fromhex(digest)
                for name in ("context", "scores"):
                    record[name] = np.array(record[name], dtype=np.float64).tobytes()
                yield DecisionRow(*owner, **record)
            elif kind == "measurement":
                n_measurements[record["trajectory"]] += 1
                record["number"] = n_measurements[record["trajectory"]]
                yield MeasurementRow(*owner, **record)
            elif kind == "estimate":
                window, n_estimates = record["manifest"]["window"], n_estimates + 1
                record |= {"number": n_estimates, "parent": installed}
                record |= {"epoch": window["epoch"], "due": window["due"]}
                if record["status"] == "ok":
                    installed, model_version = n_estimates, model_version + 1
                record["model_version"] = model_version
                for name in ("manifest", "fingerprint", "estimate"):
                    record[name] = None if record[name] is None else json.dumps(record[name])
                yield EstimateRow(*owner, **record)


def check_import(
    open_file: OpenFile, tenant: str, name: str | None, allow_oracles: bool
) -> ImportSession:
    """Check the whole file, and return the command that writes it.

    Parameters
    ----------
    open_file : callable
        Opens the file; called again when the command runs.
    tenant : str
        The tenant that will own the session.
    name : str or None
        The session's new name; None keeps the name in the file.
    allow_oracles : bool
        Whether to accept algorithms that are told the true parameters.

    Raises
    ------
    Problem
        The file is invalid: status 422, mostly ``bad_import``. It names line, record and field.
    """
    check, digest = ImportCheck(allow_oracles), blake2b(digest_size=6)
    try:
        with open_file() as file:
            for line, record in read_lines(_digested(file, digest)):
                check.take(line, record)
            imported = check.finish()
    except Problem:
        raise
    except InvalidRecord as error:
        field = f"{check.kind}.{error.field}"
        detail = f"line {check.line}: {field}: {error.what}"
        raise Problem(ProblemCode.BAD_IMPORT, detail, field) from None
    except UNREADABLE as error:
        shown = str(error) if isinstance(error, ValueError) else f"{check.line}: {error!r}"
        raise Problem(ProblemCode.BAD_IMPORT, shown, "body") from None
    name = name or imported.session.name
    session = replace(imported.session, tenant=tenant, name=name, created_as=name, archived_at=None)
    return ImportSession(session, imported, open_file, digest.hexdigest())


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
