"""The SQL statements of the SQLite adapter, and how they are run: one by one, or for many rows."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any
from weakref import WeakSet

from service.storage.giving_way import giving_way
from service.storage.reader import Reader
from service.storage.sql.statements import (
    CHANGING,
    COLUMNS,
    COUNTERS,
    fills,
    load_queries,
    numbered,
)
from service.storage.sql.transactions import statements

SESSION_COLUMNS = (
    *(name for name in COLUMNS["sessions"] if name not in COUNTERS),
    *("fit_due", "wake_at"),
)
FILLS = {
    "session_columns": ", ".join(SESSION_COLUMNS),
    "session_values": numbered(len(SESSION_COLUMNS)),
    "all_of_sessions": """sessions join (
        select tenant, session_id as id, n_rounds, n_trajectories, n_measurements, n_complete
        from session_counts
    ) using (tenant, id)""",
    "fit_due_at": "cast(schedule ->> '$.current.due_at' as real)",
    "guard": "trial ->> '$.guard'",
    "control": "trial ->> '$.policy.session'",
    "least": "min",
    "greatest": "max",
    "ranges": """(
        select value ->> 0 as trajectory, value ->> 1 as first, value ->> 2 as last
        from json_each($3))""",
    "as_text": "",
    "as_int": "",
    **{f"{table}_row": f"({','.join('?' * len(names))})" for table, names in COLUMNS.items()},
}
SQL = {
    name: re.sub(r"\$(\d+)", r"?\1", query)
    for name, query in {
        **load_queries(__package__, {**fills(CHANGING), **FILLS}),
        **statements(),
    }.items()
}
LARGEST = 1024
ANY_BELOW = 32  # up to so many rows are one statement, whatever their number
_ROW = re.compile(r"\((?:\?,\s*)*\?\)")


@cache
def for_rows(sql: str, n: int) -> str:
    """Return `sql` with its one group of parameters, like ``(?,?)``, repeated n times."""
    (row,) = _ROW.findall(sql)
    return sql.replace(row, ",".join([row] * n))


def chunks(n: int) -> Iterable[int]:
    """Split n rows: yield powers of two, then the rest."""
    while n:
        size = n if n <= ANY_BELOW else min(LARGEST, 1 << (n.bit_length() - 1))
        yield size
        n -= size


def execute_rows(
    connection: sqlite3.Connection, sql: str, rows: Sequence[Sequence[Any]]
) -> list[Any]:
    """Run `sql` for all rows, and return the rows that it finds."""
    if 0 < len(rows) <= ANY_BELOW:  # most often
        values = list(chain.from_iterable(rows))
        return connection.execute(for_rows(sql, len(rows)), values).fetchall()
    answers: list[Any] = []
    start = 0
    for size in chunks(len(rows)):
        values = list(chain.from_iterable(rows[start : start + size]))
        answers += connection.execute(for_rows(sql, size), values)
        start += size
    return answers


class SqliteReader(Reader):
    """Reads on one connection, inside the transaction that the caller has begun."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._open: WeakSet[sqlite3.Cursor] | None = None  # a decision's reader opens none

    def close(self) -> None:
        """Close what is left unread: it would keep its snapshot, and the next reader have that."""
        for cursor in [*(self._open or ())]:
            cursor.close()

    def _one(self, name: str, *values: Any) -> Any:
        return self.connection.execute(SQL[name], values).fetchone()

    def _all(self, name: str, *values: Any) -> list[Any]:
        return list(giving_way(self.connection.execute(SQL[name], values)))

    def _each(self, name: str, *values: Any) -> Iterator[Any]:
        cursor = self.connection.execute(SQL[name], values)
        if self._open is None:
            self._open = WeakSet()
        self._open.add(cursor)
        return giving_way(cursor)
