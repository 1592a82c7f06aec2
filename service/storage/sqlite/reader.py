"""Reading from SQLite, for the writer's transaction and for everyone else."""

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from service.storage.sql.columns import CHANGING, COLUMNS, COUNTERS, fills, numbered
from service.storage.sql.queries import load_queries
from service.storage.sql.reader import SqlReader

SESSION_COLUMNS = (
    *(name for name in COLUMNS["sessions"] if name not in COUNTERS),
    *("fit_due", "wake_at"),
)
FILLS = {
    "session_columns": ", ".join(SESSION_COLUMNS),
    "session_values": numbered(len(SESSION_COLUMNS)),
    "all_of_sessions": """sessions join (
        select tenant, session_id as id, n_rounds, n_trajectories, n_complete from session_counts
    ) using (tenant, id)""",
    "least": "min",
    "greatest": "max",
    **{f"{table}_row": f"({','.join('?' * len(names))})" for table, names in COLUMNS.items()},
}
SQL = {
    name: re.sub(r"\$(\d+)", r"?\1", query)
    for name, query in load_queries(__package__, {**fills(CHANGING), **FILLS}).items()
}


class SqliteReader(SqlReader):
    """Reads on one connection, inside the transaction that the caller has begun."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def _one(self, name: str, *values: Any) -> Any:
        return self.connection.execute(SQL[name], values).fetchone()

    def _all(self, name: str, *values: Any) -> list[Any]:
        return self.connection.execute(SQL[name], values).fetchall()

    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        return iter(self.connection.execute(SQL[name], values))
