"""Many rows in one SQLite statement.

`executemany` steps once a row, and every step gives the interpreter's lock away and waits to get
it back: beside a busy event loop that costs more than the insert. One statement of many rows is
one step. Large row counts are split into powers of two, so that few statements are ever prepared.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

LARGEST = 1024
ANY_BELOW = 32  # rows: as many statements a table are kept prepared
_ROW = re.compile(r"\((?:\?,\s*)*\?\)")


@cache
def for_rows(sql: str, n: int) -> str:
    """`sql` with its one group of parameters, like ``(?,?)``, written n times."""
    (row,) = _ROW.findall(sql)
    return sql.replace(row, ",".join([row] * n))


def chunks(n: int) -> Iterable[int]:
    """Sizes that add up to n: powers of two, then what is left."""
    while n:
        size = n if n <= ANY_BELOW else min(LARGEST, 1 << (n.bit_length() - 1))
        yield size
        n -= size


def execute_rows(
    connection: sqlite3.Connection, sql: str, rows: Sequence[Sequence[Any]]
) -> list[Any]:
    """Run `sql` for all rows, and give what it returns."""
    found: list[Any] = []
    start = 0
    for size in chunks(len(rows)):
        values = list(chain.from_iterable(rows[start : start + size]))
        found += connection.execute(for_rows(sql, size), values)
        start += size
    return found
