"""Pages of listings: a cursor, at most `limit` items, and about `PAGE_BYTES` at most."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Query

from service.storage.reader import PAGE_BYTES, n_bytes

T = TypeVar("T")
LIMIT = Query(
    100, ge=1, le=1000, description="maximum number of items; a page of large items has fewer"
)
CURSOR = Query("0", pattern="^[0-9]{1,18}$", description="`next` of the previous page")


def cut(rows: list[T], limit: int, cursor_of: Callable[[T], object]) -> tuple[list[T], str | None]:
    """Cut rows, `limit + 1` of them if there are so many, to one page and the next page's cursor.

    A page of large rows has fewer than `limit`; the cursor of the last page is None.
    """
    shown: list[T] = []
    size = 0
    for row in rows[:limit]:
        if size > PAGE_BYTES:
            break
        shown.append(row)
        size += n_bytes(row)
    return shown, str(cursor_of(shown[-1])) if len(rows) > len(shown) else None


def page(items: list[dict[str, Any]], following: str | None) -> dict[str, Any]:
    """Return the members of `Page`."""
    return {"items": items, "next": following}
