"""Connections to PostgreSQL: their deadlines and errors, and the settings that durability needs."""

import select
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel, RawCursor, errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import TupleRow

from service.base.problems import ProblemCode, Unavailable, outcome_unknown
from service.storage.ports import Contended, Refused

Connection = psycopg.Connection[TupleRow]
Found = TypeVar("Found")
# by class of the error: the first that fits
_PROBLEMS: dict[type[psycopg.Error], tuple[ProblemCode, str]] = {
    errors.DiskFull: (ProblemCode.STORAGE_FULL, "the disk is full"),
    errors.ReadOnlySqlTransaction: (ProblemCode.STORAGE_READONLY, "the database cannot be written"),
    errors.QueryCanceled: (ProblemCode.STORAGE_BUSY, "the database did not answer in time"),
    psycopg.OperationalError: (ProblemCode.STORAGE_UNREACHABLE, "the database does not answer"),
}
_CONTENDED = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.UniqueViolation,
    errors.LockNotAvailable,
)
ANSWER_SECONDS = 15.0  # longer than the server waits for a lock
BYTES_A_SECOND = 2**20  # statements that send much may take so much longer


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


class NotDurable(Refused):
    """The database may lose acknowledged commits; the message names the setting."""


def bounded(
    exchange: Generator[Any, Any, Found], n_bytes: Callable[[], int] = lambda: 0
) -> Generator[Any, Any, Found]:
    """Return the exchange with a longest wait; psycopg.OperationalError is raised after it.

    The exchange yields whenever it waits for the server; it is sent 0 where nothing came for a
    while. `n_bytes` returns the number of bytes that were sent.
    """
    began = monotonic()
    try:
        wait = next(exchange)
        while True:
            ready = yield wait
            if not ready:
                seconds = ANSWER_SECONDS + n_bytes() / BYTES_A_SECOND
                if monotonic() > began + seconds:
                    raise psycopg.OperationalError(f"no answer within {seconds:.0f} s")
            wait = exchange.send(ready)
    except StopIteration as done:
        answer: Found = done.value
        return answer


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection whose every wait is bounded; it is closed when one takes too long."""

    def wait(self, gen: Generator[Any, Any, Found], *how: Any, **more: Any) -> Found:
        """Run a generator of the driver."""
        try:
            answer: Found = super().wait(bounded(gen), *how, **more)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self.close()
            raise
        return answer


@contextmanager
def translated(*, is_commit: bool = False) -> Iterator[None]:
    """Turn the driver's errors that are no defects into `Contended` or `Unavailable`.

    `Contended`: another process holds or changed the same rows; the batch must run again.
    `is_commit`: a lost connection leaves it unknown what became of the work (``outcome_unknown``).
    Where the server answers with such an error, nothing was written. `MemoryError`: an answer is
    larger than the memory that this process may take.
    """
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None and " memory" in str(error):  # the driver's; servers say a state
            raise MemoryError(str(error)) from error
        if isinstance(error, _CONTENDED):
            raise Contended(str(error)) from error
        problem = next((one for kind, one in _PROBLEMS.items() if isinstance(error, kind)), None)
        if problem is None:
            raise
        (code, reason), line = problem, " ".join(str(error).split())[:200]
        if is_commit and code == ProblemCode.STORAGE_UNREACHABLE:
            raise outcome_unknown(reason, line) from error
        raise Unavailable(code, f"{reason}; nothing was written", line) from error


def settings_of(url: str, role: str) -> dict[str, Any]:
    """Return the connection parameters: the URL's, then the defaults."""
    return {**DEFAULTS, **conninfo_to_dict(url), "application_name": f"lhb {role}"}


def connect(url: str, role: str) -> Connection:
    """Open a connection, whose first statement begins a transaction; raise `Unavailable`.

    `role` says what the connection is for; it is part of its application name.
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


def may_lose(rows: Iterable[tuple[Any, ...]]) -> str:
    """Say which settings must not be off, of rows with names and values; "" if none is."""
    off = " and ".join(str(name) for name, value in rows if value == "off")
    return off and f"{off} must not be off in this database: what was answered could be lost"


def check_settings(rows: Iterable[tuple[Any, ...]]) -> None:
    """Raise a 503 storage_not_durable if one of the rows of ``settings_now`` is off."""
    if refusal := may_lose(rows):
        detail = f"{refusal}; nothing was written"
        raise Unavailable(ProblemCode.STORAGE_NOT_DURABLE, detail)
