"""The types of the answers on sessions, for /openapi.json."""

from typing import Any, Literal

from pydantic import BaseModel

from lhb_engine.agents.base import Deciding
from service.api.lift_types import HoldoutAnswer
from service.api.response_types import Page
from service.base.field_types import Refit, RewardMode
from service.session.slot_clock import Totals
from service.session.trial import Guard, Mode


class ClockAnswer(BaseModel):
    """The slots of a session, and how many of them have begun."""

    slot_seconds: int
    start: str
    totals: Totals
    late_slots: int
    n_slots: int


class SessionAnswer(BaseModel):
    """A session."""

    id: str
    name: str | None
    algorithm: str
    dim: int
    horizon: int
    seed: int
    options: dict[str, Any]
    reward_mode: RewardMode
    reward_wait_seconds: float
    default_reward: float | None
    refit: Refit
    features: list[str] | None
    categories: Literal["one_hot", "hashed"]
    arms: list[str] | None
    mode: Mode
    holdout: HoldoutAnswer | None
    keep_contexts: bool
    clock: ClockAnswer | None
    guard: Guard
    keep_rounds: int | None
    keep_days: float | None
    created_at: str
    archived: bool
    n_rounds: int
    n_trajectories: int
    n_erased_rounds: int
    n_dropped_rounds: int
    dropped_to: int
    model_version: int
    fit_due: bool
    deciding: Deciding


class SessionPage(Page[SessionAnswer]):
    """A page of sessions."""
