"""The SQL statements of the SQLite adapter, with all placeholders replaced."""

import re

from service.storage.sql.columns import CHANGING, COLUMNS, COUNTERS, fills, numbered
from service.storage.sql.erasing import statements
from service.storage.sql.queries import load_queries

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
