"""The client's types of the answers: members made from rows, pages, and models for /openapi.json.

Answers are not validated against these models. A page of a listing has a cursor, at most `limit`
items, and about `PAGE_BYTES` at most.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fastapi import Query
from pydantic import BaseModel, Field, create_model
from typing_extensions import is_typeddict

from service.base.problems import ProblemCode
from service.storage.reader import PAGE_BYTES, n_bytes

T = TypeVar("T")
LIMIT = Query(
    100, ge=1, le=1000, description="maximum number of items; a page of large items has fewer"
)
CURSOR = Query("0", pattern="^[0-9]{1,18}$", description="`next` of the previous page")
# types that the client does not know
KINDS: dict[tuple[str, str], Any] = {("ProblemAnswer", "code"): ProblemCode}


def timestamp(seconds: float | None) -> str | None:
    """Format Unix seconds as RFC 3339 in UTC.

    There are always six fractional digits, so that the texts sort by time.
    """
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def members_of(kind: Any, row: Any) -> dict[str, Any]:
    """Return those members of a type of answers that a row has under the same name.

    Times become texts, and the integers that SQLite stores for true and false become these again.
    """
    return {name: shown(getattr(row, name)) for name, shown in _shown(kind) if hasattr(row, name)}


@cache
def _shown(kind: Any) -> list[tuple[str, Callable[[Any], Any]]]:
    """Return the members' names, each with the function that makes its value of a row's."""
    hints = get_type_hints(kind)
    times = {name: timestamp for name in hints if name == "at" or name.endswith("_at")}
    flags = {name: bool for name, hint in hints.items() if hint is bool}
    functions: dict[str, Callable[[Any], Any]] = {**times, **flags}
    return [(name, functions.get(name, lambda value: value)) for name in hints]


def model_of(kind: Any) -> Any:
    """Return a type with a model in the place of each type of dictionaries."""
    if is_typeddict(kind):
        return _model(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if not parts or origin is Literal:
        return kind
    models = tuple(map(model_of, parts))
    return Union[models] if origin is UnionType else origin[models]  # noqa: UP007


@cache
def page_of(kind: Any, **more: Any) -> type[BaseModel]:
    """Return the model of one page of a listing; `more` are its members beside the items."""
    members: Any = {"items": list[model_of(kind)], "next": str | None, **more}  # type: ignore[misc]
    fields: Any = {name: (member, ...) for name, member in members.items()}
    about = "One page of a listing; `next` is the cursor of the following page, or null."
    model: type[BaseModel]
    model = create_model(kind.__name__.replace("Answer", "Page"), __doc__=about, **fields)
    return model


@cache
def _model(kind: Any) -> type[BaseModel]:
    members: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        member = KINDS.get((kind.__name__, name)) or model_of(hint)
        default: Any = ...
        if name in kind.__optional_keys__:
            default = None if NoneType in get_args(hint) else Field(default_factory=NoneType)
        members[name] = member, default
    return create_model(kind.__name__, __doc__=kind.__doc__, **members)


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
