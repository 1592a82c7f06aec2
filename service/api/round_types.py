"""The types of the answers on rounds and trajectories, for /openapi.json."""

from pydantic import BaseModel

from lhb_engine.agents.base import Deciding
from service.api.response_types import Page
from service.session.trial import PlayedBy


class TrajectoryAnswer(BaseModel):
    """A trajectory; `n_missing` rounds have no reward among its last 1000 rounds."""

    trajectory: str
    n_rounds: int
    n_missing: int | None
    last_decision_at: str


class SpanAnswer(BaseModel):
    """A value measured over several rounds."""

    first_round: int
    last_round: int
    value: float
    covariates: dict[str, float] | None


class RoundAnswer(BaseModel):
    """One round of the log; of its values, `n_corrected` were replaced by later ones.

    Of each covariate, the value that came with a reward of this round alone counts.
    """

    round: int
    event_id: str
    arm: int | None
    arm_id: str | None
    context: list[float] | None
    reward: float | None
    n_rewards: int
    n_corrected: int
    spans: list[SpanAnswer]
    covariates: dict[str, float] | None
    propensity: float | None
    explored: bool
    forced: bool
    void: bool
    epoch: int
    model_version: int
    at: str
    played_by: PlayedBy | None
    agent_arm: int | None


class VoidAnswer(BaseModel):
    """A decision that counts as never shown, and since when."""

    event_id: str
    round: int
    voided_at: str


class CreditAnswer(BaseModel):
    """A decision's expected share in the rewards so far, and in those to come.

    Both are null if no estimate is in use, or if it does not identify the lags that pay; `reason`
    says why.
    """

    round: int
    event_id: str
    arm: int | None
    arm_id: str | None
    earned: float | None
    to_come: float | None
    reason: str | None
    n_lags_passed: int


class BinAnswer(BaseModel):
    """Some consecutive rounds of a session. Means are null where nothing was measured or chosen."""

    first_round: int
    last_round: int
    n_measured: int
    reward: float | None
    expected: float | None
    explored: float | None


class ArrivalsAnswer(BaseModel):
    """How long values took to come, from the decision of their last round."""

    n_values: int
    n_late: int
    median_seconds: float
    nine_tenths_seconds: float
    longest_seconds: float


class SeriesAnswer(BaseModel):
    """A session's last rounds in bins, and whether the estimate in use raised an alarm."""

    first_round: int
    last_round: int
    alarm: bool | None
    reason: str | None
    arrivals: ArrivalsAnswer | None
    items: list[BinAnswer]


class CreditPage(Page[CreditAnswer]):
    """A page of credit, and what decisions are made by now."""

    model_version: int
    deciding: Deciding


class RoundPage(Page[RoundAnswer]):
    """A page of rounds."""


class TrajectoryPage(Page[TrajectoryAnswer]):
    """A page of trajectories."""
