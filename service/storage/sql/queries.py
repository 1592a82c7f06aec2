"""SQL lives in files, named and commented; this reads them."""

from importlib.resources import files


def load_queries(package: str, fills: dict[str, str]) -> dict[str, str]:
    """Read the statements that all SQL databases share, and those of an adapter.

    Parameters
    ----------
    package : str
        The adapter, with a ``queries.sql``.
    fills : dict
        What stands for each ``{name}`` in a statement.

    Returns
    -------
    dict
        Statements by the name in their ``-- name:`` line.
    """
    queries = {}
    for folder in (__package__, package):
        text = files(folder).joinpath("queries.sql").read_text()
        for block in text.split("-- name: ")[1:]:
            title, _, body = block.partition("\n")
            lines = [line for line in body.splitlines() if not line.startswith("--")]
            queries[title.strip()] = "\n".join(lines).strip().format(**fills)
    return queries
