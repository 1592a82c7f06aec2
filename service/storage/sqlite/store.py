"""SQLite: one file, one server process that owns it, every commit on the disk (WAL, FULL)."""

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
BATCHES_A_LOOK = 16  # at the disk: others fill it too


class SqliteStore:
    """The writer's side. The cache is the truth between two batches: nobody else writes.

    Parameters
    ----------
    path : Path
        The database file; made if absent.

    Raises
    ------
    OwnedElsewhere
        Another process owns the file.
    WrongSchema
        It is not of this program's schema.
    """

    is_local = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = FileLock(path)
        try:
            with translated():
                self._connection = connect(path)
                self._open_schema()
                self._connection.execute("pragma busy_timeout = 0")  # `begin` waits itself
        except BaseException:
            self._lock.release()
            raise
        self.sessions: OrderedDict[SessionKey, SessionRow] = OrderedDict()
        self.trajectories: OrderedDict[TrajectoryKey, TrajectoryRow] = OrderedDict()
        self._readers: list[sqlite3.Connection] = []
        self._is_tight, self._n_begun = False, 0

    def _open_schema(self) -> None:
        """A new file gets the schema; what is there must be ours."""
        execute = self._connection.execute
        tables = {name for (name,) in execute("select name from sqlite_master")}
        if not tables:
            self._connection.executescript(f"begin; {whole_schema('sqlite')} commit;")
            return
        check_schema(self._connection)

    def begin(self, *, wait: bool = True) -> "SqliteTransaction":
        """Open the writer's transaction; some other program may hold the file for a while."""
        if self._n_begun % BATCHES_A_LOOK == 0:
            self._look_at_the_disk()
        self._n_begun += 1
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with translated(self.path):
                    self._connection.rollback()  # one that failed before
                    self._connection.execute("begin immediate")
                break
            except Unavailable as error:
                late = not wait or time.monotonic() > deadline
                if error.code != "storage_busy" or late:
                    raise
                time.sleep(0.01)
        return SqliteTransaction(self, self._connection)

    def _look_at_the_disk(self) -> None:
        with suppress(OSError), translated():  # a disk that says nothing: the transaction will
            found = is_tight(self.path)
            if found != self._is_tight:
                keep_log(self._connection, is_tight=found)
                self._is_tight = found

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """A consistent view of what is committed; connections are kept and used again."""
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
        """Forget what has not been used for long."""
        while len(self.sessions) > N_CACHED_SESSIONS:
            self.sessions.popitem(last=False)
        while len(self.trajectories) > N_CACHED_TRAJECTORIES:
            self.trajectories.popitem(last=False)

    def close(self) -> None:
        """Close every connection and give the file up."""
        for connection in (*self._readers, self._connection):
            connection.close()
        self._lock.release()


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """A reader for another process: a fit, a replay, an export."""
    with translated(), closing(connect(path, readonly=True)) as connection:
        connection.execute("begin")
        check_schema(connection)
        yield SqliteReader(connection)


def check_schema(connection: sqlite3.Connection) -> None:
    """Refuse any other schema than ours."""
    found = None
    if connection.execute("select 1 from sqlite_master where name = 'alembic_version'").fetchone():
        found = connection.execute("select version_num from alembic_version").fetchone()
    check_revision(None if found is None else found[0])
