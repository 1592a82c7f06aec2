"""The files of a SQLite database: who owns them, whether they are there, free space, and the log.

Commits are in the log until a checkpoint copies them into the database file, so the file alone is
an older state. Before each checkpoint a commit marks the database, and the next one, the first in
the log, takes the mark away. Who reads file and log, as SQLite's own backup does, sees no mark. Who
opens a copy of the file alone does.
"""

import fcntl
import os
import sqlite3
import time
from pathlib import Path

from service.base.problems import Problem, ProblemCode, Unavailable
from service.storage.ports import Refused

LOOK_SECONDS = 0.02  # at most so often; a look costs a tenth of a decision
TIGHT_BYTES = 2**26  # four times the write-ahead log when it is long
UNDO_BYTES = 2**21  # a slice of a large write in the log and in the file, and a slice of erasing
CHECK_EVERY = 16  # batches between two checks of the free disk space


class OwnedElsewhere(Refused):
    """Another process owns this database file."""


class FileLock:
    """Exclusive lock on a file, held until `release` or the end of the process.

    The lock is on the inode, so links to the file are locked too. The side file ``<path>.lock``
    holds the owner's process id and is locked first: a second attempt in the owning process then
    fails before it opens the database file, and closing any descriptor of that file would drop the
    locks that SQLite holds on it. A missing file is created empty, with access for its owner alone.

    Raises `OwnedElsewhere` where another process owns the file, `Refused` where it cannot be
    opened.
    """

    def __init__(self, path: Path) -> None:
        self._descriptors: list[int] = []
        side = Path(f"{path.resolve()}.lock")
        try:
            self._own(side, os.O_RDWR)
            self._own(path, os.O_RDONLY)
        except BlockingIOError:
            is_named = len(self._descriptors) == 1  # else the owner uses another link
            owner = os.pread(self._descriptors[0], 32, 0).decode(errors="replace").strip()
            self.release()
            raise OwnedElsewhere(
                f"{path} is served by another process (pid {(is_named and owner) or 'unknown'}); "
                "stop it first, or use another LHB_DATABASE_URL"
            ) from None
        except OSError as error:
            self.release()
            where = error.filename or path
            raise Refused(f"{path} cannot be locked: {error.strerror}: {where}") from None
        os.ftruncate(self._descriptors[0], 0)
        os.pwrite(self._descriptors[0], str(os.getpid()).encode(), 0)

    def _own(self, path: Path, access: int) -> None:
        self._descriptors.append(os.open(path, access | os.O_CREAT | os.O_CLOEXEC, 0o600))
        fcntl.flock(self._descriptors[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """Release the lock."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()


class DatabaseFiles:
    """An open database file, its log, and the log's index, as they are now.

    `log_bytes` is the size of the log file at the last look.
    """

    def __init__(self, path: Path) -> None:
        file = path.resolve()
        self._paths = [path, Path(f"{file}-wal"), Path(f"{file}-shm")]
        self._opened = [_identity(path) for path in self._paths]
        self._next_look = 0.0
        self._is_lost = False
        self.log_bytes = 0

    def check(self) -> None:
        """Look at the files, if the last look was not just before.

        A 503 storage_failing is raised if one of them was removed or replaced.
        """
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_SECONDS
            self._is_lost = [_identity(path) for path in self._paths] != self._opened
            if not self._is_lost:
                self.log_bytes = os.stat(self._paths[1]).st_size
        if self._is_lost:
            detail = "the database file, or its log, was removed or replaced under the server"
            raise Unavailable(ProblemCode.STORAGE_FAILING, f"{detail}; nothing was written")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_tight(path: Path) -> bool:
    """Return whether the disk has too little free space for a long write-ahead log."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize < TIGHT_BYTES


def refuse_without_undo(path: Path) -> None:
    """Raise a 503 storage_full if hidden rows could fill the disk.

    Erasing rows takes space, too: on a disk that hidden rows have filled they would stay for ever.
    The error is no `Unavailable`, so other commands of the batch are committed.
    """
    disk = os.statvfs(path)
    if disk.f_bavail * disk.f_frsize < UNDO_BYTES:
        detail = f"the disk is full: less than {UNDO_BYTES >> 20} MB are free; nothing was written"
        raise Problem(ProblemCode.STORAGE_FULL, detail, retry_after=5)


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
