"""Run one SQLite statement for many rows.

`executemany` steps once per row, and every step releases and retakes the GIL. Beside a busy event
loop that costs more than the insert. A statement with many rows is one step. Large row counts are
split into powers of two, so that few statements are prepared.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

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
