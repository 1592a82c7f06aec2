"""Request bodies: what they may hold, and parsing them straight from bytes.

Numbers are strict (no strings, no NaN), unknown fields are refused, and so are duplicate keys:
every key costs one colon, so an object with as many keys as its text has colons has no duplicate,
and only texts with more of them (a colon inside a string, mostly) are looked at twice.
"""

import json
import re
from typing import Annotated, Any, Literal, Required, TypeVar

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypeAliasType, TypedDict

from service.field_types import (
    STRICT,
    Dim,
    EventId,
    Horizon,
    Key,
    Name,
    Number,
    Refit,
    RewardMode,
    Seed,
    WaitSeconds,
    field_name,
)
from service.problems import Problem, ProblemCode

MOST_ARMS = 100_000
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
MOST_NAMED = 100  # things wrong with a body; lists end at the first, but unknown keys do not
LARGE = 2**20  # bytes of a body: looked at before it is parsed, and not a second time after
T = TypeVar("T")


def _rfc_3339(value: Any) -> Any:
    if isinstance(value, str) and RFC_3339.fullmatch(value):
        return value
    raise ValueError("a time is RFC 3339 with an offset, like 2026-01-31T12:00:00+01:00")


Timestamp = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_rfc_3339)]
# the first offence is enough: one error object an element would cost gigabytes
Row = Annotated[list[float], FailFast()]
ContextRows = TypeAliasType(
    "ContextRows", Annotated[list[Row], Field(max_length=MOST_ARMS), FailFast()]
)

ArmIds = TypeAliasType("ArmIds", Annotated[list[Key], FailFast()])


@with_config(STRICT)
class SessionBody(TypedDict, total=False):
    """A new session."""

    name: Annotated[Name | None, Field(description="unique; makes creation safe to repeat")]
    algorithm: Annotated[str, Field(description="see GET /v1/algorithms; absent: anytime")]
    dim: Required[Dim]
    horizon: Required[Horizon]
    seed: Annotated[Seed | None, Field(description="absent: drawn")]
    options: Annotated[dict[str, Any], Field(max_length=100, description="of the algorithm")]
    reward_mode: RewardMode
    reward_wait_seconds: WaitSeconds
    default_reward: Number | None
    refit: Refit


@with_config(STRICT)
class SessionPatch(TypedDict, total=False):
    """What may change of a session."""

    name: Name
    archived: bool


@with_config(STRICT)
class RewardItem(TypedDict, total=False):
    """A value, and exactly one of: round, event_id, first_round with last_round, at."""

    value: Required[Number]
    trajectory: Key | None
    round: int | None
    event_id: EventId | None
    first_round: int | None
    last_round: int | None
    at: Annotated[Timestamp | None, Field(description="RFC 3339 with offset; sum mode only")]
    reward_id: Annotated[EventId | None, Field(description="makes a retry safe")]


@with_config(STRICT)
class RewardsBody(TypedDict, total=False):
    """One reward, or several: all or nothing."""

    value: Number
    trajectory: Key | None
    round: int | None
    event_id: EventId | None
    first_round: int | None
    last_round: int | None
    at: Timestamp | None
    reward_id: EventId | None
    rewards: Annotated[list[RewardItem], Field(min_length=1, max_length=100_000), FailFast()]


Size = Annotated[int, Field(ge=0, le=2**31)]


@with_config(STRICT)
class EncodedContexts(TypedDict):
    """Contexts as base64 of little-endian float64, row by row."""

    dtype: Literal["float64"]
    shape: Annotated[list[Size], Field(min_length=2, max_length=2)]
    data: str


Contexts = Annotated[
    ContextRows | EncodedContexts,
    Field(description="K rows of dim numbers, or base64 float64", union_mode="smart"),
]


@with_config(STRICT)
class DecisionBody(TypedDict, total=False):
    """A round: its contexts, and rewards of earlier rounds."""

    contexts: Contexts | None
    trajectory: Key | None
    event_id: Annotated[EventId | None, Field(description="makes a retry safe")]
    arm_ids: Annotated[ArmIds | None, Field(description="one an arm, all different")]
    rewards: Annotated[list[RewardItem], Field(max_length=100_000), FailFast()]
    forced_arm: Annotated[int | None, Field(description="what was shown was decided elsewhere")]
    skip: Annotated[bool, Field(description="a round without action")]


@with_config(STRICT)
class HistoryBody(TypedDict, total=False):
    """Logged rounds in order: what was selected, and what was measured."""

    contexts: Annotated[Required[Contexts], Field(description="selected contexts, a round a row")]
    rewards: Annotated[
        list[Number | None], Field(description="a round each; null: not known"), FailFast()
    ]
    trajectory: Key | None
    import_id: Annotated[Name | None, Field(max_length=200, description="makes a retry safe")]


@with_config(STRICT)
class RankBody(TypedDict, total=False):
    """Contexts to score."""

    contexts: Required[Contexts]
    arm_ids: ArmIds | None


@with_config(STRICT)
class BatchItem(TypedDict, total=False):
    """What to do in one session: exactly one of `decision` and `reward`."""

    session_id: Required[Key]
    decision: DecisionBody
    reward: RewardsBody


@with_config(STRICT)
class BatchBody(TypedDict):
    """Decisions and rewards of many sessions."""

    items: Annotated[list[BatchItem], Field(min_length=1, max_length=1000), FailFast()]


def parse(adapter: TypeAdapter[T], body: bytes) -> T:
    """The body as `adapter` describes it.

    Raises
    ------
    Problem
        400 malformed_json or duplicate_key; 422 with the offending field.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise _problem(error, body) from None


def refuse_duplicates(body: bytes, n_keys: int) -> None:
    """400 naming the first duplicate key, where there is one.

    Parameters
    ----------
    n_keys : int
        Keys of all objects in the parsed body together.
    """
    if body.count(b":") != n_keys:
        json.loads(body, object_pairs_hook=_pairs)


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


SESSION: TypeAdapter[SessionBody] = TypeAdapter(SessionBody)
PATCH: TypeAdapter[SessionPatch] = TypeAdapter(SessionPatch)
REWARDS: TypeAdapter[RewardsBody] = TypeAdapter(RewardsBody)
DECISION: TypeAdapter[DecisionBody] = TypeAdapter(DecisionBody)
HISTORY: TypeAdapter[HistoryBody] = TypeAdapter(HistoryBody)
BATCH: TypeAdapter[BatchBody] = TypeAdapter(BatchBody)
RANK: TypeAdapter[RankBody] = TypeAdapter(RankBody)
