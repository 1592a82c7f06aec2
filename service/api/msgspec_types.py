"""Translation of the request bodies' pydantic types into types for msgspec."""

from types import UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType, is_typeddict

from service.api.request_bodies import ENCODED, SLOW

LIMITS = ("ge", "le", "gt", "lt", "min_length", "max_length", "pattern")


def msgspec_type(kind: Any) -> Any:
    """Translate a type with pydantic's annotations into one that msgspec parses.

    Members of a TypedDict that have a custom validator are left out. msgspec ignores them like
    unknown keys, so `body_parsing` passes a body with such a member to pydantic.
    """
    if isinstance(kind, TypeAliasType):
        return msgspec_type(kind.__value__)
    if is_typeddict(kind):
        members = {}
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if not _has_validator(hint):
                must = Required if name in kind.__required_keys__ else NotRequired
                members[name] = must[msgspec_type(hint)]
        return TypedDict(kind.__name__, members)  # type: ignore[operator]
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return bytes if ENCODED in parts else _limited(msgspec_type(parts[0]), parts[1:])
    if origin in (Required, NotRequired):
        return msgspec_type(parts[0])
    if origin in (Union, UnionType):
        hot = [part for part in parts if SLOW not in get_args(part)]
        return Union[tuple(map(msgspec_type, hot))]  # noqa: UP007
    if origin is dict:
        return dict[msgspec_type(parts[0]), msgspec_type(parts[1])]  # type: ignore[misc]
    return list[msgspec_type(parts[0])] if origin is list else kind  # type: ignore[misc]


def _limited(kind: Any, annotations: tuple[Any, ...]) -> Any:
    """Put the limits of pydantic's annotations on `kind`."""
    limits: dict[str, Any] = {}
    for info in annotations:
        for limit in info.metadata if isinstance(info, FieldInfo) else ():
            limits |= {name: getattr(limit, name) for name in LIMITS if hasattr(limit, name)}
    return Annotated[kind, Meta(**limits)] if limits else kind


def _has_validator(kind: Any) -> bool:
    return any(isinstance(part, BeforeValidator) or _has_validator(part) for part in get_args(kind))
