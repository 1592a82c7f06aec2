"""PostgreSQL: any number of processes, each with one writing connection and a small pool to read.

A batch is one transaction at read committed: its session rows are locked in key order, and what
the locks protect (trajectories, decisions, rewards) is read and written under them.
"""

import select
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg import IsolationLevel, RawCursor
from psycopg.conninfo import conninfo_to_dict

from service.problems import ProblemCode, Unavailable
from service.records import FitQueue, SessionKey, SessionRow
from service.storage.ports import MOST_EXPORTS, MOST_READS, Refused
from service.storage.postgres.pipeline import Pipeline
from service.storage.postgres.reader import Connection, PostgresReader, translated
from service.storage.postgres.statements import SQL
from service.storage.postgres.transaction import PostgresTransaction
from service.storage.reader import Reader
from service.storage.schema import check_revision

N_READERS = MOST_READS + MOST_EXPORTS  # so that nobody waits for one
WAIT_FOR_READER_SECONDS = 5.0
# what a URL may override. A process that stops in the middle of a transaction, or a network that
# swallows packets, must not hold locks for long: the server ends such a connection
DEFAULTS = {
    "connect_timeout": "3",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "options": " ".join(
        f"-c {name}={value}"
        for name, value in {
            "lock_timeout": "10s",
            "statement_timeout": "60s",
            "idle_in_transaction_session_timeout": "20s",
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "2",
            "tcp_keepalives_count": "3",
        }.items()
    ),
}


class NotDurable(Refused):
    """The database may lose what it has acknowledged; the message says which setting does that."""


def settings_of(url: str, role: str) -> dict[str, Any]:
    """How to connect: the URL over our defaults."""
    return {**DEFAULTS, **conninfo_to_dict(url), "application_name": f"lhb {role}"}


def connect(url: str, role: str) -> Connection:
    """A connection; its transactions begin with its first statement."""
    with translated():
        return psycopg.connect(**settings_of(url, role), cursor_factory=RawCursor)


def connect_to_read(url: str, role: str) -> Connection:
    """A connection whose transactions see one moment and change nothing."""
    connection = connect(url, role)
    with translated():  # whoever exports a session may be slow to take it, and holds no lock
        connection.execute("set idle_in_transaction_session_timeout = '5min'")
        connection.commit()
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def is_alive(connection: Connection) -> bool:
    """Whether an idle connection can be used; one that has something to say says goodbye."""
    if connection.closed:
        return False
    said, _, _ = select.select([connection.fileno()], [], [], 0)
    return not said


def end(connection: Connection) -> None:
    """Leave the transaction; a connection that cannot is closed, and another one opened in time."""
    try:
        connection.rollback()
    except psycopg.Error:
        connection.close()


class PostgresStore:
    """The writer's connection, which comes back after the database was away, and the readers'.

    Parameters
    ----------
    url : str
        ``postgresql://...``; its parameters win over our defaults.

    Raises
    ------
    WrongSchema
        `lhb migrate` has not been run, or by another release.
    NotDurable
        fsync, synchronous_commit or full_page_writes is off.
    Unavailable
        The database does not answer.
    """

    is_local = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.sessions: OrderedDict[SessionKey, tuple[int, SessionRow]] = OrderedDict()
        self._writer: Pipeline | None = None
        self._idle: list[Connection] = []
        self._slots = threading.BoundedSemaphore(N_READERS)
        self._writer = self._connect()

    def _connect(self) -> Pipeline:
        connection = connect(self.url, "writer")
        try:
            check_durable(connection)
            check_schema(connection)
        except BaseException:
            connection.close()
            raise
        return Pipeline(connection)

    def begin(self, *, wait: bool = True) -> PostgresTransaction:
        """The writer's transaction; connects again where the connection was lost."""
        if self._writer is None or not is_alive(self._writer.connection):
            if not wait:
                raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, "the connection is lost")
            if self._writer is not None:
                self._writer.connection.close()
            self.sessions.clear()
            self._writer = self._connect()
        return PostgresTransaction(self._writer, self.sessions)

    @contextmanager
    def reader(self) -> Iterator[PostgresReader]:
        """A consistent view of what is committed."""
        if not self._slots.acquire(timeout=WAIT_FOR_READER_SECONDS):
            raise Unavailable(ProblemCode.STORAGE_BUSY, "too many reads at once")
        try:
            connection = self._reading()
            try:
                with translated():
                    yield PostgresReader(connection)
            finally:
                end(connection)
                self._idle.append(connection)
        finally:
            self._slots.release()

    def _reading(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if is_alive(connection):
                return connection
            connection.close()
        return connect_to_read(self.url, "reader")

    def fit_queue(self) -> FitQueue:
        """What is due, and how many workers are connected."""
        with self.reader() as reader:
            return reader.fit_queue()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._idle:
            connection.close()
        if self._writer is not None:
            self._writer.connection.close()


@contextmanager
def open_reader(url: str) -> Iterator[Reader]:
    """A reader for another process: a fit, a replay, an export."""
    with translated(), closing(connect_to_read(url, "reader")) as connection:
        check_schema(connection)
        yield PostgresReader(connection)


def check_schema(connection: Connection) -> None:
    """Refuse any other schema than ours."""
    with translated():
        known = connection.execute("select to_regclass('alembic_version') is not null").fetchone()
        found = None
        if known is not None and known[0]:
            found = connection.execute("select version_num from alembic_version").fetchone()
        connection.commit()
    check_revision(None if found is None else str(found[0]))


def check_durable(connection: Connection) -> None:
    """Refuse a database that may lose what it has acknowledged."""
    with translated():
        row = connection.execute(SQL["settings"]).fetchone()
        connection.commit()
    assert row is not None
    names = ("fsync", "synchronous_commit", "full_page_writes")
    off = [name for name, value in zip(names, row, strict=True) if value == "off"]
    if off:
        raise NotDurable(
            f"{' and '.join(off)} must not be off in this database: what was answered could be lost"
        )
