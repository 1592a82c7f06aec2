"""The columns of each table, derived from the fields of its row class."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from service.records import (
    ApiKey,
    AuditRow,
    DecisionRow,
    EstimateRow,
    HiddenRows,
    KeptSumsRow,
    MeasurementRow,
    SessionRow,
    TrajectoryRow,
    VoidRow,
)

ROWS: dict[str, type] = {
    "decisions": DecisionRow,
    "measurements": MeasurementRow,
    "voids": VoidRow,
    "estimates": EstimateRow,
    "api_keys": ApiKey,
    "audit": AuditRow,
    "hidden_rows": HiddenRows,
    "kept_sums": KeptSumsRow,
    "trajectories": TrajectoryRow,
    "sessions": SessionRow,
}
RENAMED = {"client_event_id": "event_id", "key": "trajectory"}  # field to column
COLUMNS = {
    table: tuple(RENAMED.get(name, name) for name in get_type_hints(row))
    for table, row in ROWS.items()
}
# of a session; most commits change them
COUNTERS = ("n_rounds", "n_trajectories", "n_measurements", "n_complete")
CHANGING = (  # the other columns of a session that may change
    *("name", "archived_at", "n_estimates", "estimate", "model_version"),
    *("schedule", "fit_due", "wake_at", "append_token", "names", "trial"),
)


def column_types(table: str) -> list[type]:
    """Return the Python type of each column, without None."""
    hints = get_type_hints(ROWS[table]).values()
    return [next((t for t in get_args(hint) if t is not type(None)), hint) for hint in hints]


def fills(changing: Sequence[str]) -> dict[str, str]:
    """Return the text for each placeholder, like ``{sessions}``, in the statements.

    Parameters
    ----------
    changing : sequence of str
        Columns that `update_session` sets. Their values start at ``$3``, after the session's key.

    Returns
    -------
    dict of str
        SQL text by the name of the placeholder.
    """
    found = {table: ", ".join(columns) for table, columns in COLUMNS.items()}
    kept = COLUMNS["trajectories"][3:]
    found["trajectory_updates"] = ", ".join(f"{name} = excluded.{name}" for name in kept)
    found["session_updates"] = ", ".join(f"{name} = ${i}" for i, name in enumerate(changing, 3))
    for table in ("estimates", "api_keys", "audit", "hidden_rows", "kept_sums", "voids"):
        found[f"{table}_values"] = numbered(len(COLUMNS[table]))
    return found


def numbered(n: int) -> str:
    """Return the parameters ``$1, $2, ...`` of n values."""
    return ", ".join(f"${i}" for i in range(1, n + 1))


def session_values(session: SessionRow, names: Sequence[str]) -> tuple[Any, ...]:
    """Return the stored values of the named columns of a session."""
    stored = {"options": json.dumps(session.options), "schedule": session.schedule.dumps()}
    return tuple(stored[name] if name in stored else getattr(session, name) for name in names)


trajectory_values = attrgetter(*get_type_hints(TrajectoryRow))  # its stored values
