"""The PostgreSQL store: one connection to write and a small pool to read in each process.

A batch is one transaction at isolation level read committed. It locks its session rows in key
order. These locks protect the sessions' trajectories, decisions and rewards.
"""

import select
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg import IsolationLevel, RawCursor
from psycopg.conninfo import conninfo_to_dict

from service.base.byte_bounded import ByteBounded
from service.base.problems import ProblemCode, Unavailable
from service.session.due_fits import FitQueue
from service.storage.ports import MAX_EXPORTS, MAX_READS, Refused
from service.storage.postgres.deadlines import BoundedConnection
from service.storage.postgres.durability import check_settings, may_lose
from service.storage.postgres.errors import translated
from service.storage.postgres.migrate import revision_of
from service.storage.postgres.pipeline import Pipeline
from service.storage.postgres.reader import Connection, PostgresReader
from service.storage.postgres.statements import SQL
from service.storage.postgres.transaction import (
    MOST_SESSION_BYTES,
    CachedSessions,
    PostgresTransaction,
)
from service.storage.reader import Reader
from service.storage.schema import SCHEMA

N_READERS = MAX_READS + MAX_EXPORTS  # enough that no read waits for a connection
WAIT_FOR_READER_SECONDS = 5.0
# defaults that a URL may override. The timeouts let the server end a connection whose process
# hangs in a transaction or whose network drops packets, so that its locks are not held for long
DEFAULTS = {
    "connect_timeout": "3",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "options": " ".join(
        f"-c {name}={value}"
        for name, value in {
            "lock_timeout": "5s",
            "statement_timeout": "60s",
            "idle_in_transaction_session_timeout": "20s",
            "jit": "off",  # statements read a few rows; compiling one takes 100 ms
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "2",
            "tcp_keepalives_count": "3",
        }.items()
    ),
}


CHECK_SECONDS = 2.0  # between two looks at the settings, while there are commits


class NotDurable(Refused):
    """The database may lose acknowledged commits; the message names the setting."""


def settings_of(url: str, role: str) -> dict[str, Any]:
    """Return the connection parameters: the URL's, then the defaults."""
    return {**DEFAULTS, **conninfo_to_dict(url), "application_name": f"lhb {role}"}


def connect(url: str, role: str) -> Connection:
    """Open a connection; its first statement begins a transaction.

    Parameters
    ----------
    url : str
        ``postgresql://...``
    role : str
        What the connection is for; part of its application name.

    Raises
    ------
    Unavailable
        The database does not answer.
    """
    with translated():
        return BoundedConnection.connect(**settings_of(url, role), cursor_factory=RawCursor)


def connect_to_read(url: str, role: str) -> Connection:
    """Open a connection with read-only transactions, each on one snapshot; see `connect`."""
    connection = connect(url, role)
    with translated():  # a client may take an export slowly; it holds no lock
        connection.execute("set idle_in_transaction_session_timeout = '5min'")
        connection.commit()
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def is_alive(connection: Connection) -> bool:
    """Return whether an idle connection is usable; input on it means that the server closed it."""
    if connection.closed:
        return False
    readable, _, _ = select.select([connection.fileno()], [], [], 0)
    return not readable


def end(connection: Connection) -> None:
    """Roll back; close the connection if that fails, so that it is replaced at its next use."""
    try:
        connection.rollback()
    except psycopg.Error:
        connection.close()


class PostgresStore:
    """A PostgreSQL database. Lost connections are opened again at their next use.

    Parameters
    ----------
    url : str
        ``postgresql://...``; its parameters override `DEFAULTS`.

    Raises
    ------
    WrongSchema
        The schema is missing or of another release.
    NotDurable
        fsync, synchronous_commit or full_page_writes is off.
    Unavailable
        The database does not answer.
    """

    is_local = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.sessions: CachedSessions = ByteBounded(MOST_SESSION_BYTES)
        self._writer: Pipeline | None = None
        self._idle: list[Connection] = []
        self._slots = threading.BoundedSemaphore(N_READERS)
        self._writer = self._connect()

    def _connect(self) -> Pipeline:
        connection = connect(self.url, "writer")
        try:
            check_durable(connection)
            check_schema(connection)
            with translated():  # until this connection ends, whatever is set meanwhile
                connection.execute(SQL["keep_synchronous_commit"])
                connection.commit()
        except BaseException:
            connection.close()
            raise
        self._check_at = time.monotonic() + CHECK_SECONDS
        return Pipeline(connection)

    def _check_settings(self, connection: Connection) -> None:
        """Refuse to write if a setting was changed so that commits may be lost."""
        with translated():
            rows = connection.execute(SQL["settings_now"]).fetchall()
            connection.commit()
        check_settings(rows)
        self._check_at = time.monotonic() + CHECK_SECONDS

    def begin(self, *, wait: bool = True) -> PostgresTransaction:
        """Open the writer's transaction; its first statement begins it on the server.

        Parameters
        ----------
        wait : bool
            Whether to connect again if the connection is lost.

        Raises
        ------
        Unavailable
            The connection is lost, or the database does not answer.
        """
        if self._writer is None or not is_alive(self._writer.connection):
            if not wait:
                raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, "the connection is lost")
            if self._writer is not None:
                self._writer.connection.close()
            self.sessions.clear()
            try:
                self._writer = self._connect()
            except NotDurable as error:
                raise Unavailable(ProblemCode.STORAGE_NOT_DURABLE, str(error)) from error
        elif time.monotonic() > self._check_at:
            if not wait:
                raise Unavailable(ProblemCode.STORAGE_NOT_DURABLE, "the settings may have changed")
            self._check_settings(self._writer.connection)
        return PostgresTransaction(self._writer, self.sessions)

    @contextmanager
    def reader(self) -> Iterator[PostgresReader]:
        """Open a reader on a snapshot of the committed rows; connections are pooled."""
        if not self._slots.acquire(timeout=WAIT_FOR_READER_SECONDS):
            raise Unavailable(ProblemCode.STORAGE_BUSY, "too many concurrent reads")
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
        """Return the number of due fits, since when the oldest is due, and the worker count."""
        with self.reader() as reader:
            return reader.fit_queue()

    def close(self) -> None:
        """Close all connections."""
        for connection in self._idle:
            connection.close()
        if self._writer is not None:
            self._writer.connection.close()


@contextmanager
def open_reader(url: str) -> Iterator[Reader]:
    """Open a reader without a store, for a fit, a replay or an export."""
    with translated(), closing(connect_to_read(url, "reader")) as connection:
        check_schema(connection)
        yield PostgresReader(connection)


def check_schema(connection: Connection) -> None:
    """Raise `WrongSchema` unless the schema is the one that this program needs."""
    with translated():
        revision = revision_of(connection)
        connection.commit()
    SCHEMA.check(revision)


def check_durable(connection: Connection) -> None:
    """Raise `NotDurable` if a setting lets the database lose acknowledged commits."""
    with translated():
        row = connection.execute(SQL["settings"]).fetchone()
        connection.commit()
    assert row is not None
    names = ("fsync", "synchronous_commit", "full_page_writes")
    off = [name for name, value in zip(names, row, strict=True) if value == "off"]
    if off:
        raise NotDurable(may_lose(off))
