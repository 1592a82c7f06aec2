"""Request bodies from bytes: msgspec reads them where it can, pydantic says what is wrong.

msgspec takes half of pydantic's time, and a third where contexts come as base64. Its types are
derived from the bodies' own. It ignores unknown and duplicate keys, so they are counted: every key
costs one colon, and an object with as many keys as its text has colons has no other. A text with
more colons (one inside a string, mostly) is left to pydantic, as is all that msgspec refuses.
"""

import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from msgspec import MsgspecError
from msgspec.json import Decoder
from pydantic import TypeAdapter, ValidationError

from service.api.msgspec_types import msgspec_type
from service.api.request_bodies import (
    BatchBody,
    DecisionBody,
    HistoryBody,
    RankBody,
    RewardsBody,
    SessionBody,
    SessionPatch,
)
from service.field_types import field_name
from service.problems import Problem, ProblemCode

MOST_NAMED = 100  # things wrong with a body; lists end at the first, but unknown keys do not
LARGE = 2**20  # bytes of a body: looked at before it is parsed, and not a second time after
T = TypeVar("T", bound=Mapping[str, object])


class Body(Generic[T]):
    """A kind of request body.

    Parameters
    ----------
    kind : type
        The TypedDict that describes it.
    is_hot : bool
        Read it by msgspec where possible.
    """

    def __init__(self, kind: type[T], *, is_hot: bool = False) -> None:
        self.adapter: TypeAdapter[T] = TypeAdapter(kind)
        self._decoder = Decoder(msgspec_type(kind)) if is_hot else None

    def read(self, body: bytes) -> T:
        """Parse and check a body.

        Raises
        ------
        Problem
            400 malformed_json or duplicate_key; 422 with the offending field.
        """
        asked = self.read_quickly(body)
        if asked is None:
            asked = self.parse(body)
            refuse_duplicates(body, count_keys(asked))
        return asked

    def read_quickly(self, body: bytes) -> T | None:
        """Parse by msgspec; None where pydantic has to look."""
        if self._decoder is None:
            return None
        try:
            asked: T = self._decoder.decode(body)
        except (MsgspecError, UnicodeError, RecursionError):
            return None
        return asked if body.count(b":") == count_keys(asked) else None

    def parse(self, body: bytes) -> T:
        """Parse by pydantic, duplicate keys allowed; raises what `read` raises."""
        try:
            return self.adapter.validate_json(body)
        except ValidationError as error:
            raise _problem(error, body) from None


def refuse_duplicates(body: bytes, n_keys: int) -> None:
    """Raise 400 duplicate_key naming the first duplicate key, where there is one.

    Parameters
    ----------
    body : bytes
        Valid JSON.
    n_keys : int
        Keys of all objects in the parsed body together.
    """
    if body.count(b":") != n_keys:
        json.loads(body, object_pairs_hook=_pairs)


def count_keys(parsed: Mapping[str, object]) -> int:
    """Count the keys of an object and of the objects in it, as bodies nest them."""
    n_keys = len(parsed)
    for name, part in parsed.items():
        if type(part) is dict:
            n_keys += count_keys(part)
        elif type(part) is list and part and type(part[0]) is dict:
            n_keys += sum(map(len if name == "rewards" else count_keys, part))
    return n_keys


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise Problem(
                ProblemCode.DUPLICATE_KEY, f"the key {key!r} stands twice in one object", key
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
_BRANCHES = {"list[list[float]]", "EncodedContexts"}
_UNION = "contexts"  # of two types: what one of them says about a part tells more


def _problem(error: ValidationError, body: bytes) -> Problem:
    n = error.error_count()
    if n > MOST_NAMED:
        return Problem(
            ProblemCode.INVALID, f"{n} things are wrong with this, too many to name", "body"
        )
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
    named = [(_field(detail["loc"]), detail) for detail in details]
    errors: list[dict[str, Any]] = [
        {"code": _CODES.get(d["type"], ProblemCode.INVALID), "field": name, "detail": d["msg"]}
        for name, d in named
        if not (name.endswith(_UNION) and any(_is_within(other, name) for other, _ in named))
    ][:20]
    top = errors[0]
    several = errors if len(errors) > 1 else None
    detail = f"{top['field']}: {top['detail']}"
    return Problem(top["code"], detail, top["field"], errors=several)


def _is_within(name: str, whole: str) -> bool:
    return name.startswith((f"{whole}[", f"{whole}."))


def _field(location: tuple[int | str, ...]) -> str:
    return field_name(tuple(part for part in location if part not in _BRANCHES)) or "body"


SESSION = Body(SessionBody)
PATCH = Body(SessionPatch)
DECISION = Body(DecisionBody, is_hot=True)
REWARDS = Body(RewardsBody, is_hot=True)
BATCH = Body(BatchBody, is_hot=True)
HISTORY = Body(HistoryBody, is_hot=True)
RANK = Body(RankBody, is_hot=True)
