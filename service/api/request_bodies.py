"""The types of the request bodies.

Numbers are strict (no strings, no NaN), and unknown fields are refused. `body_parsing` parses bytes
into these types, and /openapi.json shows their schema.
"""

import re
from typing import Annotated, Any, Literal, Required

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    Tag,
    with_config,
)
from typing_extensions import TypeAliasType, TypedDict

from service.field_types import (
    STRICT,
    Dim,
    EventId,
    Feature,
    Horizon,
    Key,
    Name,
    Number,
    Refit,
    RewardMode,
    Seed,
    WaitSeconds,
)
from service.names import MOST_COLUMNS

MAX_ARMS = 100_000
MAX_FEATURES = 10_000  # of a context with names
SLOW = object()  # marks a part of a union that is left to pydantic
ENCODED = object()  # marks base64 text; a parser may return the text or the decoded bytes
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _rfc_3339(value: Any) -> Any:
    if isinstance(value, str) and RFC_3339.fullmatch(value):
        return value
    raise ValueError("a time is RFC 3339 with an offset, like 2026-01-31T12:00:00+01:00")


Timestamp = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_rfc_3339)]
# FailFast: without it, pydantic makes an error object for every bad element, gigabytes of them
# strict by itself: a type with a name does not inherit the configuration of the body
ContextRow = Annotated[list[Annotated[float, Field(strict=True, allow_inf_nan=False)]], FailFast()]
ContextRows = TypeAliasType(
    "ContextRows", Annotated[list[ContextRow], Field(max_length=MAX_ARMS), FailFast()]
)

ArmIds = TypeAliasType("ArmIds", Annotated[list[Key], FailFast()])


@with_config(STRICT)
class SessionBody(TypedDict, total=False):
    """The settings of a new session."""

    name: Annotated[
        Name | None,
        Field(description="unique name; with it, repeating the request creates no second session"),
    ]
    algorithm: Annotated[
        str, Field(description='name of an algorithm, see GET /v1/algorithms; default "anytime"')
    ]
    dim: Required[Dim]
    horizon: Required[Horizon]
    seed: Annotated[
        Seed | None,
        Field(description="seed of the session's random draws; default: drawn at random"),
    ]
    options: Annotated[
        dict[str, Any], Field(max_length=100, description="options of the algorithm")
    ]
    reward_mode: RewardMode
    reward_wait_seconds: WaitSeconds
    default_reward: Annotated[
        Number | None, Field(description="reward of a round that has none after the wait")
    ]
    refit: Refit
    features: Annotated[
        list[Feature] | None,
        Field(
            min_length=1,
            max_length=MOST_COLUMNS,
            description="names of the first columns of a context; by default they are named by the "
            "first contexts with names",
        ),
        FailFast(),
    ]
    categories: Annotated[
        Literal["one_hot", "hashed"],
        Field(
            description="where the categories of a feature go: each into a free column, or into "
            "columns that they share"
        ),
    ]
    arms: Annotated[
        ArmIds | None,
        Field(min_length=1, max_length=MOST_COLUMNS, description="arm_ids of a decision without"),
    ]


@with_config(STRICT)
class SessionPatch(TypedDict, total=False):
    """The changes to a session."""

    name: Name
    archived: bool


def _requires(*names: str) -> dict[str, Any]:
    """Return a JSON schema: these members are present, and none of them is null."""
    return {"required": [*names], "properties": {name: {"not": {"type": "null"}} for name in names}}


def _strict(**schema: Any) -> ConfigDict:
    """Return `STRICT` with JSON schema keywords that types cannot express."""
    return ConfigDict(**STRICT, json_schema_extra=schema)


WAYS_TO_NAME_ROUNDS = (("round",), ("event_id",), ("first_round", "last_round"), ("at",))


class RewardFields(TypedDict, total=False):
    """The members of a reward beside its value."""

    trajectory: Annotated[Key | None, Field(description='default: that of the body, or ""')]
    round: Annotated[int | None, Field(description="the round that was measured, from 1")]
    event_id: Annotated[EventId | None, Field(description="the decision of that round")]
    first_round: Annotated[int | None, Field(description="first round of a span")]
    last_round: Annotated[int | None, Field(description="last round of a span, included")]
    at: Annotated[
        Timestamp | None,
        Field(description='time of the reward, RFC 3339 with an offset; in reward_mode "sum" only'),
    ]
    reward_id: Annotated[EventId | None, Field(description="idempotency key of the reward")]


@with_config(_strict(oneOf=[_requires(*names) for names in WAYS_TO_NAME_ROUNDS]))
class RewardItem(RewardFields, total=False):
    """A value, and exactly one of: round, event_id, first_round with last_round, at."""

    value: Required[Number]


