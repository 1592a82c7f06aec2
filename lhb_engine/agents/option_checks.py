"""Checks of an option's value, one for each type. All `check_*` functions raise `OptionError`."""

import sys
from collections.abc import Collection
from typing import TypeGuard

from lhb_engine.agents.base import OptionError


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether `value` is an int or float, not a bool, within the range of finite floats."""
    largest = sys.float_info.max
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -largest <= value <= largest  # exact for an int of any size; false for nan


def check_number(
    option: str, value: object, low: float, high: float, *, zero: bool = False
) -> None:
    """Check that `value` is a number from `low` to `high`; `zero` allows 0 as well."""
    if not is_number(value) or not (low <= value <= high or (zero and value == 0)):
        also = "0 or " if zero else ""
        raise OptionError(option, f"must be {also}a number from {low} to {high}")


def check_whole(option: str, value: object) -> None:
    """Check that `value` is an int from 1 to a billion."""
    if type(value) is not int or not 1 <= value <= 10**9:
        raise OptionError(option, "must be a whole number from 1 to 1000000000")


def check_numbers(option: str, values: object) -> None:
    """Check that `values` is a list of finite numbers that are not all zero."""
    if not isinstance(values, list | tuple):
        raise OptionError(option, "must be a list of numbers")
    if not all(is_number(value) for value in values):
        raise OptionError(option, "must hold finite numbers")
    if not any(values):
        raise OptionError(option, "the truth is required, and not all of it zero")


def check_flag(option: str, value: object) -> None:
    """Check that `value` is a bool."""
    if type(value) is not bool:
        raise OptionError(option, "must be true or false")


def check_text(option: str, value: object, most: int) -> None:
    """Check that `value` is a text of 1 to so many letters, without zero bytes."""
    if not isinstance(value, str) or not 1 <= len(value) <= most or "\0" in value:
        detail = f"must be a text of 1 to {most} letters, without zero bytes"
        raise OptionError(option, detail)


def check_among(option: str, value: object, allowed: Collection[str]) -> None:
    """Check that `value` is one of `allowed`."""
    if value not in allowed:
        raise OptionError(option, f"must be one of {', '.join(allowed)}")
