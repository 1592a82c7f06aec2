"""Options that several measurements take."""

from typing import Annotated, Any

import typer

Worlds = Annotated[list[str] | None, typer.Option(help="Play only this world; repeatable.")]
Seeds = Annotated[int, typer.Option(help="Number of worlds of each kind.", min=1)]
FirstSeed = Annotated[int, typer.Option(min=0)]
Jobs = Annotated[int, typer.Option(help="Number of processes.", min=1)]
Database = Annotated[
    str | None,
    typer.Option(help="URL of a migrated PostgreSQL database. Default: new SQLite files."),
]


def numbers(text: str, form: str) -> tuple[Any, ...]:
    """Read whole numbers between commas, as many as `form` has."""
    try:
        pairs = zip(text.split(","), form.split(","), strict=True)
        return tuple(int(part) for part, _ in pairs)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not {form}") from None
