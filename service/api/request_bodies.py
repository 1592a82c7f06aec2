"""The types of the request bodies.

Numbers are strict (no strings, no NaN), and unknown fields are refused. `body_parsing` parses bytes
into these types, and /openapi.json shows their schema.
"""

import re
from typing import Annotated, Any, Literal, Required

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, FailFast, Field, with_config
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
)

MOST_ARMS = 100_000
ENCODED = object()  # marks base64 text; a parser may return the text or the decoded bytes
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _rfc_3339(value: Any) -> Any:
    if isinstance(value, str) and RFC_3339.fullmatch(value):
        return value
    raise ValueError("a time is RFC 3339 with an offset, like 2026-01-31T12:00:00+01:00")


Timestamp = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_rfc_3339)]
# FailFast: without it, pydantic makes an error object for every bad element, gigabytes of them
Row = Annotated[list[float], FailFast()]
ContextRows = TypeAliasType(
    "ContextRows", Annotated[list[Row], Field(max_length=MOST_ARMS), FailFast()]
)

ArmIds = TypeAliasType("ArmIds", Annotated[list[Key], FailFast()])


@with_config(STRICT)
class SessionBody(TypedDict, total=False):
    """The settings of a new session."""

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
    """The changes to a session."""

    name: Name
    archived: bool


def _with(*names: str) -> dict[str, Any]:
    """Return a JSON schema: these members are present, and none of them is null."""
    return {"required": [*names], "properties": {name: {"not": {"type": "null"}} for name in names}}


def _strict(**schema: Any) -> ConfigDict:
    """Return `STRICT` with JSON schema keywords that types cannot express."""
    return ConfigDict(**STRICT, json_schema_extra=schema)


WHEN = (("round",), ("event_id",), ("first_round", "last_round"), ("at",))


class RewardFields(TypedDict, total=False):
    """The members of a reward beside its value."""

    trajectory: Key | None
    round: int | None
    event_id: EventId | None
    first_round: int | None
    last_round: int | None
    at: Annotated[Timestamp | None, Field(description="RFC 3339 with offset; sum mode only")]
    reward_id: Annotated[EventId | None, Field(description="makes a retry safe")]


@with_config(_strict(oneOf=[_with(*names) for names in WHEN]))
class RewardItem(RewardFields, total=False):
    """A value, and exactly one of: round, event_id, first_round with last_round, at."""

    value: Required[Number]


@with_config(_strict(oneOf=[_with("rewards"), *(_with("value", *names) for names in WHEN)]))
class RewardsBody(RewardFields, total=False):
    """One reward, or a list of rewards that is stored all or nothing."""

    value: Number
    rewards: Annotated[list[RewardItem], Field(min_length=1, max_length=100_000), FailFast()]


Size = Annotated[int, Field(ge=0, le=2**31)]
Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"}), ENCODED]


@with_config(STRICT)
class EncodedContexts(TypedDict):
    """Contexts as base64 of little-endian float64 in row-major order."""

    dtype: Literal["float64"]
    shape: Annotated[list[Size], Field(min_length=2, max_length=2)]
    data: Base64


Contexts = Annotated[
    ContextRows | EncodedContexts,
    Field(description="K rows of dim numbers, or base64 float64", union_mode="smart"),
]


@with_config(
    _strict(anyOf=[_with("contexts"), {**_with("skip"), "properties": {"skip": {"const": True}}}])
)
class DecisionBody(TypedDict, total=False):
    """A round to decide: its contexts, and rewards of earlier rounds."""

    contexts: Contexts | None
    trajectory: Key | None
    event_id: Annotated[EventId | None, Field(description="makes a retry safe")]
    arm_ids: Annotated[ArmIds | None, Field(description="one an arm, all different")]
    rewards: Annotated[list[RewardItem], Field(max_length=100_000), FailFast()]
    forced_arm: Annotated[int | None, Field(description="what was shown was decided elsewhere")]
    skip: Annotated[bool, Field(description="a round without action")]


ImportId = Annotated[Name, Field(max_length=200)]


@with_config(STRICT)
class HistoryBody(TypedDict, total=False):
    """Logged rounds in order: selected contexts, and rewards."""

    contexts: Annotated[Required[Contexts], Field(description="selected contexts, a round a row")]
    rewards: Annotated[
        list[Number | None], Field(description="a round each; null: not known"), FailFast()
    ]
    trajectory: Key | None
    import_id: Annotated[ImportId | None, Field(description="makes a retry safe")]


@with_config(STRICT)
class RankBody(TypedDict, total=False):
    """Contexts to score."""

    contexts: Required[Contexts]
    trajectory: Annotated[Key | None, Field(description="whose next round is meant")]
    arm_ids: ArmIds | None


@with_config(_strict(oneOf=[_with("decision"), _with("reward")]))
class BatchItem(TypedDict, total=False):
    """A decision or a reward of one session: exactly one of `decision` and `reward`."""

    session_id: Required[Key]
    decision: DecisionBody
    reward: RewardsBody


@with_config(STRICT)
class BatchBody(TypedDict):
    """Decisions and rewards of many sessions."""

    items: Annotated[list[BatchItem], Field(min_length=1, max_length=1000), FailFast()]
