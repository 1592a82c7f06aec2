"""The SQL statements that both databases share, with columns from the fields of the rows."""

import json
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from operator import attrgetter
from typing import Any, get_args, get_type_hints

from service.session.records import PARTS, ROWS, SPEC, SessionRow, TrajectoryRow

FEW = (
    *("estimates", "api_keys", "audit", "hidden_rows", "voids"),
    *("limits", "webhooks", "webhook_messages"),
)
SUMS = ("kept_sums", "slot_sums", "lift_sums", "lift_units")
RENAMED = {"client_event_id": "event_id", "key": "trajectory"}  # field to column
TYPES = {
    table: {RENAMED.get(name, name): kind for name, kind in get_type_hints(row).items()}
    for table, row in ROWS.items()
}
TYPES["sessions"] = {
    "tenant": str,  # these two come first
    "id": str,
    **{name: kind for name, kind in TYPES["sessions"].items() if name not in SPEC},
    "spec": str,
}
COLUMNS = {table: tuple(types) for table, types in TYPES.items()}
# of a session; most commits change them
COUNTERS = ("n_rounds", "n_trajectories", "n_measurements", "n_complete")
FIXED = ("tenant", "id", "dim", "request", "created_at", "created_as")
CHANGING = (  # the other columns of a session that may change
    *(name for name in COLUMNS["sessions"] if name not in (*FIXED, *COUNTERS)),
    *("fit_due", "wake_at"),
)
# a decision in a trial; of its scores only the first 64 arms', the played arm's and the agent's
PLAYED = """d.trajectory, d.round, d.position, d.played_by, d.model_version, length(d.scores),
    substr(d.scores, 1, 512), substr(d.scores, cast(8 * d.arm + 1 as int), 8),
    substr(d.scores, cast(8 * d.agent_arm + 1 as int), 8), d.arm = d.agent_arm"""
# a trajectory is not being erased
NOT_ERASING = """not exists (
    select 1 from hidden_rows h where h.tenant = t.tenant and h.session_id = t.session_id
        and h.trajectory = t.trajectory and h.after_round = 0 and h.writer is null)"""
# what a trajectory's last decision, l, tells if its row does not count that yet; in the rounds that
# readers see. An adapter looks it up by `last_decision`
COUNTED = {"n_decisions": "l.number", "n_rounds": "l.round", "last_at": "l.at"}
LAST = """from decisions d where d.tenant = t.tenant and d.session_id = t.session_id
    and d.trajectory = t.trajectory and d.round > t.n_rounds and d.round <= coalesce((
        select h.after_round from hidden_rows h where h.tenant = t.tenant
            and h.session_id = t.session_id and h.trajectory = t.trajectory), 9223372036854775807)
    order by d.round desc, d.number desc limit 1"""
# Each trajectory's first and last round with a position in $3..$4. The default trajectory has no
# entries in the index by position: alone, its rounds are its positions.
SEVERAL = """(
    select trajectory, min(round) as first, max(round) as last from decisions
    where tenant = $1 and session_id = $2 and trajectory <> '' and position between $3 and $4
    group by trajectory
    union all
    select trajectory, min(round), max(round) from decisions
    where tenant = $1 and session_id = $2 and trajectory = '' and round <= $4
        and position between $3 and $4
    group by trajectory)"""
ALONE = "(select {name} as trajectory, $3{int} as first, $4{int} as last)"


def column_types(table: str) -> list[type]:
    """Return the Python type of each column, without None."""
    hints = TYPES[table].values()
    return [next((t for t in get_args(hint) if t is not type(None)), hint) for hint in hints]


def fills(changing: Sequence[str]) -> dict[str, str]:
    """Return the text for each placeholder, like ``{sessions}``, in the statements.

    `changing` are the columns that `update_session` sets. Their values start at ``$3``, after the
    session's key.
    """
    texts = {table: ", ".join(columns) for table, columns in COLUMNS.items()}
    kept = COLUMNS["trajectories"][3:]
    texts["trajectory_updates"] = ", ".join(f"{name} = excluded.{name}" for name in kept)
    texts["counted_trajectories"] = ", ".join(
        f"coalesce({COUNTED[name]}, t.{name}) as {name}" if name in COUNTED else f"t.{name}"
        for name in COLUMNS["trajectories"]
    )
    texts["not_erasing"] = NOT_ERASING
    texts["session_updates"] = ", ".join(f"{name} = ${i}" for i, name in enumerate(changing, 3))
    texts["played"] = PLAYED
    texts["summed_slots"] = ", ".join(f"s.{name}" for name in COLUMNS["slot_sums"])
    for table in (*FEW, *SUMS):
        texts[f"{table}_values"] = numbered(len(COLUMNS[table]))
    return texts


def numbered(n: int) -> str:
    """Return the parameters ``$1, $2, ...`` of n values."""
    return ", ".join(f"${i}" for i in range(1, n + 1))


def session_values(names: tuple[str, ...]) -> Callable[[SessionRow], tuple[Any, ...]]:
    """Return what makes the stored values of the named columns of a session."""
    texts = {name: f"{name}.text" for name in PARTS} | {"clock": "clock_text"}
    return attrgetter(*(texts.get(name, name) for name in names))


def session_of(row: Sequence[Any]) -> SessionRow:
    """Return the session that a row of the statement `session` describes."""
    values = dict(zip(COLUMNS["sessions"], row, strict=True))
    values |= json.loads(values.pop("spec"))
    values |= {name: part_of(values[name]) for name, part_of in PARTS.items()}
    values["keep_contexts"] = bool(values["keep_contexts"])  # SQLite stores an integer
    return SessionRow(**values)


trajectory_values = attrgetter(*get_type_hints(TrajectoryRow))  # its stored values
counter_values = attrgetter(*COUNTERS)  # of a session


def load_queries(package: str, fills: dict[str, str]) -> dict[str, str]:
    """Load the shared statements, and an adapter's, which replace shared ones by name.

    Statements that read a window are there twice: ``window_NAME`` is for any session, and
    ``alone_NAME`` for a session with one trajectory. The latter's key is the last parameter. A name
    is that of its ``-- name:`` line; `fills` has the text for each ``{name}`` in a statement.
    """
    queries = {}
    for folder in (__package__, package):
        for name, statement in _named(folder, "queries.sql"):
            queries[name] = statement.format(**fills)
    for name, statement in _named(__package__, "windows.sql"):
        last = max(n for n in range(4, 10) if f"${n}" in statement or n == 4)
        alone = ALONE.format(name=f"${last + 1}{fills['as_text']}", int=fills["as_int"])
        queries[f"window_{name}"] = statement.format(spans=SEVERAL, **fills)
        queries[f"alone_{name}"] = statement.format(spans=alone, **fills)
    return queries


def _named(folder: str | None, file: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each statement of a file."""
    assert folder is not None
    for block in files(folder).joinpath(file).read_text("utf-8").split("-- name: ")[1:]:
        title, _, body = block.partition("\n")
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        yield title.strip(), "\n".join(lines).strip()
