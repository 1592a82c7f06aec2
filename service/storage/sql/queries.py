"""Load named SQL statements from files."""

from collections.abc import Iterator
from importlib.resources import files

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


def load_queries(package: str, fills: dict[str, str]) -> dict[str, str]:
    """Load the shared statements and those of an adapter, which replace shared ones by name.

    Statements that read a window are there twice: ``window_NAME`` is for any session, and
    ``alone_NAME`` for a session with one trajectory. The latter's key is the last parameter.

    Parameters
    ----------
    package : str
        The adapter's package, which holds a ``queries.sql``.
    fills : dict
        The text that replaces each ``{name}`` in a statement.

    Returns
    -------
    dict
        Statements by the name in their ``-- name:`` line, without comments.
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
