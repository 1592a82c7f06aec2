"""The SQLite store: one file, owned by one server process, every commit synced to its log."""

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from service.base.byte_bounded import ByteBounded
from service.base.problems import ProblemCode, Unavailable, outcome_unknown
from service.session.records import SessionKey, SessionRow, TrajectoryKey, TrajectoryRow
from service.storage.reader import Reader
from service.storage.schema import SCHEMA
from service.storage.sqlite.connection import connect
from service.storage.sqlite.database_files import DatabaseFiles
from service.storage.sqlite.disk_space import CHECK_EVERY, is_tight, keep_log
from service.storage.sqlite.errors import translated
from service.storage.sqlite.file_lock import FileLock
from service.storage.sqlite.migrate import revision_of, upgrade
from service.storage.sqlite.reader import SqliteReader
from service.storage.sqlite.transaction import SqliteTransaction
from service.storage.sqlite.write_ahead_log import (
    CUT_BYTES,
    PLAIN,
    LogLength,
    check_copy,
    checkpoint,
    log_bytes,
)

MOST_SESSION_BYTES = 2**26  # of the cached sessions
N_CACHED_TRAJECTORIES = 65_536  # at most about 1 KB each
BUSY_SECONDS = 5.0
IN_DOUBT = "a sync of the disk failed, and the file is not read again yet; nothing was written"


class SqliteStore:
    """A SQLite file that this process owns.

    Sessions and trajectories are cached between batches. The cache is always current, because no
    other process writes.

    Parameters
    ----------
    path : Path
        The database file; created if missing.

    Raises
    ------
    OwnedElsewhere
        Another process owns the file.
    WrongSchema
        The file's schema differs from this program's.
    Unavailable
        The file cannot be opened.
    """

    is_local = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_in_doubt = False  # a sync failed, and the file has not been read again
        self._lock = FileLock(path)
        try:
            with translated():
                if path.stat().st_size == 0:
                    _create(path)
                self._connection = self._open()
        except BaseException:
            self._lock.release()
            raise
        self.sessions: ByteBounded[SessionKey, SessionRow] = ByteBounded(MOST_SESSION_BYTES)
        self.trajectories: OrderedDict[TrajectoryKey, TrajectoryRow] = OrderedDict()
        self._readers: list[sqlite3.Connection] = []
        self._n_begun = 0

    def _open(self) -> sqlite3.Connection:
        """Open the writer's connection, and begin a log. On a full disk it begins later."""
        n_bytes = log_bytes(self.path)
        connection = connect(self.path)
        try:
            if n_bytes == 0:
                check_copy(connection, self.path)
            check_schema(connection)
            connection.execute("pragma busy_timeout = 0")  # `begin` does the waiting
            try:
                checkpoint(connection, cut=True)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_FULL or self._is_in_doubt:
                    raise
        except BaseException:
            connection.close()
            raise
        self._files, self._log_length = DatabaseFiles(self.path), LogLength()
        self._is_tight = False
        return connection

    def begin(self, *, wait: bool = True) -> "SqliteTransaction":
        """Open the writer's transaction.

        Parameters
        ----------
        wait : bool
            Whether to wait up to BUSY_SECONDS for another program that has locked the file.

        Raises
        ------
        Unavailable
            The file is still locked, or removed, or the disk is failing.
        """
        if wait:
            self._settle()
            self._check_files()
        self._check()
        if self._n_begun % CHECK_EVERY == 0:
            self._check_disk_space()
        self._n_begun += 1
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with translated(self.path):
                    self._connection.rollback()  # a transaction that failed before
                    self._connection.execute("begin immediate")
                break
            except Unavailable as error:
                late = not wait or time.monotonic() > deadline
                if error.code != "storage_busy" or late:
                    raise
                time.sleep(0.01)
        return SqliteTransaction(self, self._connection)

    def _check(self) -> None:
        """Raise `Unavailable` while the truth about the last commit is not known or not here."""
        if self._is_in_doubt:
            raise Unavailable(ProblemCode.STORAGE_FAILING, IN_DOUBT)
        self._files.check()

    def _settle(self) -> None:
        """After a failed sync, read the file again; called in the writer's thread.

        The first commits of the new log write over the commit that was not confirmed.
        """
        if not self._is_in_doubt:
            return
        self._connection.close()
        self.sessions.clear()
        self.trajectories.clear()
        try:
            with translated(self.path):
                self._connection = self._open()
        except Unavailable as error:
            raise Unavailable(ProblemCode.STORAGE_FAILING, IN_DOUBT, str(error)) from error
        self._is_in_doubt = False

    def _check_files(self) -> None:
        """Check the files; if one is lost, save in the file what only the log holds."""
        try:
            self._files.check()
        except Unavailable:
            with suppress(sqlite3.Error):
                self._connection.execute("pragma wal_checkpoint(truncate)").fetchall()
            raise

    def doubt(self) -> None:
        """Note that a sync failed; nothing is read or written until the file is read again."""
        self._is_in_doubt = True

    def committed(self) -> None:
        """Check the files after a commit, and shorten a long log.

        Raises
        ------
        Unavailable
            503 outcome_unknown: the commit went to files that are not in their place any more.
        """
        try:
            self._check_files()
        except Unavailable as error:
            raise outcome_unknown(error.detail.partition(";")[0]) from error
        n_bytes = self._files.log_bytes
        if self._is_tight or not self._log_length.is_long(n_bytes):
            return
        try:
            with translated():
                checkpoint(self._connection, cut=n_bytes > CUT_BYTES)
        except Unavailable as error:  # the commit before it stands
            self._is_in_doubt = error.code == ProblemCode.OUTCOME_UNKNOWN

    def _check_disk_space(self) -> None:
        with suppress(OSError), translated():  # an error is left to the transaction
            is_now_tight = is_tight(self.path)
            if is_now_tight != self._is_tight:
                keep_log(self._connection, is_tight=is_now_tight)
                self._is_tight = is_now_tight

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Open a reader on a snapshot of the committed rows; connections are pooled."""
        self._check()
        with translated():
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = connect(self.path, readonly=True)
            try:
                connection.execute("begin")
                yield SqliteReader(connection)
            finally:
                connection.rollback()
                self._readers.append(connection)

    def trim(self) -> None:
        """Remove the least recently used rows from the caches."""
        self.sessions.trim()
        while len(self.trajectories) > N_CACHED_TRAJECTORIES:
            self.trajectories.popitem(last=False)

    def close(self) -> None:
        """Close all connections and release the file."""
        with suppress(sqlite3.Error):  # a mark is left if the last checkpoint failed
            self._connection.execute(f"pragma user_version = {PLAIN}")
        for connection in (*self._readers, self._connection):
            connection.close()
        self._lock.release()


def _create(path: Path) -> None:
    """Create the schema in an empty file, with no log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        upgrade(connection, SCHEMA)


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """Open a reader from a process that does not own the file: a fit, a replay, an export."""
    has_log = log_bytes(path) > 0
    with translated(), closing(connect(path, readonly=True)) as connection:
        connection.execute("begin")
        if not has_log:
            check_copy(connection, path)
        check_schema(connection)
        yield SqliteReader(connection)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise `WrongSchema` unless the schema is the one that this program needs."""
    SCHEMA.check(revision_of(connection))
