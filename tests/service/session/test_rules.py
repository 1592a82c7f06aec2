"""The table of rules, and the page that is made of it."""

from collections.abc import Iterator
from pathlib import Path

from service.session.rules import RULES

PAGE = Path(__file__).parents[3] / "docs/rules.md"
HEAD = """# What excludes what

A new session, a change, a copy and an import are refused (422 `bad_option`, naming the field)
where the session would have both features of a row. `make answers` writes this page.

"""


def table() -> Iterator[str]:
    """Yield the lines of the rules' table in Markdown."""
    yield "| A session with | cannot have | because |"
    yield "|-|-|-|"
    features: dict[tuple[str, str], list[str]] = {}
    for feature, excluded, because in RULES:
        features.setdefault((excluded.name, because), []).append(feature.name)
    for (excluded_name, because), names in features.items():
        yield f"| {'; '.join(names)} | {excluded_name} | {because} |"


def written() -> str:
    """Return the text of the page."""
    return HEAD + "\n".join(table()) + "\n"


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text("utf-8") == written()


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
