"""Connections to a SQLite file, and what its driver's errors mean."""

import operator
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.problems import Unavailable

# the driver asks every value but exact numbers and texts how it is to be adapted: an answer that is
# registered takes 0.15 us, finding out that there is none raises and drops an error, 0.45 us
sqlite3.register_adapter(type(None), {None: None}.get)
sqlite3.register_adapter(bytes, bytes.__bytes__)
sqlite3.register_adapter(bool, operator.pos)

# what the driver says -> problem code; anything else is a defect and stays an error
_TROUBLE = {
    sqlite3.SQLITE_FULL: ("storage_full", "the disk is full"),
    sqlite3.SQLITE_READONLY: ("storage_readonly", "the database cannot be written"),
    sqlite3.SQLITE_IOERR: ("storage_failing", "the disk reports an error"),
    sqlite3.SQLITE_BUSY: ("storage_busy", "another process holds the database"),
    sqlite3.SQLITE_LOCKED: ("storage_busy", "another process holds the database"),
    sqlite3.SQLITE_NOTADB: ("storage_failing", "this file is no database of ours"),
    sqlite3.SQLITE_CORRUPT: ("storage_failing", "the database file is damaged"),
    sqlite3.SQLITE_CANTOPEN: ("storage_failing", "the database cannot be opened"),
}


@contextmanager
def translated(path: Path | None = None) -> Iterator[None]:
    """Turn the driver's errors about the world, not about us, into `Unavailable`.

    With the database's `path`, a write that failed is told apart: SQLite takes a file that has
    become read-only under it for a broken disk.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in _TROUBLE:
            raise
        if code == sqlite3.SQLITE_IOERR and path is not None and not os.access(path, os.W_OK):
            code = sqlite3.SQLITE_READONLY
        name, reason = _TROUBLE[code]
        raise Unavailable(name, f"{reason} ({error}); nothing was written") from error


def connect(path: Path, *, readonly: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode, usable from any thread."""
    mode = "ro" if readonly else "rwc"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(
        uri,
        uri=True,
        timeout=5.0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    if not readonly:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma wal_autocheckpoint = 4000")
        connection.execute("pragma journal_size_limit = 67108864")
    connection.execute("pragma cache_size = -16384")
    return connection
