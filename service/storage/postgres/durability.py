"""Settings of PostgreSQL with which it may lose what it said was committed."""

from collections.abc import Iterable
from typing import Any

from service.base.problems import ProblemCode, Unavailable


def may_lose(off: Iterable[str]) -> str:
    """Say which settings must not be off."""
    names = " and ".join(off)
    return f"{names} must not be off in this database: what was answered could be lost"


def check_settings(rows: Iterable[tuple[Any, ...]]) -> None:
    """Check the rows of the query ``settings_now``: names and values.

    Raises
    ------
    Unavailable
        503 storage_not_durable: one of them is off.
    """
    off = [str(name) for name, value in rows if value == "off"]
    if off:
        detail = f"{may_lose(off)}; nothing was written"
        raise Unavailable(ProblemCode.STORAGE_NOT_DURABLE, detail)
