"""The types of the answers, for /openapi.json. Answers are not validated against them."""

from types import NoneType
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from lhb_engine.agents.base import Deciding
from lhb_engine.estimate import LagForm
from service.api.fit_types import (
    EffectsAnswer,
    FindingAnswer,
    IntervalsAnswer,
    LagProfilesAnswer,
    LevelsAnswer,
)
from service.base.problems import ProblemCode
from service.session.due_fits import Asked
from service.session.trial import PlayedBy

Item = TypeVar("Item")
ABSENT: Any = Field(default_factory=NoneType)  # of a member that is left out, and never null


class ProblemAnswer(BaseModel):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    code: ProblemCode
    detail: str
    field: str | None
    errors: list[dict[str, str]] | None = None


class DecisionAnswer(BaseModel):
    """One decision; with a holdout or a shadow, also who chose `arm`, and the agent's choice."""

    event_id: str
    round: int
    arm: int | None
    arm_id: str | None
    scores: list[float]
    propensity: float | None
    epoch: int
    model_version: int
    next_fit_round: int | None
    explored: bool
    played_by: PlayedBy = ABSENT
    agent_arm: int | None = None


class AcceptedAnswer(BaseModel):
    """How many rewards were new, and how many had been received before."""

    accepted: int
    repeated: int


class ItemAnswer(BaseModel):
    """One item of a batch: its status, and the answer that its own route would give."""

    status: int
    decision: DecisionAnswer = ABSENT
    reward: AcceptedAnswer = ABSENT
    problem: ProblemAnswer = ABSENT


class BatchAnswer(BaseModel):
    """Answers in the order of the items."""

    items: list[ItemAnswer]


class HistoryAnswer(BaseModel):
    """The rounds that were appended, and how many rewards they have."""

    first_round: int
    last_round: int
    rewards: int


class RankAnswer(BaseModel):
    """Scores of arms, and the arms from best to worst."""

    scores: list[float]
    ranking: list[int]
    arm_ids: list[str] | None
    model_version: int
    deciding: Deciding


class WindowAnswer(BaseModel):
    """The rounds that a fit reads, its number of lags, and the round after which it is due."""

    epoch: int
    first: int
    last: int
    n_lags: int
    due: int


class FitAnswer(BaseModel):
    """A fit. The members of its estimate are absent if it failed or was skipped."""

    status: Literal["ok", "zero", "insufficient_data", "failed", "skipped"]
    reason: str | None
    number: int
    epoch: int
    due: int
    model_version: int
    parent: int
    window: WindowAnswer
    attempts: int
    at: str
    in_use: bool
    theta: list[float] | None = None
    lag_weights: list[float] | None = None
    active_lags: list[int] | None = None
    design: str | None = None
    intercept: float | None = None
    lam: float | None = None
    lambda_max: float | None = None
    sigma_hat: float | None = None
    duality_gap: float | None = None
    n_iterations: int | None = None
    converged: bool | None = None
    singular_ratio: float | None = None
    sign_margin: float | None = None
    n_rows: int | None = None
    n_missing: int | None = None
    first_round: int | None = None
    last_round: int | None = None
    seconds: float | None = None
    message: str | None = None
    diagnostics: dict[str, Any] | None = None
    candidates: list[list[float]] | None = None
    intervals: IntervalsAnswer | None = None
    no_intervals: str | None = None
    effects: EffectsAnswer | None = None
    levels: LevelsAnswer | None = None
    form: LagForm | None = None
    lag_profiles: list[list[float]] | None = None
    forms: dict[LagForm, LagProfilesAnswer] | None = None
    findings: list[FindingAnswer] | None = None


class EstimateAnswer(FitAnswer):
    """The estimate that decisions are made by now."""

    deciding: Literal["in_use"]
    features: list[str] | None = None
    slot_seconds: int | None = None


class NoEstimateAnswer(BaseModel):
    """No estimate is in use. Status is "lapsed" if the last one, `last`, is too old."""

    status: Literal["none", "lapsed"]
    deciding: Deciding
    last: FitAnswer | None = None
    findings: list[FindingAnswer]


class EpochAnswer(BaseModel):
    """One fit of the schedule: done, due or to come."""

    epoch: int
    status: str
    window: WindowAnswer
    reason: str | None = None
    due_reason: str | None = None
    number: int | None = None
    model_version: int | None = None
    at: str | None = None
    due_at: str | None = None
    attempts: int | None = None
    retry_at: str | None = None
    n_complete: int | None = None
    n_missing: int | None = None
    overdue_at: str | None = None


class AskedFitAnswer(BaseModel):
    """What asking for a fit did, and the fit that is due.

    begun: it is due now. due: one was due already, and no other begins. nothing_new: all rewards
    are in the last fit.
    """

    asked: Asked
    fit: EpochAnswer | None


class AlgorithmAnswer(BaseModel):
    """An algorithm, and the JSON schema of its options."""

    name: str
    summary: str
    needs_truth: bool
    served: bool
    learns_within_epoch: bool
    options: dict[str, Any]


class Page(BaseModel, Generic[Item]):
    """One page of a listing; `next` is the cursor of the following page, or null."""

    items: list[Item]
    next: str | None


class FitPage(Page[FitAnswer]):
    """A page of fits."""


class EpochPage(Page[EpochAnswer]):
    """A page of the schedule of fits."""


class AlgorithmPage(Page[AlgorithmAnswer]):
    """A page of algorithms."""
