"""Import a session: check its file, and write its rows in slices that no reader sees until the end.

The rows are laid out in slices while the file is checked, in a process that has no database.
"""

import json
import pickle
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import to_json

from service.base.problems import Problem, ProblemCode
from service.base.session_ids import new_id
from service.commands.control_agent import with_located_control
from service.commands.limits import NO_LIMITS, Limits
from service.commands.sessions import made_before
from service.fits.when_due import announce
from service.session.records import (
    COMMAND_LINE,
    ROWS,
    Actor,
    KeptSumsRow,
    LiftSumsRow,
    SessionKey,
    SessionRow,
    TrajectoryRow,
)
from service.storage.ports import Changes
from service.transfer.file_format import FORMAT, VERSION
from service.transfer.import_records import InvalidRecord
from service.transfer.import_session import ImportFold, Row
from service.writer.command import command
from service.writer.large_writes import LargeWrite, hide_for, own
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork

MAX_LINE_BYTES = 2**26  # bytes; a million lag weights take half
SLICE_ROWS, SLICE_BYTES = 256, 2**19  # of lines; a larger one is a slice of its own


@dataclass(slots=True)
class PreparedImport:
    """A checked file whose rows are laid out.

    `mark` is the digest of the file: the id of a named session ends in it, so that repeating the
    import finds the session instead of creating another.
    `rows` is a file of slices, one pickled list of rows after the other, which `read_slice` reads;
    `sums` and `lift` are those of a session that drops rows.
    """

    session: SessionRow
    mark: str
    state: str | None
    rows: Path
    sums: KeptSumsRow | None = None
    lift: LiftSumsRow | None = None


def prepare_import(
    path: Path, rows: Path, tenant: str, name: str | None, allow_oracles: bool
) -> PreparedImport:
    """Check the file at `path` for a tenant, who may give its session a new name.

    Its rows are written in slices to the file `rows`. This takes 0.05 s of CPU for each megabyte,
    and runs in a process of its own where a server is. Raises what `fold_file` raises.
    """
    with path.open("rb") as file, rows.open("wb") as out:
        fold, mark = fold_file(file, out, allow_oracles)
    name = name or fold.session.name
    own: dict[str, Any] = {"tenant": tenant, "name": name, "created_as": name}
    session = replace(fold.session, archived_at=None, **own)
    state = to_json(fold.agent.state()).decode() if fold.has_state else None
    return PreparedImport(session, mark, state, rows, fold.sums, fold.lift)


def fold_file(file: BinaryIO, out: BinaryIO, allow_oracles: bool) -> tuple[ImportFold, str]:
    """Check a whole file, and write its rows in slices.

    Returns the session that its records describe, and the file's digest. Raises 422, mostly
    ``bad_import``, naming line, record and field.
    """
    fold, mark = ImportFold(allow_oracles), blake2b(digest_size=6)
    slice: list[Row] = []
    size = 0
    for row, n_bytes in _rows(fold, file, mark):
        if slice and (len(slice) == SLICE_ROWS or size + n_bytes > SLICE_BYTES):
            pickle.dump(slice, out, pickle.HIGHEST_PROTOCOL)
            slice, size = [], 0
        slice.append(row)
        size += n_bytes
    if slice:
        pickle.dump(slice, out, pickle.HIGHEST_PROTOCOL)
    return fold, mark.hexdigest()


def read_slice(path: Path, offset: int) -> tuple[list[Row], int]:
    """Read the rows at an offset of a file of slices, and return them with the next offset.

    There are no rows at the end of the file. Their owner is not filled in.
    """
    with path.open("rb") as file:
        file.seek(offset)
        try:
            return pickle.load(file), file.tell()  # this server has written it
        except EOFError:
            return [], offset


