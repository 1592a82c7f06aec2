"""Reads from SQLite, for the writer's transaction and for readers."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from service.storage.giving_way import giving_way
from service.storage.reader import Reader
from service.storage.sqlite.statements import SQL


class SqliteReader(Reader):
    """Reads on one connection, inside the transaction that the caller has begun."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def _one(self, name: str, *values: Any) -> Any:
        return self.connection.execute(SQL[name], values).fetchone()

    def _all(self, name: str, *values: Any) -> list[Any]:
        return list(self._each(name, *values))

    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        return giving_way(self.connection.execute(SQL[name], values))