@with_config(
    _strict(
        oneOf=[_requires("rewards"), *(_requires("value", *names) for names in WAYS_TO_NAME_ROUNDS)]
    )
)
class RewardsBody(RewardFields, total=False):
    """One reward, or a list of rewards that is stored all or nothing."""

    value: Number
    rewards: Annotated[list[RewardItem], Field(min_length=1, max_length=100_000), FailFast()]


ArraySize = Annotated[int, Field(ge=0, le=2**31)]
Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"}), ENCODED]


@with_config(STRICT)
class EncodedContexts(TypedDict):
    """Contexts as base64 of little-endian float64 in row-major order."""

    dtype: Literal["float64"]
    shape: Annotated[list[ArraySize], Field(min_length=2, max_length=2)]
    data: Base64


def _kind(contexts: Any) -> str:
    """Return the tag of the type that contexts in a body are parsed as."""
    if isinstance(contexts, dict):
        return ENCODED_TAG
    is_named = isinstance(contexts, list) and contexts and isinstance(contexts[0], dict)
    return NAMED_TAG if is_named else ROWS_TAG


ROWS_TAG, NAMED_TAG, ENCODED_TAG = TAGS = ("<rows>", "<objects>", "<encoded>")
VALUE_OF_A_FEATURE = {"anyOf": [{"type": name} for name in ("number", "string", "boolean")]}
# any value here: an error object for each bad one would take gigabytes
NamedContext = Annotated[
    dict[str, Any],
    Field(max_length=MAX_FEATURES, json_schema_extra={"additionalProperties": VALUE_OF_A_FEATURE}),
]
NamedContexts = TypeAliasType(
    "NamedContexts", Annotated[list[NamedContext], Field(max_length=MAX_ARMS), FailFast()]
)
Contexts = Annotated[
    Annotated[ContextRows, Tag(ROWS_TAG)]
    | Annotated[NamedContexts, Tag(NAMED_TAG), SLOW]
    | Annotated[EncodedContexts, Tag(ENCODED_TAG)],
    Discriminator(_kind),
    Field(
        description="K rows of dim numbers, as lists or as base64 of float64; or K objects, each "
        "with a number or a category by name of a feature"
    ),
]


@with_config(
    _strict(
        anyOf=[
            _requires("contexts"),
            {**_requires("skip"), "properties": {"skip": {"const": True}}},
        ]
    )
)
class DecisionBody(TypedDict, total=False):
    """A round to decide: its contexts, and rewards of earlier rounds."""

    contexts: Contexts | None
    trajectory: Annotated[Key | None, Field(description='sequence of rounds; default ""')]
    event_id: Annotated[EventId | None, Field(description="idempotency key of the decision")]
    arm_ids: Annotated[ArmIds | None, Field(description="one id per arm, all different")]
    rewards: Annotated[
        list[RewardItem],
        Field(max_length=100_000, description="rewards of earlier rounds, stored first"),
        FailFast(),
    ]
    forced_arm: Annotated[
        int | None, Field(description="index of the arm that was shown, if something else chose it")
    ]
    skip: Annotated[bool, Field(description="true for a round without action")]


ImportId = Annotated[Name, Field(max_length=200)]


@with_config(STRICT)
class HistoryBody(TypedDict, total=False):
    """Logged rounds in order: selected contexts, and rewards."""

    contexts: Annotated[
        Required[Contexts],
        Field(description="the selected context of each round, one row per round"),
    ]
    rewards: Annotated[
        list[Number | None],
        Field(description="one reward per round; null if it is unknown"),
        FailFast(),
    ]
    trajectory: Key | None
    import_id: Annotated[ImportId | None, Field(description="idempotency key of the body")]


@with_config(STRICT)
class RankBody(TypedDict, total=False):
    """Contexts to score."""

    contexts: Required[Contexts]
    trajectory: Annotated[
        Key | None, Field(description="the trajectory whose next decision is previewed")
    ]
    arm_ids: ArmIds | None


@with_config(_strict(oneOf=[_requires("decision"), _requires("reward")]))
class BatchItem(TypedDict, total=False):
    """A decision or a reward of one session: exactly one of `decision` and `reward`."""

    session_id: Annotated[Required[Key], Field(description="id or name of the session")]
    decision: DecisionBody
    reward: RewardsBody


@with_config(STRICT)
class BatchBody(TypedDict):
    """Decisions and rewards of many sessions."""

    items: Annotated[list[BatchItem], Field(min_length=1, max_length=1000), FailFast()]