def _records(fold: ImportFold, file: BinaryIO, mark: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the record of each line before the end, and the line's bytes; the mark digests all.

    Raises ValueError where the file is of another format or version, truncated or changed.
    """
    digest, end = blake2b(digest_size=16), None
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        mark.update(line)
        fold.line += 1
        if end is not None:
            raise ValueError("there is a line after the end record")
        try:
            record = json.loads(str(line, "utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not JSON, or too deep: {error}") from None
        if not isinstance(record, dict) or "record" not in record:
            raise ValueError("not a record")
        if fold.line == 1 and (record["record"], record.get("format")) != ("header", FORMAT):
            raise ValueError(f"not a header of format {FORMAT}")
        if fold.line == 1 and record.get("version") != VERSION:
            raise ValueError(f"version {record.get('version')!r} cannot be read by this release")
        if record["record"] == "end":
            end = record
            if (end.get("count"), end.get("digest")) != (fold.line - 1, digest.hexdigest()):
                raise ValueError("count or digest do not fit what came before")
        else:
            digest.update(line)
            yield record, len(line)
    if end is None:
        raise ValueError("the end record is missing: the file is truncated")


def _rows(fold: ImportFold, file: BinaryIO, mark: Any) -> Iterator[tuple[Row, int]]:
    """Yield the rows of a file's records, with the bytes of their lines, and fold the records."""
    try:
        for record, n_bytes in _records(fold, file, mark):
            row = fold.apply(record)
            if row is not None:
                yield row, n_bytes
        for last in fold.finish():
            yield last, 0
    except (Problem, InvalidRecord) as error:
        code, field = ProblemCode.BAD_IMPORT, f"{fold.kind}.{error.field}"
        if fold.kind == "header" and isinstance(error, Problem):
            code = error.code  # that of a new session with such settings
        raise Problem(code, f"line {fold.line}: {field}: {error}", field) from None
    except UNREADABLE as error:
        detail = str(error) if isinstance(error, ValueError) else repr(error)
        raise Problem(ProblemCode.BAD_IMPORT, f"line {fold.line}: {detail}", "body") from None


UNREADABLE = (
    *(ValueError, LookupError, TypeError, AttributeError),
    *(OverflowError, RecursionError, MemoryError),
)


@command
def begin_import(
    uow: UnitOfWork, prepared: PreparedImport, writer: str, limits: Limits = NO_LIMITS
) -> tuple[SessionRow, bool]:
    """Give the session its id, and hide the rows to come.

    The mark is the end of a named session's id; `writer` is the token of this import. Returns the
    session with its id and True, or the one that this import made before.

    Raises 409 session_conflict: another session has the name.
    """
    session, mark, now = prepared.session, prepared.mark, uow.now
    earlier = imported_before(uow, session, mark)
    if earlier is not None:
        return earlier, False
    limits.refuse_session(uow, session)
    with_located_control(uow, session)
    while True:  # the same file under another name may come within the id's millisecond
        session = replace(session, id=new_id(now, None if session.name is None else mark))
        if uow.session(session.key) is None and uow.locking.hidden_rows(session.key) is None:
            break
        now += 0.001
    hide_for(uow, session.key, writer)
    return session, True


def imported_before(uow: UnitOfWork, session: SessionRow, mark: str) -> SessionRow | None:
    """Find the session that the same file made under the same name.

    Raises 409 session_conflict: there is none, and another session has the name.
    """
    if session.name is None:
        return None
    conflict = f"the name {session.name!r} is taken; give another one"
    tenant, name = session.tenant, session.name
    return made_before(uow, tenant, name, lambda id, _: id.endswith(mark), conflict)


@command
def write_slice(
    uow: UnitOfWork, key: SessionKey, writer: str, path: Path, offset: int
) -> int | None:
    """Write the slice of hidden rows at an offset of the file of slices.

    Returns the next offset; None at the end.
    """
    own(uow, key, writer)
    rows, following = read_slice(path, offset)
    if not rows:
        return None
    uow.write_rows(changes_of(rows, key))
    return following


def changes_of(rows: Iterable[Row | KeptSumsRow | LiftSumsRow], key: SessionKey) -> Changes:
    """Return the rows of a slice as the session's own."""
    changes, (tenant, id) = Changes(), key
    tables = {kind: table for table, kind in ROWS.items()}
    for row in rows:
        if isinstance(row, TrajectoryRow):
            changes.trajectories[*key, row.key] = replace(row, tenant=tenant, session_id=id)
        else:
            own = row._replace(tenant=tenant, session_id=id)
            getattr(changes, tables[type(row)]).append(own)
    return changes


@command
def finish_import(
    uow: UnitOfWork, prepared: PreparedImport, made: SessionRow, writer: str, by: Actor
) -> tuple[SessionRow, bool]:
    """Create the session, which has its id, and so show its rows.

    Returns the session and whether it is new; the name may have been given since.

    Raises 409 session_conflict: another session has the name.
    """
    session = with_located_control(uow, replace(made))
    own(uow, session.key, writer)
    earlier = imported_before(uow, session, prepared.mark)
    if earlier is not None:
        return earlier, False
    uow.add_session(session)
    about = {"name": session.name, "algorithm": session.algorithm, "options": session.options}
    note(uow, session.tenant, by, "session_imported", session.id, **about)
    uow.write_rows(changes_of([one for one in (prepared.sums, prepared.lift) if one], session.key))
    if prepared.state is not None:
        uow.pending.states[session.key] = prepared.state
    uow.pending.swept.append(session.key)
    announce(uow, session)
    if session.wake_at is not None:
        uow.effects.timed[session.key] = session.wake_at
    return session, True


def import_session(
    prepared: PreparedImport,
    abandon: Callable[[SessionKey, str], None],
    by: Actor = COMMAND_LINE,
    limits: Limits = NO_LIMITS,
) -> LargeWrite[tuple[SessionRow, bool]]:
    """Yield the commands of an import; return the session and whether it is new.

    `abandon` is called with the session's key and this import's token if rows were written that
    nobody will show.
    """
    writer = secrets.token_hex(8)
    session, is_new = yield begin_import(prepared, writer, limits)
    if not is_new:
        return session, False
    is_shown = False
    try:
        offset: int | None = 0
        while offset is not None:
            offset = yield write_slice(session.key, writer, prepared.rows, offset)
        imported, is_shown = yield finish_import(prepared, session, writer, by)
        return imported, is_shown
    finally:
        if not is_shown:
            abandon(session.key, writer)
