"""A session's settings as dictionaries. `make answers` writes this file.

The source is `service/session/spec.py`; /openapi.json describes the same.
"""

from typing import Any, Literal, Required, TypedDict


class ControlBody(TypedDict):
    """The session whose agent control plays."""

    session: str


class HoldoutBody(TypedDict, total=False):
    """A share of trajectories that a control policy plays, to measure what the agent adds."""

    share: Required[float]
    policy: Literal["default_arm", "uniform"] | ControlBody
    planned_rounds: int
    guard: bool


class ClockBody(TypedDict, total=False):
    """Slots of time as the rounds of the model, and totals of slots as rewards."""

    slot_seconds: Required[int]
    start: str
    totals: Literal["all", "trajectory"]
    late_slots: int


class ControlAnswer(TypedDict):
    """The session whose agent control plays, by its id."""

    session: str


class HoldoutAnswer(TypedDict):
    """The share of trajectories in control, and what is played there."""

    share: float
    policy: Literal["default_arm", "uniform"] | ControlAnswer
    planned_rounds: int


class ClockAnswer(TypedDict):
    """The slots of a session, and how many of them have begun."""

    slot_seconds: int
    start: str
    totals: Literal["all", "trajectory"]
    late_slots: int
    n_slots: int


class SessionSettings(TypedDict, total=False):
    """What a session is created with, beside its name."""

    algorithm: str
    dim: Required[int]
    horizon: Required[int]
    seed: int | None
    options: dict[str, Any]
    reward_mode: Literal["single", "sum"]
    reward_wait_seconds: float
    default_reward: float | None
    refit: Literal["background", "blocking"]
    features: list[str] | None
    categories: Literal["one_hot", "hashed"]
    arms: list[str] | None
    mode: Literal["live", "shadow"]
    holdout: HoldoutBody | None
    keep_contexts: bool
    clock: ClockBody | None
    keep_rounds: int | None
    keep_days: float | None


class SettingChanges(TypedDict, total=False):
    """What may change of a session."""

    options: dict[str, Any]
    reward_wait_seconds: float
    mode: Literal["live", "shadow"]
    guard: Literal["armed", "off"]
    keep_rounds: int | None
    keep_days: float | None


class CopySettings(TypedDict, total=False):
    """What a copy may have instead of its source's."""

    algorithm: str
    horizon: int
    seed: int | None
    options: dict[str, Any]
    reward_wait_seconds: float
    default_reward: float | None
    refit: Literal["background", "blocking"]
    keep_rounds: int | None
    keep_days: float | None


class SettingsAnswer(TypedDict):
    """The settings of a session."""

    algorithm: str
    dim: int
    horizon: int
    seed: int
    options: dict[str, Any]
    reward_mode: Literal["single", "sum"]
    reward_wait_seconds: float
    default_reward: float | None
    refit: Literal["background", "blocking"]
    features: list[str] | None
    categories: Literal["one_hot", "hashed"]
    arms: list[str] | None
    mode: Literal["live", "shadow"]
    holdout: HoldoutAnswer | None
    guard: Literal["off", "armed", "tripped"]
    keep_contexts: bool
    clock: ClockAnswer | None
    keep_rounds: int | None
    keep_days: float | None
