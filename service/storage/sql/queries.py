"""Load named SQL statements from files."""

from importlib.resources import files


def load_queries(package: str, fills: dict[str, str]) -> dict[str, str]:
    """Load the shared statements and those of an adapter, which replace shared ones by name.

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
        text = files(folder).joinpath("queries.sql").read_text()
        for block in text.split("-- name: ")[1:]:
            title, _, body = block.partition("\n")
            lines = [line for line in body.splitlines() if not line.startswith("--")]
            queries[title.strip()] = "\n".join(lines).strip().format(**fills)
    return queries
