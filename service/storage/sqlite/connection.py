"""Connections to a SQLite file, and the translation of its driver's errors."""

import operator
import os
import sqlite3
from pathlib import Path

from service.problems import ProblemCode, Unavailable

# the driver looks for an adapter of every value that is not a plain number or text; finding a
# registered one is cheaper than finding none, which raises and drops an error
sqlite3.register_adapter(type(None), {None: None}.get)
sqlite3.register_adapter(bytes, bytes.__bytes__)
sqlite3.register_adapter(bool, operator.pos)

TIGHT_BYTES = 2**26  # four times the write-ahead log at its usual limit of 4000 pages

# errors of the environment; any other error is a defect and is raised as it is
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
    """Context manager that turns errors of the environment into `Unavailable`.

    It is a class because a generator-based context manager costs four times as much, and a commit
    enters several.

    Parameters
    ----------
    path : Path, optional
        The database file. With it, a failed write to a read-only file is reported as such; SQLite
        reports it as an I/O error.

    Raises
    ------
    Unavailable
        The disk is full, read-only or failing, or the file is locked, damaged or no database.
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
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _TROUBLE:
            return
        if code == sqlite3.SQLITE_IOERR and self._path and not os.access(self._path, os.W_OK):
            code = sqlite3.SQLITE_READONLY
        problem, reason = _TROUBLE[code]
        raise Unavailable(problem, f"{reason} ({error}); nothing was written") from error


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """Open a connection in autocommit mode, usable from any thread.

    Parameters
    ----------
    path : Path
        The database file.
    readonly : bool
        Whether the connection only reads. Otherwise a missing file is created, and commits are
        synced to a write-ahead log.

    Raises
    ------
    Unavailable
        The file cannot be opened.
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
        detail = f"the database {path} cannot be opened ({error})"
        raise Unavailable(ProblemCode.STORAGE_FAILING, detail) from error
    if not readonly:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        keep_log(connection, is_tight=False)
    connection.execute("pragma cache_size = -16384")
    return connection


def is_tight(path: Path) -> bool:
    """Return whether the disk has too little free space for a long write-ahead log."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < TIGHT_BYTES


def keep_log(connection: sqlite3.Connection, *, is_tight: bool) -> None:
    """Set how long the write-ahead log may grow before a checkpoint.

    A log that fills the disk cannot be emptied, because a checkpoint needs space in the database
    file. On a tight disk every commit therefore runs a checkpoint (four syncs instead of one), and
    the log file is truncated.

    Parameters
    ----------
    connection : sqlite3.Connection
        The writer's connection.
    is_tight : bool
        Whether the disk is nearly full.
    """
    pages, size = (1, 0) if is_tight else (4000, 2**26)
    connection.execute(f"pragma wal_autocheckpoint = {pages}")
    connection.execute(f"pragma journal_size_limit = {size}")
