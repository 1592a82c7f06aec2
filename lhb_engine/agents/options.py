"""Options of an algorithm: each is declared with its type, default, limits and description."""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, Literal, NamedTuple, get_args, get_origin

from lhb_engine.findings.finding import Finding

MOST = 10**9
LARGEST = sys.float_info.max


class OptionError(ValueError):
    """An option is unknown or out of range; `message` says what is wrong with it."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(f"{option}: {message}")
        self.option = option
        self.message = message


class Need(NamedTuple):
    """What an option needs of `dim`, `horizon` and the other options."""

    option: str
    what: str
    is_met: Callable[[int, int, Any], bool]


def option(
    default: Any,
    description: str,
    *,
    limits: tuple[float, ...] = (),
    changeable: bool | Literal["anew"] = False,
) -> Any:
    """Declare an option.

    `limits` are the least and the largest number that it takes; a 0 before them is taken, too; a
    whole number is from 1 to a billion by default. A `changeable` one may change in a session, as
    it means no new model; one that means another, "anew", where all rows are there: the next fit
    begins from nothing.
    """
    about: dict[str, Any] = {"description": description, "limits": limits}
    if changeable:
        about["changeable"] = changeable
    if isinstance(default, list):
        return field(default_factory=list, metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Options:
    """An algorithm's options: JSON values, each with a default and a description."""

    def __post_init__(self) -> None:
        for one in fields(self):
            check(one.name, getattr(self, one.name), one.type, one.metadata["limits"])

    @property
    def model(self) -> tuple[Any, ...]:
        """The values that make it another model where they change."""
        named = (one.name for one in fields(self) if one.metadata.get("changeable") == "anew")
        return tuple(getattr(self, name) for name in named)

    def advised(self, findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the options that change if what these findings advise is added; {}: none."""
        return {}

    def says(self, finding: Finding) -> bool:
        """Whether these tell fits what a finding advises to tell."""
        return False


def check(option: str, value: Any, kind: Any, limits: tuple[float, ...]) -> None:
    """Check a value of a flag, a number, a whole number, a list of numbers, or one of some words.

    Raises `OptionError`. What is of another kind passes: the subclass of `Options` checks it.
    """
    if kind == int | None and value is not None:
        kind = int
    low, high = limits[-2:] or (1, MOST)
    message = ""
    if get_origin(kind) is Literal:
        check_among(option, value, get_args(kind))
    elif kind is bool and type(value) is not bool:
        message = "must be true or false"
    elif kind is int and (type(value) is not int or not low <= value <= high):
        range = f"of at least {low}" if high == inf else f"from {low} to {high}"
        message = f"must be a whole number {range}"
    elif kind is float and not (_is_number(value) and (low <= value <= high or value in limits)):
        message = f"must be {'0 or ' * (len(limits) > 2)}a number from {low} to {high}"
    elif kind == list[float]:
        if not isinstance(value, list | tuple):
            message = "must be a list of numbers"
        elif not all(map(_is_number, value)):
            message = "must hold finite numbers"
        elif not any(value):
            message = "the truth is required, and not all of it zero"
    if message:
        raise OptionError(option, message)


def check_among(option: str, value: object, allowed: Collection[str]) -> None:
    """Check that `value` is one of `allowed`."""
    if value not in allowed:
        raise OptionError(option, f"must be one of {', '.join(allowed)}")


def _is_number(value: object) -> bool:
    """Whether `value` is an int or float, not a bool, within the range of finite floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST <= value <= LARGEST  # exact for an int of any size; false for nan
