"""Write rows as PostgreSQL array literals: one parameter per column for any number of rows."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def columns(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return one array literal per column; `unnest` turns them back into rows.

    This takes a third of the CPU of the driver's array adaptation. Unlike COPY it needs no extra
    round trip.

    Parameters
    ----------
    rows : iterable of sequences
        At least one row; all are of the same length.
    """
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(column: Sequence[Any]) -> str:
    return "{" + ",".join([_LITERALS[type(value)](value) for value in column]) + "}"


def _quoted(text: str) -> str:
    if "\\" in text or '"' in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


_LITERALS: dict[type, Callable[[Any], str]] = {
    str: _quoted,
    int: repr,
    float: repr,
    bool: repr,
    bytes: lambda value: f'"\\\\x{value.hex()}"',
    type(None): lambda value: "NULL",
}
