"""SQL lives in files, named and commented; this reads them."""

from importlib.resources import files


def load_queries(name: str) -> dict[str, str]:
    """Statements of ``name`` beside this file, by the name in their ``-- name:`` line."""
    text = files(__package__).joinpath(name).read_text()
    queries = {}
    for block in text.split("-- name: ")[1:]:
        title, _, body = block.partition("\n")
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        queries[title.strip()] = "\n".join(lines).strip()
    return queries
