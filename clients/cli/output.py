"""What a command prints: one JSON object with `--json`, else lines for people."""

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def show(found: dict[str, Any], as_json: bool, lines: Iterable[str]) -> None:
    """Print what was found, as JSON or as `lines` (made only then)."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    for line in lines:
        typer.echo(line)
