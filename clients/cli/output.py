"""What a command prints: an answer, as JSON or as lines for people, and what it cannot do.

The latter is one line and exit code 1; a traceback means a defect.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
ServerUrl = Annotated[
    str | None, typer.Option(help="URL of the server to use; default: the database itself.")
]
Url = Annotated[str, typer.Option(envvar="LHB_URL", help="The server.")]
SERVER = "http://127.0.0.1:8080"
WIDTH = 80  # columns of a terminal


class LogError(ValueError):
    """A log that cannot be read; the message names the row and the column."""


# A command loads what it needs, so an error can only be of a class that is loaded already.
EXPECTED = (
    "clients.sdk.errors.ApiError",
    "service.base.problems.Problem",
    "service.storage.ports.Refused",
)
UNREACHABLE = ("httpx.HTTPError", "httpx.InvalidURL")


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


class CommandGroup(TyperGroup):
    """CommandGroup whose refusals are printed in a line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            reason = _reason(error)
            if reason is None:
                raise
            command = f"{ctx.command_path} {ctx.invoked_subcommand}"
            raise SystemExit(f"{command}: {reason}") from None


def _reason(error: Exception) -> str | None:
    """Say what is wrong with a file, an address, a setting or an answer; None for a defect."""
    if isinstance(error, (OSError, LogError, *_loaded(EXPECTED))):
        return str(error)
    if isinstance(error, tuple(_loaded(UNREACHABLE))):
        return f"there is no server to talk to at that --url: {error}"
    if getattr(error, "title", None) == "Settings":  # pydantic's ValidationError of that model
        errors: list[Any] = error.errors(include_url=False)  # type: ignore[attr-defined]
        return "; ".join(f"{'LHB_' + str(e['loc'][0]).upper()}: {e['msg']}" for e in errors)
    return None


def _loaded(names: tuple[str, ...]) -> Iterator[type[Exception]]:
    for name in names:
        module, _, kind = name.rpartition(".")
        if module in sys.modules:
            yield getattr(sys.modules[module], kind)
