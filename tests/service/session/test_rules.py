"""The table of rules, and the page that is made of it."""

from collections.abc import Iterator
from pathlib import Path

from lhb_engine.agents import ALGORITHMS
from service.session.rules import CHANGES, COPIES, RULES

PAGE = Path(__file__).parents[3] / "docs/rules.md"
HEAD = """# What excludes what

A new session, a change, a copy and an import are refused (422 `bad_option`, naming the field)
where the session would have both features of a row. `make answers` writes this page.

"""

BETWEEN = "What changes, copies and findings of fits cannot make of a session:"


def table() -> Iterator[str]:
    """Yield the lines of the rules' table in Markdown."""
    yield "| A session with | cannot have | because |"
    yield "|-|-|-|"
    features: dict[tuple[str, str], list[str]] = {}
    for feature, excluded, because in RULES:
        features.setdefault((excluded.name, because), []).append(feature.name)
    for (excluded_name, because), names in features.items():
        yield f"| {'; '.join(names)} | {excluded_name} | {because} |"


def needs() -> Iterator[str]:
    """Yield the lines of what options need."""
    for kind in ALGORITHMS.values():
        yield from (f"- `{one.option}` of `{kind.name}` needs {one.what}" for one in kind.needs)


class Dots(str):
    """What stands in the page where a refusal names something of the session."""

    __slots__ = ()

    def __getattr__(self, name: str) -> "Dots":
        return self

    def __repr__(self) -> str:
        return str(self)


def steps() -> Iterator[str]:
    """Yield the lines of changes and copies."""
    dots = Dots("…")
    for step in dict.fromkeys((*CHANGES, *COPIES)):
        because = step.because.format(before=dots, after=dots, what=dots).split(". ")[0]
        yield f"- with {step.past}, no {step.excluded}: {because}"


def written() -> str:
    """Return the text of the page."""
    return HEAD + "\n".join((*table(), "", *needs(), "", BETWEEN, "", *steps())) + "\n"


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text("utf-8") == written()


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
