"""Connections to a SQLite file, and what its driver's errors mean."""

import operator
import os
import sqlite3
from pathlib import Path

from service.problems import ProblemCode, Unavailable

# the driver asks every value but exact numbers and texts how it is to be adapted: an answer that is
# registered takes 0.15 us, finding out that there is none raises and drops an error, 0.45 us
sqlite3.register_adapter(type(None), {None: None}.get)
sqlite3.register_adapter(bytes, bytes.__bytes__)
sqlite3.register_adapter(bool, operator.pos)

TIGHT_BYTES = 2**26  # four times a log of 4000 pages

# what the driver says; anything else is a defect and stays an error
_TROUBLE = {
    sqlite3.SQLITE_FULL: (ProblemCode.STORAGE_FULL, "the disk is full"),
    sqlite3.SQLITE_READONLY: (ProblemCode.STORAGE_READONLY, "the database cannot be written"),
    sqlite3.SQLITE_IOERR: (ProblemCode.STORAGE_FAILING, "the disk reports an error"),
    sqlite3.SQLITE_BUSY: (ProblemCode.STORAGE_BUSY, "another process holds the database"),
    sqlite3.SQLITE_LOCKED: (ProblemCode.STORAGE_BUSY, "another process holds the database"),
    sqlite3.SQLITE_NOTADB: (ProblemCode.STORAGE_FAILING, "this file is no database of ours"),
    sqlite3.SQLITE_CORRUPT: (ProblemCode.STORAGE_FAILING, "the database file is damaged"),
    sqlite3.SQLITE_CANTOPEN: (ProblemCode.STORAGE_FAILING, "the database cannot be opened"),
}


class translated:
    """Turn the driver's errors about the world, not about us, into `Unavailable`.

    With the database's `path`, a write that failed is told apart: SQLite takes a file that has
    become read-only under it for a broken disk.
    """

    __slots__ = ("_path",)

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def __enter__(self) -> None:
        """A generator would do, at four times the cost, several times a commit."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if not isinstance(error, sqlite3.Error):
            return
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _TROUBLE:
            return
        if code == sqlite3.SQLITE_IOERR and self._path and not os.access(self._path, os.W_OK):
            code = sqlite3.SQLITE_READONLY
        problem, reason = _TROUBLE[code]
        raise Unavailable(problem, f"{reason} ({error}); nothing was written") from error


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode, usable from any thread."""
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
        detail = f"the database {path} cannot be opened ({error})"
        raise Unavailable(ProblemCode.STORAGE_FAILING, detail) from error
    if not readonly:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        keep_log(connection, is_tight=False)
    connection.execute("pragma cache_size = -16384")
    return connection


def is_tight(path: Path) -> bool:
    """Whether the disk has so little room left that the log must not take it."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < TIGHT_BYTES


def keep_log(connection: sqlite3.Connection, *, is_tight: bool) -> None:
    """How long the log may grow before its pages go into the database file.

    Commits go to the log first. One that has taken the last of the disk is there for good: the
    database cannot grow by the pages that would empty it. So on a tight disk every commit moves
    its pages at once (four waits for the disk, not one), and the log keeps no room it does not use.
    """
    pages, size = (1, 0) if is_tight else (4000, 2**26)
    connection.execute(f"pragma wal_autocheckpoint = {pages}")
    connection.execute(f"pragma journal_size_limit = {size}")
