"""Parsing of request bodies: msgspec parses valid bodies, pydantic the others.

msgspec takes half of pydantic's time, and a third for base64 contexts. `msgspec_type` derives its
types from the pydantic ones. msgspec ignores unknown and duplicate keys, so this module counts
keys: every key is followed by one colon, so a body with as many parsed keys as colons has no
ignored key. A body with more colons (usually one inside a string) goes to pydantic, as does every
body that msgspec refuses. pydantic's errors name the offending field.
"""

import json
from collections.abc import Mapping
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import Meta, MsgspecError
from msgspec.json import Decoder
from pydantic import BeforeValidator, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType, is_typeddict

from service.api.request_bodies import (
    ENCODED,
    SLOW,
    TAGS,
    BatchBody,
    DecisionBody,
    HistoryBody,
    RankBody,
    RewardsBody,
    SessionBody,
    SessionCopy,
    SessionPatch,
)
from service.base.field_types import field_name, in_words
from service.base.problems import Problem, ProblemCode
from service.session.trial import POLICY_TAGS

LIMITS = ("ge", "le", "gt", "lt", "min_length", "max_length", "pattern")
MAX_NAMED_ERRORS = 100  # errors that are listed; a list stops at its first one, unknown keys do not
# bytes; `request_body` counts the brackets of a larger body before it is parsed, and `_problem`
# does not parse it a second time to look for duplicate keys
LARGE = 2**20
T = TypeVar("T", bound=Mapping[str, object])


class BodyParser(Generic[T]):
    """The parser of the TypedDict `kind`; `is_hot`: msgspec is tried before pydantic."""

    def __init__(self, kind: type[T], *, is_hot: bool = False) -> None:
        self.adapter: TypeAdapter[T] = TypeAdapter(kind)
        self._decoder = Decoder(msgspec_type(kind)) if is_hot else None

    def read(self, body: bytes) -> T:
        """Parse and check a body; absent members get no default here.

        Raises 400 malformed_json or duplicate_key, or 422 naming the offending field.
        """
        fields = self.read_quickly(body)
        if fields is None:
            fields = self.parse(body)
            refuse_duplicates(body, count_keys(fields))
        return fields

    def read_quickly(self, body: bytes) -> T | None:
        """Parse with msgspec; return None if pydantic has to parse the body."""
        if self._decoder is None:
            return None
        try:
            fields: T = self._decoder.decode(body)
        except (MsgspecError, UnicodeError, RecursionError):
            return None
        n_colons = len(body) - len(body.replace(b":", b""))  # numbers take `count` seven times this
        # every key has its colon: as many colons as members leave none for keys further inside
        return fields if n_colons == len(fields) or n_colons == count_keys(fields) else None

    def parse(self, body: bytes) -> T:
        """Parse with pydantic; raises what `read` raises.

        Duplicate keys raise only if the body is also invalid otherwise.
        """
        try:
            return self.adapter.validate_json(body)
        except ValidationError as error:
            raise _problem(error, body) from None


def refuse_duplicates(body: bytes, n_keys: int) -> None:
    """Raise 400 duplicate_key where an object of a body has the same key twice.

    `n_keys` is the number of keys in the parsed body, over all its objects. If the text has as many
    colons, no key was dropped and the text is not parsed again.
    """
    if body.count(b":") != n_keys:
        json.loads(body, object_pairs_hook=_pairs)


def count_keys(parsed: Mapping[str, object]) -> int:
    """Count the keys of a parsed body, summed over all its objects.

    Only members that request bodies nest are visited: objects, and lists that begin with one.
    """
    n_keys = len(parsed)
    for name, part in parsed.items():
        if type(part) is dict:
            n_keys += count_keys(part)
        elif type(part) is list and part and type(part[0]) is dict:
            count = _keys_of_reward if name == "rewards" else count_keys
            # what a context holds is not checked yet: after an object may come anything
            n_keys += sum(count(each) for each in part if type(each) is dict)
    return n_keys


def _keys_of_reward(reward: Mapping[str, object]) -> int:
    covariates = reward.get("covariates")
    return len(reward) if type(covariates) is not dict else len(reward) + len(covariates)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise Problem(
                ProblemCode.DUPLICATE_KEY, f"the key {key!r} occurs twice in one object", key
            )
        out[key] = value
    return out


_CODES = {
    "missing": ProblemCode.MISSING,
    "extra_forbidden": ProblemCode.UNKNOWN_FIELD,
    "finite_number": ProblemCode.NOT_FINITE,
    "greater_than_equal": ProblemCode.OUT_OF_RANGE,
    "less_than_equal": ProblemCode.OUT_OF_RANGE,
    "less_than": ProblemCode.OUT_OF_RANGE,
    "too_long": ProblemCode.OUT_OF_RANGE,
    "greater_than": ProblemCode.OUT_OF_RANGE,
}


def _problem(error: ValidationError, body: bytes) -> Problem:
    n = error.error_count()
    if n > MAX_NAMED_ERRORS:
        return Problem(ProblemCode.INVALID, f"the body has {n} errors, too many to list", "body")
    details = error.errors(include_url=False, include_context=False, include_input=False)
    first = details[0]
    if first["type"] == "json_invalid":
        return Problem(ProblemCode.MALFORMED_JSON, first["msg"], "body")
    if len(body) < LARGE:
        try:
            json.loads(body, object_pairs_hook=_pairs)
        except Problem as duplicate:
            return duplicate
        except (ValueError, RecursionError):
            pass
    errors: list[dict[str, Any]] = []
    for one in details[:20]:
        place = tuple(part for part in one["loc"] if part not in (*TAGS, *POLICY_TAGS))
        message = in_words(one["msg"])
        if one["type"] == "extra_forbidden":
            message = "there is no field of this name here"
        code = _CODES.get(one["type"], ProblemCode.INVALID)
        errors.append({"code": code, "field": field_name(place) or "body", "detail": message})
    top = errors[0]
    several = errors if len(errors) > 1 else None
    detail = f"{top['field']}: {top['detail']}"
    return Problem(top["code"], detail, top["field"], errors=several)


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


SESSION: BodyParser[Any] = BodyParser(SessionBody)
PATCH: BodyParser[Any] = BodyParser(SessionPatch)
COPY: BodyParser[Any] = BodyParser(SessionCopy)
DECISION = BodyParser(DecisionBody, is_hot=True)
REWARDS = BodyParser(RewardsBody, is_hot=True)
BATCH = BodyParser(BatchBody, is_hot=True)
HISTORY = BodyParser(HistoryBody, is_hot=True)
RANK = BodyParser(RankBody, is_hot=True)
