"""Connections to a SQLite file, and the errors that are its environment's."""

import operator
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from service.base.problems import ProblemCode, Unavailable, outcome_unknown
from service.storage.sqlite.database_file import check_copy, keep_log, log_bytes

# a commit whose sync fails may stand after the next start: the log was written
_IN_DOUBT = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
# by SQLite's error code; any other error is a defect and is raised as it is
_PROBLEMS = {
    sqlite3.SQLITE_FULL: (ProblemCode.STORAGE_FULL, "the disk is full"),
    sqlite3.SQLITE_READONLY: (ProblemCode.STORAGE_READONLY, "the database cannot be written"),
    sqlite3.SQLITE_IOERR: (ProblemCode.STORAGE_FAILING, "the disk reports an error"),
    sqlite3.SQLITE_BUSY: (ProblemCode.STORAGE_BUSY, "another process has locked the database"),
    sqlite3.SQLITE_LOCKED: (ProblemCode.STORAGE_BUSY, "another process has locked the database"),
    sqlite3.SQLITE_NOTADB: (ProblemCode.STORAGE_FAILING, "the file is not a SQLite database"),
    sqlite3.SQLITE_CORRUPT: (ProblemCode.STORAGE_FAILING, "the database file is damaged"),
    sqlite3.SQLITE_CANTOPEN: (ProblemCode.STORAGE_FAILING, "the database cannot be opened"),
}
# the driver looks for an adapter of every value that is not a plain number or text; finding a
# registered one is cheaper than finding none, which raises and drops an error
sqlite3.register_adapter(type(None), {None: None}.get)
sqlite3.register_adapter(bytes, bytes.__bytes__)
sqlite3.register_adapter(bool, operator.pos)


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode, usable from any thread.

    Unless it only reads, a missing file is created, and commits are synced to a write-ahead log.
    Raises `Unavailable` where the file cannot be opened.
    """
    mode = "ro" if readonly else "rwc"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    try:
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=5.0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
    except sqlite3.OperationalError as error:
        detail, text = "the database cannot be opened", f"{path}: {error}"
        raise Unavailable(ProblemCode.STORAGE_FAILING, detail, text) from error
    if not readonly:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma secure_delete = on")  # what is erased leaves the file, too
        keep_log(connection, is_tight=False)
    connection.execute("pragma cache_size = -16384")
    return connection


class translated:
    """Context manager that turns errors of the environment into `Unavailable`.

    The disk is full, read-only or failing, or the file is locked, damaged or no database. The code
    is ``outcome_unknown`` if a sync failed. With the `path` of the file, a failed write to a
    read-only file is reported as such; SQLite reports it as an I/O error, and a start without room.

    The context manager is a class because one made of a generator costs four times as much, and a
    commit enters several.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def __enter__(self) -> None:
        """Begin to translate errors."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Raise `Unavailable` for an error of the environment."""
        if not isinstance(error, sqlite3.Error):
            return
        extended = getattr(error, "sqlite_errorcode", 0)
        if extended in _IN_DOUBT:
            raise outcome_unknown("the disk reports an error", str(error)) from error
        code = sqlite3.SQLITE_FULL if extended == sqlite3.SQLITE_IOERR_SHMSIZE else extended & 0xFF
        if code not in _PROBLEMS:
            return
        if code == sqlite3.SQLITE_IOERR and self._path and not os.access(self._path, os.W_OK):
            code = sqlite3.SQLITE_READONLY
        problem, reason = _PROBLEMS[code]
        raise Unavailable(problem, f"{reason}; nothing was written", str(error)) from error


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection that reads one moment of a file, while its owner writes."""
    has_log = log_bytes(path) > 0
    with translated(), closing(connect(path, readonly=True)) as connection:
        connection.execute("begin")
        if not has_log:
            check_copy(connection, path)
        yield connection
