"""The types of the request bodies.

Numbers are strict (no strings, no NaN), and unknown fields are refused. `body_parsing` parses bytes
into these types, and /openapi.json shows their schema.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Required

from pydantic import ConfigDict, Discriminator, FailFast, Field, Tag, with_config
from typing_extensions import TypeAliasType, TypedDict

from service.base.field_types import (
    LARGEST,
    MOST_COVARIATES,
    STRICT,
    ArmIds,
    EventId,
    GivenCovariates,
    Key,
    KeyInPath,
    Name,
    Number,
    Timestamp,
)
from service.session.spec import DEFAULTS, REQUIRED, members

REF = "#/components/schemas/"
NULL = {"type": "null"}


def union_kind(
    title: str, meaning: str, *required: str, absent: Sequence[str] = ()
) -> dict[str, Any]:
    """Return one kind of a body, for `as_union`: its members, and those that it must not have."""
    return {
        "title": title,
        "description": meaning,
        "required": [*required],
        "x-absent": [*absent],
        # what a validator needs of it, beside the members that are described once
        "properties": {name: {"not": {"type": "null"}} for name in required},
    }


def strict(*examples: Mapping[str, Any], kinds: Sequence[dict[str, Any]] = ()) -> ConfigDict:
    """Return `STRICT` with examples, and with the kinds that a body is exactly one of."""
    schema: dict[str, Any] = {"examples": [*examples]}
    if kinds:
        schema["oneOf"] = [*kinds]
    return ConfigDict(**STRICT, json_schema_extra=schema)


def as_union(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a body as a union of its kinds (`oneOf`); other schemas as they are.

    A body's type has all its members, and its schema the kinds that it is exactly one of. That is
    exact, but code generators make of it types in which everything is optional. So `definitions`
    gets the schema of each kind, by its title.
    """
    if "oneOf" not in schema or "properties" not in schema:
        return schema
    kinds = schema["oneOf"]
    of_any = {name for kind in kinds for name in kind["required"]}
    for kind in kinds:
        others = {*of_any, *kind["x-absent"]} - {*kind["required"]}
        properties = {}
        for name, member in schema["properties"].items():
            if name in kind["required"]:
                constant = kind["properties"][name]
                properties[name] = _not_null(member) | ({} if "not" in constant else constant)
            elif name not in others:
                properties[name] = member
            elif name not in kind["x-absent"] and NULL in member.get("anyOf", ()):
                properties[name] = {**NULL, "description": "another kind's"}
        definitions[kind["title"]] = {
            "type": "object",
            "title": kind["title"],
            "description": kind["description"],
            "properties": properties,
            "required": sorted({*schema.get("required", ()), *kind["required"]}),
            "additionalProperties": False,
        }
    kept = {key: schema[key] for key in ("title", "description", "examples")}
    return {**kept, "oneOf": [{"$ref": REF + kind["title"]} for kind in kinds]}


