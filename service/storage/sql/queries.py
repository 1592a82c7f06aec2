"""SQL lives in files, named and commented; this reads them."""

from importlib.resources import files


def load_queries(package: str) -> dict[str, str]:
    """Statements of the package's ``queries.sql``, by the name in their ``-- name:`` line."""
    text = files(package).joinpath("queries.sql").read_text()
    queries = {}
    for block in text.split("-- name: ")[1:]:
        title, _, body = block.partition("\n")
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        queries[title.strip()] = "\n".join(lines).strip()
    return queries
