"""A disk that is nearly full: the write-ahead log is kept short, so that it can be emptied.

A full disk itself is an error of SQLite, which `errors` turns into the problem ``storage_full``.
"""

import os
import sqlite3
from pathlib import Path

from service.base.problems import Problem, ProblemCode

TIGHT_BYTES = 2**26  # four times the write-ahead log when it is long
UNDO_BYTES = 2**21  # a slice of a large write in the log and in the file, and a slice of erasing
CHECK_EVERY = 16  # batches between two checks of the free disk space


def is_tight(path: Path) -> bool:
    """Return whether the disk has too little free space for a long write-ahead log."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < TIGHT_BYTES


def refuse_without_undo(path: Path) -> None:
    """Raise a 503 storage_full if hidden rows could fill the disk.

    Erasing rows takes space, too: on a disk that they have filled they would stay for ever. It is
    no `Unavailable`, so other commands of the batch are committed.
    """
    disk = os.statvfs(path)
    if disk.f_bavail * disk.f_frsize < UNDO_BYTES:
        detail = f"the disk is full: less than {UNDO_BYTES >> 20} MB are free; nothing was written"
        raise Problem(ProblemCode.STORAGE_FULL, detail, retry_after=5)


def keep_log(connection: sqlite3.Connection, *, is_tight: bool) -> None:
    """Set how long the write-ahead log may grow before a checkpoint.

    A log that fills the disk cannot be emptied, because a checkpoint needs space in the database
    file. On a tight disk every commit therefore runs a checkpoint (four syncs instead of one), and
    the log file is truncated. Otherwise the store runs a checkpoint when the log is long, and
    SQLite does if the store could not.

    Parameters
    ----------
    connection : sqlite3.Connection
        The writer's connection.
    is_tight : bool
        Whether the disk is nearly full.
    """
    pages, size = (1, 0) if is_tight else (16_000, 2**26)
    connection.execute(f"pragma wal_autocheckpoint = {pages}")
    connection.execute(f"pragma journal_size_limit = {size}")
