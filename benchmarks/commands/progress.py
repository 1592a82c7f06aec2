"""What a measurement prints while it runs."""

from collections.abc import Callable

import typer


def printing(head: str, as_json: bool) -> Callable[[str], None]:
    """Print the head of a table; return what prints its rows. For JSON neither prints."""
    if as_json:
        return lambda line: None
    typer.echo(head)
    return typer.echo