def _not_null(member: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a member that is not null."""
    parts = [part for part in member.get("anyOf", ()) if part != NULL]
    if len(parts) != 1:
        return {**member, "anyOf": parts} if parts else member
    rest = {key: value for key, value in member.items() if key != "anyOf"}
    return {**parts[0], **rest}


MAX_ARMS = 100_000
MAX_FEATURES = 10_000  # of a context with names
SLOW = object()  # marks a part of a union that is left to pydantic
ENCODED = object()  # marks base64 text; a parser may return the text or the decoded bytes

# FailFast: without it, pydantic makes an error object for every bad element, gigabytes of them
# strict by itself: a type with a name does not inherit the configuration of the body
ContextRow = Annotated[list[Annotated[float, Field(strict=True, allow_inf_nan=False)]], FailFast()]
ContextRows = TypeAliasType(
    "ContextRows", Annotated[list[ContextRow], Field(max_length=MAX_ARMS), FailFast()]
)


REWARD_KINDS = (
    union_kind("RewardOfRound", "A value measured during a round.", "value", "round"),
    union_kind("RewardOfEvent", "A value measured during a decision's round.", "value", "event_id"),
    union_kind("RewardOfSpan", "A value over some rounds.", "value", "first_round", "last_round"),
    union_kind("RewardAtTime", "A value measured at a time.", "value", "at"),
    union_kind("RewardOfInterval", "A value over an interval of time.", "value", "from", "to"),
    union_kind("RewardReplacing", "A value that replaces another one.", "value", "replaces"),
)


# written as a call, because `from` is a word of Python
Interval = TypedDict(
    "Interval",
    {
        "from": Annotated[
            Timestamp | None,
            Field(description="start of an interval of time, RFC 3339 with an offset"),
        ],
        "to": Annotated[
            Timestamp | None, Field(description="its end, not included, which is not ahead of now")
        ],
    },
    total=False,
)


class RewardFields(Interval, total=False):
    """The members of a reward beside its value."""

    trajectory: Annotated[KeyInPath | None, Field(description='default: that of the body, or ""')]
    round: Annotated[int | None, Field(description="the round that was measured, from 1")]
    event_id: Annotated[EventId | None, Field(description="the decision of that round")]
    first_round: Annotated[int | None, Field(description="first round of a span")]
    last_round: Annotated[int | None, Field(description="last round of a span, included")]
    at: Annotated[
        Timestamp | None,
        Field(description='time of the reward, RFC 3339 with an offset; in reward_mode "sum" only'),
    ]
    reward_id: Annotated[EventId | None, Field(description="idempotency key of the reward")]
    replaces: Annotated[
        EventId | None, Field(description="reward_id of the value that this one corrects")
    ]
    correct: Annotated[
        bool | None, Field(description="true: this corrects the value that the rounds have already")
    ]
    covariates: Annotated[
        GivenCovariates | None,
        Field(
            description="covariates of the session, measured with the value: sums over its rounds, "
            "in place of what their decisions said"
        ),
    ]


@with_config(strict({"round": 3, "value": 0.5}, kinds=REWARD_KINDS))
class RewardItem(RewardFields, total=False):
    """A value, and exactly one way to say when it was measured, or what it replaces.

    The ways are: round, event_id, first_round with last_round, from with to, at, replaces.
    """

    value: Required[Number]


REWARD_LIST = union_kind(
    *("RewardList", "Rewards that are stored all or nothing.", "rewards"),
    absent=[name for name in RewardFields.__annotations__ if name != "trajectory"],
)


@with_config(
    strict(
        {"round": 3, "value": 0.5, "trajectory": "ann"},
        {"round": 3, "value": 0.5, "covariates": {"rain": 1.5}},
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


SKIP = union_kind(
    *("SkippedDecision", "A round without action.", "skip"),
    absent=("arm_ids", "forced_arm", "default_arm"),
)
SKIP["properties"] = {"skip": {"const": True}}


@with_config(
    strict(
        {"contexts": [[0.3, -0.1], [0.2, 0.9]], "event_id": "visit-17"},
        {"skip": True, "trajectory": "ann"},
        {"contexts": [[0.3, -0.1], [0.2, 0.9]], "covariates": {"rain": 1.5}},
        kinds=(union_kind("DecisionOfContexts", "A choice of one of K arms.", "contexts"), SKIP),
    )
)
class DecisionBody(TypedDict, total=False):
    """A round to decide: its contexts, and rewards of earlier rounds."""

    contexts: Contexts | None
    trajectory: Annotated[KeyInPath | None, Field(description='sequence of rounds; default ""')]
    event_id: Annotated[EventId | None, Field(description="idempotency key of the decision")]
    arm_ids: Annotated[ArmIds | None, Field(description="one id per arm, all different")]
    rewards: Annotated[
        list[RewardItem],
        Field(max_length=100_000, description="rewards of earlier rounds, stored first"),
        FailFast(),
    ]
    forced_arm: Annotated[
        int | Key | None,
        Field(description="index or id of the arm that was shown, if something else chose it"),
    ]
    default_arm: Annotated[
        int | Key | None,
        Field(description="index or id of the arm that control plays, in a session with a holdout"),
    ]
    skip: Annotated[bool, Field(description="true for a round without action")]
    covariates: Annotated[
        GivenCovariates | None,
        Field(description="covariates of the session in this round; no score depends on them"),
    ]
    at: Annotated[Timestamp | None, Field(description="when, in a session with a clock; or now")]


# strict by itself, as a context is
_Told = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]
HistoryCovariates = TypeAliasType(
    "HistoryCovariates",
    Annotated[
        dict[Key, Annotated[list[_Told | None], FailFast()]],
        Field(max_length=MOST_COVARIATES, description="Covariates of logged rounds, by name."),
    ],
)
ImportId = Annotated[Name, Field(max_length=200)]


@with_config(
    strict(
        {"contexts": [[0.1, 0.4], [0.3, -0.2]], "rewards": [0.2, None]},
        {"contexts": [[0.1, 0.4]], "rewards": [0.2], "covariates": {"rain": [1.5]}},
    )
)
class HistoryBody(TypedDict, total=False):
    """Logged rounds in order: selected contexts, and rewards."""

    contexts: Annotated[
        Required[Contexts],
        Field(description="the selected context of each round, one row per round"),
    ]
    rewards: Annotated[
        list[Number | None],
        Field(description="one per round, with a clock that of its slot; null if it is unknown"),
        FailFast(),
    ]
    arm_ids: Annotated[
        list[Key | None] | None, Field(description="one per round: its arm; null: unknown")
    ]
    covariates: Annotated[
        HistoryCovariates | None,
        Field(description="covariates of the session, each with one number, or null, per round"),
    ]
    at: Annotated[
        list[Timestamp] | None,
        Field(
            description="when each round was, none before the one before it; by default now; a "
            "clock needs it"
        ),
        FailFast(),
    ]
    trajectory: KeyInPath | None
    import_id: Annotated[ImportId | None, Field(description="idempotency key of the body")]


@with_config(strict({"contexts": [[0.3, -0.1], [0.2, 0.9]], "arm_ids": ["news", "sport"]}))
class RankBody(TypedDict, total=False):
    """Contexts to score."""

    contexts: Required[Contexts]
    trajectory: Annotated[
        KeyInPath | None, Field(description="the trajectory whose next decision is previewed")
    ]
    arm_ids: ArmIds | None


@with_config(
    strict(
        {"session_id": "shop", "reward": {"round": 3, "value": 0.5}},
        kinds=(
            union_kind("BatchDecision", "A decision of a session.", "decision"),
            union_kind("BatchReward", "One reward, or several, of a session.", "reward"),
        ),
    )
)
class BatchItem(TypedDict, total=False):
    """A decision or a reward of one session: exactly one of `decision` and `reward`."""

    session_id: Annotated[Required[Key], Field(description="id or name of the session")]
    decision: DecisionBody
    reward: RewardsBody


@with_config(strict({"items": [{"session_id": "shop", "decision": {"skip": True}}]}))
class BatchBody(TypedDict):
    """Decisions and rewards of many sessions."""

    items: Annotated[list[BatchItem], Field(min_length=1, max_length=1000), FailFast()]


def _body(title: str, meaning: str, members: dict[str, Any], *examples: dict[str, Any]) -> Any:
    """Return the type of a body; the members that are required are those of `given`."""
    body: Any = TypedDict(title, members, total=False)  # type: ignore[misc]
    body.__doc__ = meaning

    def describe(schema: dict[str, Any]) -> None:
        schema["examples"] = [*examples]
        if title == "SessionBody":
            for name, member in schema["properties"].items():
                if DEFAULTS.get(name, None) is not REQUIRED:
                    member["default"] = DEFAULTS.get(name)

    return with_config(ConfigDict(**STRICT, json_schema_extra=describe))(body)


def _name(description: str) -> Any:
    return Annotated[Name | None, Field(description=description)]


SessionBody = _body(
    "SessionBody",
    "The settings of a new session.",
    {
        "name": _name("unique name; with it, repeating the request creates no second session"),
        **{
            name: Required[kind] if DEFAULTS[name] is REQUIRED else kind
            for name, kind in members("at_creation")
        },
    },
    {"name": "shop", "dim": 5, "horizon": 100, "seed": 1},
    {"dim": 5, "horizon": 100, "keep_rounds": 100_000, "keep_days": 90},
    {"dim": 5, "horizon": 24, "clock": {"slot_seconds": 3600, "totals": "all"}},
    {"dim": 5, "horizon": 20, "options": {"levels": True, "zero_start": False}},
    {"dim": 5, "horizon": 20, "options": {"covariates": ["rain"], "trend": True}},
)
SessionPatch = _body(
    "SessionPatch",
    "The changes to a session.",
    {"name": Name, "archived": bool, **dict(members("changeable"))},
    {"archived": True},
    {"keep_days": 90, "keep_rounds": None},
)
SessionCopy = _body(
    "SessionCopy",
    "The settings that a copy has instead of its source's.",
    {
        "name": _name("unique name; with it, repeating the request makes no second copy"),
        **dict(members("copyable")),
    },
    {"name": "shop with a season", "options": {"seasonality": [{"period": 24}]}},
)
