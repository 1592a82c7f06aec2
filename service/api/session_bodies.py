"""The types of the request bodies that create and change a session (`request_bodies.py`)."""

from typing import Annotated, Any, Literal, Required

from pydantic import (
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    Tag,
    with_config,
)
from typing_extensions import TypedDict

from service.api.request_bodies import ArmIds, Timestamp
from service.api.unions import strict
from service.base.field_types import (
    STRICT,
    Dim,
    Feature,
    Horizon,
    KeepDays,
    KeepRounds,
    Key,
    Name,
    Number,
    Refit,
    RewardMode,
    Seed,
    WaitSeconds,
)
from service.session.names import MOST_COLUMNS
from service.session.slot_clock import MOST_LATE, Totals
from service.session.trial import Mode, PlannedRounds, Policy, Share

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
    schema["examples"] = [
        {"name": "shop", "dim": 5, "horizon": 100, "seed": 1},
        {"dim": 5, "horizon": 100, "keep_rounds": 100_000, "keep_days": 90},
        {"dim": 5, "horizon": 24, "clock": {"slot_seconds": 3600, "totals": "all"}},
        {"dim": 5, "horizon": 20, "options": {"levels": True, "zero_start": False}},
        {"dim": 5, "horizon": 20, "options": {"covariates": ["rain"], "trend": True}},
    ]


@with_config(STRICT)
class ControlBody(TypedDict):
    """The session whose agent control plays."""

    session: Annotated[Key, Field(description="name or id of a session with the same dim")]


WORD_TAG, CONTROL_TAG = POLICY_TAGS = ("<word>", "<control>")


@with_config(STRICT)
class HoldoutBody(TypedDict, total=False):
    """A share of trajectories that a control policy plays, to measure what the agent adds."""

    share: Required[Share]
    policy: Annotated[
        Annotated[Policy, Tag(WORD_TAG)] | Annotated[ControlBody, Tag(CONTROL_TAG)],
        Discriminator(lambda given: CONTROL_TAG if isinstance(given, dict) else WORD_TAG),
        Field(
            description="what control plays: the request's default_arm, any arm uniformly, or the "
            "arm that another session's estimate scores best"
        ),
    ]
    planned_rounds: PlannedRounds
    guard: Annotated[
        bool,
        Field(description="default true: where lift lies below zero, control's policy plays alone"),
    ]


@with_config(STRICT)
class ClockBody(TypedDict, total=False):
    """Slots of time as the rounds of the model, and totals of slots as rewards."""

    slot_seconds: Annotated[
        Required[int], Field(ge=1, le=10**9, description="length of a slot; lags count slots")
    ]
    start: Annotated[
        Timestamp,
        Field(
            description="when the first slot begins, a whole second; by default the last multiple "
            "of slot_seconds since 1970"
        ),
    ]
    totals: Annotated[
        Totals,
        Field(
            description="what a reward is the total of: all trajectories together (the default), "
            "or its own trajectory"
        ),
    ]
    late_slots: Annotated[
        int,
        Field(
            ge=0,
            le=MOST_LATE,
            description="how many slots before the latest one still take decisions; by default the "
            "horizon",
        ),
    ]


ModeField = Annotated[
    Mode, Field(description="shadow: the caller plays forced_arm, and the agent's choice is logged")
]


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
    mode: ModeField
    holdout: HoldoutBody | None
    keep_contexts: Annotated[
        bool,
        Field(
            description="keep the contexts of all arms, so that other agents can be evaluated on "
            "an export; default false"
        ),
    ]
    clock: Annotated[
        ClockBody | None,
        Field(description="rounds by the clock: any number of decisions a slot of time"),
    ]
    keep_rounds: KeepRounds | None
    keep_days: KeepDays | None


@with_config(strict({"archived": True}, {"keep_days": 90, "keep_rounds": None}))
class SessionPatch(TypedDict, total=False):
    """The changes to a session."""

    name: Name
    archived: bool
    mode: ModeField
    options: Annotated[
        dict[str, Any],
        Field(
            max_length=100, description="options that mean no new model; others stay as they are"
        ),
    ]
    reward_wait_seconds: WaitSeconds
    guard: Annotated[
        Literal["armed", "off"],
        Field(description="armed: the agent plays again, and a new comparison begins"),
    ]
    keep_rounds: KeepRounds | None
    keep_days: KeepDays | None


@with_config(strict({"name": "shop with a season", "options": {"seasonality": [{"period": 24}]}}))
class SessionCopy(TypedDict, total=False):
    """The settings that a copy has instead of its source's."""

    name: Annotated[
        Name | None,
        Field(description="unique name; with it, repeating the request makes no second copy"),
    ]
    algorithm: Annotated[str, Field(description="name of an algorithm, see GET /v1/algorithms")]
    horizon: Horizon
    seed: Seed
    options: Annotated[
        dict[str, Any], Field(max_length=100, description="options of the algorithm, all of them")
    ]
    reward_wait_seconds: WaitSeconds
    default_reward: Annotated[
        Number | None, Field(description="reward of a round that has none after the wait")
    ]
    refit: Refit
    keep_rounds: KeepRounds | None
    keep_days: KeepDays | None
