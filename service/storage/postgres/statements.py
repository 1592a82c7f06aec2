"""The SQL statements of the PostgreSQL adapter, with all placeholders replaced."""

from service.storage.sql.columns import (
    CHANGING,
    COLUMNS,
    COUNTERS,
    column_types,
    fills,
    numbered,
)
from service.storage.sql.erasing import statements
from service.storage.sql.queries import load_queries

TYPES = {str: "text", int: "bigint", float: "float8", bytes: "bytea", bool: "bool"}
SESSION_COLUMNS = (*COLUMNS["sessions"], "fit_due", "wake_at", "fit_due_at")
SESSION_UPDATES = (*CHANGING, *COUNTERS, "fit_due_at")


def arrays(table: str) -> str:
    """Return the `unnest` expression that makes a table's rows from one array per column."""
    types = (TYPES[kind] for kind in column_types(table))
    return f"unnest({', '.join(f'${i}::{name}[]' for i, name in enumerate(types, 1))})"


SQL = load_queries(
    __package__,
    {
        **fills(SESSION_UPDATES),
        "session_columns": ", ".join(SESSION_COLUMNS),
        "session_values": numbered(len(SESSION_COLUMNS)),
        "all_of_sessions": "sessions",
        "fit_due_at": "fit_due_at",
        "guard": "trial::jsonb ->> 'guard'",
        "control": "trial::jsonb #>> '{policy,session}'",
        "least": "least",
        "greatest": "greatest",
        "ranges": """(
            select value ->> 0 as trajectory, (value ->> 1)::bigint as first,
                (value ->> 2)::bigint as last
            from jsonb_array_elements($3::text::jsonb))""",
        "as_text": "::text",
        "as_int": "::bigint",
        **{f"{t}_arrays": arrays(t) for t in ("decisions", "measurements", "trajectories")},
    },
)
SQL |= statements()
# locks on rows that a batch did not announce are out of key order: waiting could deadlock
SQL["lock_sessions_now"] = f"{SQL['lock_sessions']} nowait"
