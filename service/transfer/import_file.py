"""Read a session's file: check it whole, then lay out its rows in slices for the database."""

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from pydantic_core import to_json

from service.base.problems import Problem, ProblemCode
from service.session.covariates import covariates_text
from service.session.estimate_in_use import EstimateInUse
from service.session.kept_contexts import pack
from service.session.records import (
    DecisionRow,
    EstimateRow,
    KeptSumsRow,
    MeasurementRow,
    SessionRow,
    TrajectoryRow,
    VoidRow,
)
from service.storage.reader import n_bytes
from service.transfer.file_format import read_lines
from service.transfer.import_check import ImportCheck, ImportedSession
from service.transfer.import_records import InvalidRecord

OpenFile = Callable[[], BinaryIO]
Row = DecisionRow | MeasurementRow | EstimateRow | TrajectoryRow | VoidRow
MAX_LINE_BYTES = 2**26  # bytes; a million lag weights take half
SLICE_ROWS, SLICE_BYTES = 256, 2**18  # about; a larger row is a slice of its own


@dataclass(slots=True)
class CheckedFile:
    """A file that describes a session which the service could have written.

    The session has no id yet. `mark` is the digest of the file: the id of a named session ends in
    it, so that repeating the import finds the session instead of creating another.
    """

    session: SessionRow
    imported: ImportedSession
    mark: str


@dataclass(slots=True)
class PreparedImport:
    """A checked file whose rows are laid out.

    `rows` is a file of slices, one pickled list of rows after the other, which `read_slice` reads;
    `sums` are those of a session that drops rows.
    """

    session: SessionRow
    mark: str
    state: str | None
    rows: Path
    sums: KeptSumsRow | None = None


def prepare_import(
    path: Path, rows: Path, tenant: str, name: str | None, allow_oracles: bool
) -> PreparedImport:
    """Check the file at `path`, and write its rows in slices to the file `rows`.

    The parameters and exceptions are those of `check_import`. This takes 0.1 s of CPU for each
    megabyte, and runs in a process of its own where a server is.
    """
    found = check_import(lambda: path.open("rb"), tenant, name, allow_oracles)
    agent = found.imported.agent
    with path.open("rb") as file, rows.open("wb") as out:
        for slice in _slices(_rows(file, found.imported)):
            pickle.dump(slice, out, pickle.HIGHEST_PROTOCOL)
    state = None if agent is None else to_json(agent.state()).decode()
    sums = found.imported.dropped.sums
    return PreparedImport(found.session, found.mark, state, rows, sums)


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


def check_import(
    open_file: OpenFile, tenant: str, name: str | None, allow_oracles: bool
) -> CheckedFile:
    """Check the whole file for a tenant, who may give its session a new name.

    Raises 422, mostly ``bad_import``, naming line, record and field.
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
    return CheckedFile(session, imported, digest.hexdigest())


UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError, MemoryError),
)


def _rows(file: BinaryIO, imported: ImportedSession) -> Iterator[Row]:
    """Yield the rows of the file, with numbers and versions derived from earlier rows."""
    yield from imported.trajectories
    session = imported.session
    owner = ("", "")
    n_measurements: Counter[str] = Counter()
    n_estimates, in_use = 0, EstimateInUse()
    for _, record in read_lines(file):
        kind = record.pop("record")
        if record.get("covariates") is not None:
            record["covariates"] = covariates_text(session, record["covariates"])
        if kind == "decision":
            ahead = imported.windows.ahead(record["position"], record["at"])
            record["number"] = record["round"]
            record["epoch"] = ahead.epoch if ahead is not None else 1
            record["next_fit_round"] = None if ahead is None else ahead.due
            digest = record["digest"]
            record["digest"] = None if digest is None else bytes.fromhex(digest)
            for name in ("context", "scores"):
                record[name] = np.array(record[name], dtype=np.float64).tobytes()
            if record["contexts"] is not None:
                record["contexts"] = pack(np.array(record["contexts"], dtype=np.float64))
            yield DecisionRow(*owner, **record)
        elif kind == "measurement":
            n_measurements[record["trajectory"]] += 1
            n = n_measurements[record["trajectory"]]
            record["number"] = n + imported.dropped.n_measured_before(record["trajectory"])
            yield MeasurementRow(*owner, **record)
        elif kind == "void":
            yield VoidRow(*owner, **record)
        elif kind == "estimate":
            window, n_estimates = record["manifest"]["window"], n_estimates + 1
            record |= {"number": n_estimates, "parent": in_use.number}
            record |= {"epoch": window["epoch"], "due": window["due"]}
            if record["estimate"] is not None:
                found = record["status"] == "ok"
                in_use = in_use.after(n_estimates, record["manifest"], has_direction=found)
            record["model_version"] = in_use.model_version
            for name in ("manifest", "fingerprint", "estimate"):
                record[name] = None if record[name] is None else json.dumps(record[name])
            yield EstimateRow(*owner, **record)


def _digested(file: BinaryIO, digest: Any) -> Iterator[bytes]:
    while line := file.readline(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        digest.update(line)
        yield line
