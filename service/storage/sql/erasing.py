"""Delete hidden rows a few at a time, the same for both databases."""

from collections.abc import Callable
from typing import Any

from service.session.records import HiddenRows
from service.storage.ports import EraseCursor
from service.storage.reader import FOR_EVER

# key columns of each table, after the session's, and the bytes of a row. Tables of rounds come
# first; the rows of the others belong to the session as a whole
ROUNDS = {
    "decisions": (("trajectory", "round", "number"), "length(context) + length(scores)"),
    "measurements": (("trajectory", "first_round", "number"), "0"),
    "voids": (("trajectory", "round", "position"), "0"),
}
TABLES = {
    **ROUNDS,
    "estimates": (("number",), "length(manifest) + coalesce(length(estimate), 0)"),
    "trajectories": (("trajectory", "n_rounds"), "0"),
    "slot_sums": (("trajectory", "last_slot"), "length(sums)"),
    "lift_units": (("since", "trajectory", "block"), "0"),
}
MAX_ROWS, MAX_BYTES = 256, 2**18  # of one call: a commit of a few milliseconds
Read = Callable[..., list[Any]]  # runs a named statement with values, and returns its rows
Execute = Callable[..., Any]  # runs a named statement with values


def statements() -> dict[str, str]:
    """Return, for each table, a statement that finds the next rows and one that deletes them.

    Both read from the primary key's index, from the last range on, so that PostgreSQL does not read
    the entries of deleted rows again, which stay until a vacuum. Both end at a number of rows: at
    an upper bound of several columns PostgreSQL goes on to the end of the trajectory.
    """
    found = {}
    for table, (columns, size) in TABLES.items():
        key, n = ", ".join(columns), len(columns)
        after = ", ".join(f"${3 + j}" for j in range(n))
        rows = f"from {table} where tenant = $1 and session_id = $2 and ({key}) > ({after})"
        rows += f" order by {key} limit ${3 + n}"
        whole = f"tenant, session_id, {key}"
        found[f"next_{table}"] = f"select {key}, {size} {rows}"
        found[f"erase_{table}"] = f"delete from {table} where ({whole}) in (select {whole} {rows})"
    return found


def erase_some(
    read: Read, execute: Execute, hidden: HiddenRows, cursor: EraseCursor | None
) -> EraseCursor | None:
    """Delete the next hidden rows, up to MAX_ROWS or MAX_BYTES; see `Transaction.erase`."""
    tables = [*ROUNDS, "trajectories"] if hidden.trajectory is not None else list(TABLES)
    if hidden.after_round:
        tables.remove("trajectories")  # it has rounds that are seen
    owner, n, n_bytes = (hidden.tenant, hidden.session_id), 0, 0
    for table in tables[tables.index(cursor[0]) if cursor else 0 :]:
        after = cursor[1] if cursor and cursor[0] == table else _before(hidden, table)
        last, n_before = after, n
        for *key, size in read(f"next_{table}", *owner, *after, MAX_ROWS - n):
            is_outside = hidden.trajectory is not None and key[0] != hidden.trajectory
            if is_outside or n_bytes > MAX_BYTES:
                break
            last, n, n_bytes = tuple(key), n + 1, n_bytes + size
        if last != after:
            execute(f"erase_{table}", *owner, *after, n - n_before)
        if n == MAX_ROWS or n_bytes > MAX_BYTES:
            return table, last
    if hidden.trajectory is not None and not hidden.after_round:
        execute("erase_units", *owner, hidden.trajectory)
    return None


def _before(hidden: HiddenRows, table: str) -> tuple[Any, ...]:
    """Return a key just before the first hidden row of a table."""
    if hidden.trajectory is not None and table in ROUNDS:
        return hidden.trajectory, hidden.after_round, FOR_EVER
    if hidden.trajectory is not None:
        return hidden.trajectory, -1
    columns, _ = TABLES[table]
    first = ("" if name == "trajectory" else 0 for name in columns[:-1])
    return (*first, -1)
