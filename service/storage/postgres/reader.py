"""Reads from PostgreSQL, and the translation of its driver's errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import TupleRow

from service.problems import ProblemCode, Unavailable
from service.records import FitQueue
from service.storage.ports import Contended
from service.storage.postgres.statements import SQL
from service.storage.reader import Reader

Connection = psycopg.Connection[TupleRow]
_NUMBER = count()  # makes cursor names unique; several may be open at once
FIRST_ROWS, N_ROWS_AT_ONCE = 8, 1000  # start small: a page of large rows ends early


@contextmanager
def translated(doing: str = "nothing was written") -> Iterator[None]:
    """Turn the driver's errors that are no defects into `Contended` or `Unavailable`.

    Parameters
    ----------
    doing : str
        The end of the message: what became of the work.

    Raises
    ------
    Contended
        Another process holds or changed the same rows; the batch must run again.
    Unavailable
        The database is unreachable, full, read-only or too slow.
    """
    try:
        yield
    except (
        errors.DeadlockDetected,
        errors.SerializationFailure,
        errors.UniqueViolation,
        errors.LockNotAvailable,
    ) as error:
        raise Contended(str(error)) from error
    except errors.DiskFull as error:
        raise Unavailable(
            ProblemCode.STORAGE_FULL, f"the disk is full ({_line(error)}); {doing}"
        ) from error
    except errors.ReadOnlySqlTransaction as error:
        reason = f"the database cannot be written ({_line(error)})"
        raise Unavailable(ProblemCode.STORAGE_READONLY, f"{reason}; {doing}") from error
    except errors.QueryCanceled as error:
        raise Unavailable(
            ProblemCode.STORAGE_BUSY, f"the database is too slow just now; {doing}"
        ) from error
    except psycopg.OperationalError as error:
        reason = f"the database does not answer ({_line(error)})"
        raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, f"{reason}; {doing}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def _holds_zero_byte(values: tuple[Any, ...]) -> bool:
    """Return whether a value holds a zero byte: PostgreSQL stores none, so no row matches."""
    return any(isinstance(value, str) and "\0" in value for value in values)


class PostgresReader(Reader):
    """Reads on one connection, inside the transaction that the caller has begun."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def _all(self, name: str, *values: Any) -> list[Any]:
        with translated():
            try:
                return self.connection.execute(SQL[name], values, binary=True).fetchall()
            except psycopg.DataError:
                if _holds_zero_byte(values):
                    return []
                raise

    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        if _holds_zero_byte(values):
            return
        # not `stream`: leaving it early cancels the statement and fails the transaction
        portal = psycopg.RawServerCursor(self.connection, f"each_{next(_NUMBER)}")
        with translated(), portal as cursor:
            cursor.execute(SQL[name], values, binary=True)
            n = FIRST_ROWS
            while rows := cursor.fetchmany(n):
                yield from rows
                n = min(8 * n, N_ROWS_AT_ONCE)

    def fit_queue(self) -> FitQueue:
        """Return the number of due fits, since when the oldest is due, and the worker count."""
        return FitQueue(*self._one("queue"))
