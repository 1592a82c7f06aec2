"""Listings, page by page: a cursor, at most `limit` items, and not too many bytes of them."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Query

from service.storage.reader import PAGE_BYTES, n_bytes

Row = TypeVar("Row")
LIMIT = Query(100, ge=1, le=1000, description="items at most; fewer where they are large")
CURSOR = Query("0", pattern="^[0-9]{1,18}$", description="`next` of the page before")


def cut(
    rows: list[Row], limit: int, cursor_of: Callable[[Row], object]
) -> tuple[list[Row], str | None]:
    """One page of `rows`, which were read to one beyond it, and the cursor of the next page."""
    shown: list[Row] = []
    size = 0
    for row in rows[:limit]:
        if size > PAGE_BYTES:
            break
        shown.append(row)
        size += n_bytes(row)
    return shown, str(cursor_of(shown[-1])) if len(rows) > len(shown) else None


def page(items: list[dict[str, Any]], following: str | None) -> dict[str, Any]:
    """As it is answered."""
    return {"items": items, "next": following}
