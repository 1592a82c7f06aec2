"""A session's settings, and problem codes. `make answers` writes this file.

Sources: `service/session/spec.py`, `service/base/problems.py`; /openapi.json describes the same.
"""

from typing import Any, Literal, Required, TypedDict

from .setting_parts import ClockAnswer, HoldoutAnswer

# fmt: off
ProblemCode = Literal[
    "malformed_http", "malformed_json", "duplicate_key", "http_error", "unauthorized", "forbidden",
    "unknown_route", "unknown_session", "unknown_trajectory", "unknown_event", "unknown_reward",
    "unknown_feature", "unknown_key", "unknown_webhook", "method_not_allowed", "header_timeout",
    "body_timeout", "archived", "session_conflict", "in_use", "key_not_in_use", "limit_reached",
    "event_conflict", "reward_conflict", "no_corrections", "round_dropped", "fits_by_epochs",
    "duplicate_arm_ids", "foreign_host", "foreign_origin", "unsupported_media_type",
    "body_too_large", "invalid", "missing", "unknown_field", "unknown_parameter", "ambiguous",
    "out_of_range", "not_finite", "wrong_shape", "ragged", "no_column", "no_arms",
    "unknown_algorithm", "oracle_refused", "bad_option", "unknown_round", "trajectory_needed",
    "fit_too_large", "future_round", "last_before_first", "interval_open", "span_in_sum_mode",
    "at_in_single_mode", "bad_import", "too_many_requests", "headers_too_large", "internal",
    "fit_pending", "history_pending", "overloaded", "erasure_pending", "too_many_connections",
    "too_many_exports", "too_many_streams", "storage_busy", "storage_full", "storage_readonly",
    "storage_failing", "storage_not_durable", "outcome_unknown", "storage_unreachable",
    "unreachable",
]
# fmt: on


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
    reward_unit: str | None
    refit: Literal["background", "blocking"]
    keep_contexts: bool
    keep_rounds: int | None
    keep_days: float | None
    features: list[str] | None
    products: list[list[str]] | None
    repetition: int | None
    categories: Literal["one_hot", "hashed"]
    arms: list[str] | None
    mode: Literal["live", "shadow"]
    holdout: HoldoutBody | None
    clock: ClockBody | None


class SettingChanges(TypedDict, total=False):
    """What may change of a session."""

    options: dict[str, Any]
    reward_wait_seconds: float
    reward_unit: str | None
    keep_rounds: int | None
    keep_days: float | None
    mode: Literal["live", "shadow"]
    guard: Literal["armed", "off"]


class CopySettings(TypedDict, total=False):
    """What a copy may have instead of its source's."""

    algorithm: str
    horizon: int
    seed: int | None
    options: dict[str, Any]
    reward_wait_seconds: float
    default_reward: float | None
    reward_unit: str | None
    refit: Literal["background", "blocking"]
    keep_rounds: int | None
    keep_days: float | None
    products: list[list[str]] | None
    repetition: int | None


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
    reward_unit: str | None
    refit: Literal["background", "blocking"]
    keep_contexts: bool
    keep_rounds: int | None
    keep_days: float | None
    features: list[str] | None
    products: list[list[str]] | None
    repetition: int | None
    categories: Literal["one_hot", "hashed"]
    arms: list[str] | None
    mode: Literal["live", "shadow"]
    holdout: HoldoutAnswer | None
    guard: Literal["off", "armed", "tripped"]
    clock: ClockAnswer | None
