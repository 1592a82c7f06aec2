"""What a command prints: one JSON object with `--json`, else lines for people."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
WIDTH = 80  # columns of a terminal


def show(answer: dict[str, Any], as_json: bool, lines: Iterable[str]) -> None:
    """Print an answer, as JSON or as `lines` (made only then)."""
    if as_json:
        typer.echo(json.dumps(answer))
        return
    for line in lines:
        typer.echo(line)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which gets an s but after 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Align rows below their heads, whole numbers to the right.

    The last column is as wide as its texts: it holds what people have written.
    """
    lines = list(rows)
    texts = [[*heads], *([str(cell) for cell in row] for row in lines)]
    is_count = [
        bool(lines) and all(isinstance(row[i], int) for row in lines) for i in range(len(heads))
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = zip(row, widths, is_count, strict=True)
        aligned = (
            text.rjust(width) if right else text.ljust(width) for text, width, right in cells
        )
        yield "  ".join(aligned).rstrip()
