"""Read a session's file, and lay out its rows in slices for the database."""

import pickle
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import to_json

from service.base.problems import Problem, ProblemCode
from service.session.records import KeptSumsRow, LiftSumsRow, SessionRow
from service.storage.reader import n_bytes
from service.transfer.file_format import read_lines
from service.transfer.import_fold import ImportFold, Row
from service.transfer.import_records import InvalidRecord

MAX_LINE_BYTES = 2**26  # bytes; a million lag weights take half
SLICE_ROWS, SLICE_BYTES = 256, 2**18  # about; a larger row is a slice of its own


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

    Its rows are written in slices to the file `rows`. This takes 0.06 s of CPU for each megabyte,
    and runs in a process of its own where a server is. Raises what `fold_file` raises.
    """
    with path.open("rb") as file, rows.open("wb") as out:
        fold, mark = fold_file(file, out, allow_oracles)
    name = name or fold.session.name
    own: dict[str, Any] = {"tenant": tenant, "name": name, "created_as": name}
    state = to_json(fold.agent.state()).decode() if fold.has_state else None
    return PreparedImport(
        replace(fold.session, archived_at=None, **own), mark, state, rows, fold.sums, fold.lift
    )


def fold_file(file: BinaryIO, out: BinaryIO, allow_oracles: bool) -> tuple[ImportFold, str]:
    """Check a whole file, and write its rows in slices.

    Returns the session that its records describe, and the file's digest. Raises 422, mostly
    ``bad_import``, naming line, record and field.
    """
    fold, digest = ImportFold(allow_oracles), blake2b(digest_size=6)
    for slice in _slices(_rows(fold, _digested(file, digest))):
        pickle.dump(slice, out, pickle.HIGHEST_PROTOCOL)
    return fold, digest.hexdigest()


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


def _slices(rows: Iterator[Row]) -> Iterator[list[Row]]:
    slice: list[Row] = []
    size = 0
    for row in rows:
        more = n_bytes(tuple(row) if isinstance(row, tuple) else astuple(row))
        if slice and (len(slice) == SLICE_ROWS or size + more > SLICE_BYTES):
            yield slice
            slice, size = [], 0
        slice.append(row)
        size += more
    if slice:
        yield slice


def _rows(fold: ImportFold, lines: Iterator[bytes]) -> Iterator[Row]:
    """Yield the rows of a file's records; `fold` is then the session that the records describe."""
    try:
        for line, record in read_lines(lines):
            row = fold.apply(line, record)
            if row is not None:
                yield row
        yield from fold.finish()
    except (Problem, InvalidRecord) as error:
        code, field = ProblemCode.BAD_IMPORT, f"{fold.kind}.{error.field}"
        if fold.kind == "header" and isinstance(error, Problem):
            code = error.code  # that of a new session with such settings
        raise Problem(code, f"line {fold.line}: {field}: {error}", field) from None
    except UNREADABLE as error:
        detail = str(error) if isinstance(error, ValueError) else repr(error)
        detail = detail if detail.startswith("line ") else f"line {fold.line}: {detail}"
        raise Problem(ProblemCode.BAD_IMPORT, detail, "body") from None


UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError, MemoryError),
)


def _digested(file: BinaryIO, digest: Any) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        digest.update(line)
        yield line
