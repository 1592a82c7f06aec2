"""Checkpoints of the write-ahead log, and what shows that a log is missing.

Commits are in the log until a checkpoint copies them into the database file, so the file alone is
an older state. Before each checkpoint a commit marks the database, and the next one, the first in
the log, takes the mark away. Who reads file and log, as SQLite's own backup does, sees no mark. Who
opens a copy of the file alone does.
"""

import os
import sqlite3
from pathlib import Path

from service.storage.ports import Refused

PLAIN, LOG_FOLLOWS = 0, 1  # values of user_version; the second is the mark
LONG_BYTES = 2**24
GROWTH_BYTES = 2**20
CUT_BYTES = 2**25
COPIED = (
    "{0} was copied without its log {0}-wal, or the log was deleted: what the log held is missing. "
    "Copy while the server is stopped, or with `lhb backup`. To serve what "
    "is here: `sqlite3 {0} 'pragma user_version = 0'`"
)


def log_bytes(path: Path) -> int:
    """Return the size of a database's log; 0 if there is none."""
    try:
        return os.stat(f"{path.resolve()}-wal").st_size
    except FileNotFoundError:
        return 0


def check_copy(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `Refused` if a log belongs to a database that had none when it was opened.

    A file without tables is a copy, too: of a database that an earlier release has just made.
    """
    (mark,) = connection.execute("pragma user_version").fetchone()
    has_tables = connection.execute("select 1 from sqlite_master").fetchone()
    if mark == LOG_FOLLOWS or not has_tables:
        raise Refused(COPIED.format(path))


def checkpoint(connection: sqlite3.Connection, *, cut: bool) -> None:
    """Copy the log into the database file, and mark the file; outside a transaction.

    `cut` says whether to cut the log file, if no reader uses it. Otherwise its bytes are written
    over, which is cheaper. The commit that takes the mark away cuts it: a marked file never has an
    empty log, whenever the process is killed or another one opens the file.
    """
    connection.execute(f"pragma user_version = {LOG_FOLLOWS}")
    connection.execute("pragma wal_checkpoint(passive)").fetchall()
    (limit,) = connection.execute("pragma journal_size_limit").fetchone()
    if cut:
        connection.execute("pragma journal_size_limit = 0")
    connection.execute(f"pragma user_version = {PLAIN}")
    connection.execute(f"pragma journal_size_limit = {limit}")


def keep_log(connection: sqlite3.Connection, *, is_tight: bool) -> None:
    """Set how long the write-ahead log may grow before a checkpoint.

    A log that fills the disk cannot be emptied, because a checkpoint needs space in the database
    file. On a tight disk every commit therefore runs a checkpoint (four syncs instead of one), and
    the log file is truncated. Otherwise the store runs a checkpoint when the log is long, and
    SQLite does if the store could not.
    """
    pages, size = (1, 0) if is_tight else (16_000, 2**26)
    connection.execute(f"pragma wal_autocheckpoint = {pages}")
    connection.execute(f"pragma journal_size_limit = {size}")


class LogLength:
    """Says when a checkpoint is due.

    The file of a log that is written over does not grow, so that its size says only how long the
    log has been at most. Each log may thus be GROWTH_BYTES longer than the one before, until one is
    cut.
    """

    def __init__(self) -> None:
        self._size, self._limit = 0, LONG_BYTES

    def is_long(self, size: int) -> bool:
        """Return whether a checkpoint is due; `size` is the log file's, in bytes."""
        if size < self._size:  # the file was cut
            self._limit = max(LONG_BYTES, size + GROWTH_BYTES)
        self._size = size
        if size <= self._limit:
            return False
        self._limit = size + GROWTH_BYTES
        return True
