"""The SQLite store: one file, owned by one server process, every commit synced to its log."""

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from service.problems import Unavailable
from service.records import SessionKey, SessionRow, TrajectoryKey, TrajectoryRow
from service.storage.reader import Reader
from service.storage.schema import check_revision, whole_schema
from service.storage.sqlite.connection import connect, is_tight, keep_log, translated
from service.storage.sqlite.file_lock import FileLock
from service.storage.sqlite.reader import SqliteReader
from service.storage.sqlite.transaction import SqliteTransaction

N_CACHED_SESSIONS = 4096
N_CACHED_TRAJECTORIES = 65_536
BUSY_SECONDS = 5.0
BATCHES_A_LOOK = 16  # batches between two checks of the free disk space


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
        self._lock = FileLock(path)
        try:
            with translated():
                self._connection = connect(path)
                self._open_schema()
                self._connection.execute("pragma busy_timeout = 0")  # `begin` does the waiting
        except BaseException:
            self._lock.release()
            raise
        self.sessions: OrderedDict[SessionKey, SessionRow] = OrderedDict()
        self.trajectories: OrderedDict[TrajectoryKey, TrajectoryRow] = OrderedDict()
        self._readers: list[sqlite3.Connection] = []
        self._is_tight, self._n_begun = False, 0

    def _open_schema(self) -> None:
        """Create the schema in a new file, or check that of an existing one."""
        execute = self._connection.execute
        tables = {name for (name,) in execute("select name from sqlite_master")}
        if not tables:
            self._connection.executescript(f"begin; {whole_schema('sqlite')} commit;")
            return
        check_schema(self._connection)

    def begin(self, *, wait: bool = True) -> "SqliteTransaction":
        """Open the writer's transaction.

        Parameters
        ----------
        wait : bool
            Whether to wait up to BUSY_SECONDS for another program that has locked the file.

        Raises
        ------
        Unavailable
            The file is still locked, or the disk is failing.
        """
        if self._n_begun % BATCHES_A_LOOK == 0:
            self._look_at_the_disk()
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

    def _look_at_the_disk(self) -> None:
        with suppress(OSError), translated():  # an error is left to the transaction
            found = is_tight(self.path)
            if found != self._is_tight:
                keep_log(self._connection, is_tight=found)
                self._is_tight = found

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Open a reader on a snapshot of the committed rows; connections are pooled."""
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
        while len(self.sessions) > N_CACHED_SESSIONS:
            self.sessions.popitem(last=False)
        while len(self.trajectories) > N_CACHED_TRAJECTORIES:
            self.trajectories.popitem(last=False)

    def close(self) -> None:
        """Close all connections and release the file."""
        for connection in (*self._readers, self._connection):
            connection.close()
        self._lock.release()


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """Open a reader from a process that does not own the file: a fit, a replay, an export."""
    with translated(), closing(connect(path, readonly=True)) as connection:
        connection.execute("begin")
        check_schema(connection)
        yield SqliteReader(connection)


def check_schema(connection: sqlite3.Connection) -> None:
    """Raise `WrongSchema` unless the schema is the one that this program needs."""
    found = None
    if connection.execute("select 1 from sqlite_master where name = 'alembic_version'").fetchone():
        found = connection.execute("select version_num from alembic_version").fetchone()
    check_revision(None if found is None else found[0])
