"""The types of the request bodies.

Numbers are strict (no strings, no NaN), and unknown fields are refused. `body_parsing` parses bytes
into these types, and /openapi.json shows their schema.
"""

import re
from collections.abc import Mapping, Sequence
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


def _union_kind(
    title: str, meaning: str, *required: str, absent: Sequence[str] = ()
) -> dict[str, Any]:
    """Return one kind of a body, for `unions.as_union`: its members beside those of all kinds.

    Parameters
    ----------
    title, meaning : str
    *required : str
        Members that are present, and not null.
    absent : sequence of str
        Members that this kind has not, beside those that other kinds require.
    """
    return {
        "title": title,
        "description": meaning,
        "required": [*required],
        "x-absent": [*absent],
        # what a validator needs of it, beside the members that are described once
        "properties": {name: {"not": {"type": "null"}} for name in required},
    }


def _strict(*examples: Mapping[str, Any], kinds: Sequence[dict[str, Any]] = ()) -> ConfigDict:
    """Return `STRICT` with examples, and with the kinds that a body is exactly one of."""
    schema: dict[str, Any] = {"examples": [*examples]}
    if kinds:
        schema["oneOf"] = [*kinds]
    return ConfigDict(**STRICT, json_schema_extra=schema)


SESSION_DEFAULTS: dict[str, Any] = {
    "algorithm": "anytime",
    "name": None,
    "seed": None,
    "options": {},
    "reward_mode": "single",
    "reward_wait_seconds": 0.0,
    "default_reward": None,
    "refit": "background",
}


def _describe_session(schema: dict[str, Any]) -> None:
    for name, default in SESSION_DEFAULTS.items():
        schema["properties"][name]["default"] = default
    schema["examples"] = [{"name": "shop", "dim": 5, "horizon": 100, "seed": 1}]


@with_config(ConfigDict(**STRICT, json_schema_extra=_describe_session))
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


@with_config(_strict({"archived": True}))
class SessionPatch(TypedDict, total=False):
    """The changes to a session."""

    name: Name
    archived: bool


REWARD_KINDS = (
    _union_kind("RewardOfRound", "A value measured during a round.", "value", "round"),
    _union_kind(
        "RewardOfEvent", "A value measured during a decision's round.", "value", "event_id"
    ),
    _union_kind("RewardOfSpan", "A value over some rounds.", "value", "first_round", "last_round"),
    _union_kind("RewardAtTime", "A value measured at a time.", "value", "at"),
)


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


@with_config(_strict({"round": 3, "value": 0.5}, kinds=REWARD_KINDS))
class RewardItem(RewardFields, total=False):
    """A value, and exactly one of: round, event_id, first_round with last_round, at."""

    value: Required[Number]


REWARD_LIST = _union_kind(
    *("RewardList", "Rewards that are stored all or nothing.", "rewards"),
    absent=[name for name in RewardFields.__annotations__ if name != "trajectory"],
)


@with_config(
    _strict(
        {"round": 3, "value": 0.5, "trajectory": "ann"},
        {"rewards": [{"first_round": 1, "last_round": 7, "value": 12.5}]},
        kinds=(REWARD_LIST, *REWARD_KINDS),
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


SKIP = _union_kind(
    *("SkippedDecision", "A round without action.", "skip"), absent=("arm_ids", "forced_arm")
)
SKIP["properties"] = {"skip": {"const": True}}


@with_config(
    _strict(
        {"contexts": [[0.3, -0.1], [0.2, 0.9]], "event_id": "visit-17"},
        {"skip": True, "trajectory": "ann"},
        kinds=(_union_kind("DecisionOfContexts", "A choice of one of K arms.", "contexts"), SKIP),
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


@with_config(_strict({"contexts": [[0.1, 0.4], [0.3, -0.2]], "rewards": [0.2, None]}))
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


@with_config(_strict({"contexts": [[0.3, -0.1], [0.2, 0.9]], "arm_ids": ["news", "sport"]}))
class RankBody(TypedDict, total=False):
    """Contexts to score."""

    contexts: Required[Contexts]
    trajectory: Annotated[
        Key | None, Field(description="the trajectory whose next decision is previewed")
    ]
    arm_ids: ArmIds | None


@with_config(
    _strict(
        {"session_id": "shop", "reward": {"round": 3, "value": 0.5}},
        kinds=(
            _union_kind("BatchDecision", "A decision of a session.", "decision"),
            _union_kind("BatchReward", "One reward, or several, of a session.", "reward"),
        ),
    )
)
class BatchItem(TypedDict, total=False):
    """A decision or a reward of one session: exactly one of `decision` and `reward`."""

    session_id: Annotated[Required[Key], Field(description="id or name of the session")]
    decision: DecisionBody
    reward: RewardsBody


@with_config(_strict({"items": [{"session_id": "shop", "decision": {"skip": True}}]}))
class BatchBody(TypedDict):
    """Decisions and rewards of many sessions."""

    items: Annotated[list[BatchItem], Field(min_length=1, max_length=1000), FailFast()]
