"""Reads from PostgreSQL, for the writer's transaction and for readers."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
from psycopg.rows import TupleRow

from service.session.due_fits import FitQueue
from service.storage.giving_way import giving_way
from service.storage.postgres.durability import check_settings
from service.storage.postgres.errors import translated
from service.storage.postgres.statements import SQL
from service.storage.reader import Reader

Connection = psycopg.Connection[TupleRow]
_NUMBER = count()  # makes cursor names unique; several may be open at once
FIRST_ROWS, N_ROWS_AT_ONCE = 8, 1000  # start small: a page of large rows ends early


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
                yield from giving_way(rows)
                n = min(8 * n, N_ROWS_AT_ONCE)

    def check(self) -> None:
        """Read the settings that durability depends on.

        Raises
        ------
        Unavailable
            The database does not answer, or may lose commits.
        """
        check_settings(self._all("settings_now"))

    def fit_queue(self) -> FitQueue:
        """Return the number of due fits, since when the oldest is due, and the worker count."""
        return FitQueue(*self._one("queue"))
