"""What the service answers, as types of dictionaries; /openapi.json describes them."""

from typing import Any, Literal, NotRequired, TypedDict

from .fit_answers import ClockAnswer, Deciding
from .problem_codes import ProblemCode

PlayedBy = Literal["agent", "control", "caller", "guard"]


class DecisionAnswer(TypedDict):
    """One decision; in a session with a holdout or in shadow mode, with who chose `arm`.

    `agent_arm` is what the agent chose there.
    """

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
    played_by: NotRequired[PlayedBy]
    agent_arm: NotRequired[int | None]


class AcceptedAnswer(TypedDict):
    """How many rewards were new, and how many had been received before."""

    accepted: int
    repeated: int


class ProblemAnswer(TypedDict):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    code: ProblemCode
    detail: str
    field: str | None
    errors: NotRequired[list[dict[str, str]] | None]


class ItemAnswer(TypedDict):
    """One item of a batch: its status, and the answer that its own route would give."""

    status: int
    decision: NotRequired[DecisionAnswer]
    reward: NotRequired[AcceptedAnswer]
    problem: NotRequired[ProblemAnswer]


class ControlAnswer(TypedDict):
    """The session whose agent control plays, by its id."""

    session: str


class HoldoutAnswer(TypedDict):
    """The share of trajectories in control, and what is played there."""

    share: float
    policy: Literal["default_arm", "uniform"] | ControlAnswer
    planned_rounds: int


class SessionAnswer(TypedDict):
    """A session."""

    id: str
    name: str | None
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
    keep_contexts: bool
    clock: ClockAnswer | None
    guard: Literal["off", "armed", "tripped"]
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


class HistoryAnswer(TypedDict):
    """The rounds that were appended, and how many rewards they have."""

    first_round: int
    last_round: int
    rewards: int


class RankAnswer(TypedDict):
    """Scores of arms, and the arms from best to worst."""

    scores: list[float]
    ranking: list[int]
    arm_ids: list[str] | None
    model_version: int
    deciding: Deciding


class SpanAnswer(TypedDict):
    """A value measured over several rounds."""

    first_round: int
    last_round: int
    value: float
    covariates: dict[str, float] | None


class RoundAnswer(TypedDict):
    """One round of the log; of its values, `n_corrected` were replaced by later ones."""

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


class VoidAnswer(TypedDict):
    """A decision that counts as never shown, and since when."""

    event_id: str
    round: int
    voided_at: str


class CreditAnswer(TypedDict):
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


class BinAnswer(TypedDict):
    """Some consecutive rounds of a session. Means are null where nothing was measured or chosen."""

    first_round: int
    last_round: int
    n_measured: int
    reward: float | None
    expected: float | None
    explored: float | None


class ArrivalsAnswer(TypedDict):
    """How long values took to come, from the decision of their last round."""

    n_values: int
    n_late: int
    median_seconds: float
    nine_tenths_seconds: float
    longest_seconds: float


class SeriesAnswer(TypedDict):
    """A session's last rounds in bins, and whether the estimate in use raised an alarm."""

    first_round: int
    last_round: int
    alarm: bool | None
    reason: str | None
    arrivals: ArrivalsAnswer | None
    items: list[BinAnswer]


class GroupAnswer(TypedDict):
    """A group: its units and rounds with a reward, and its mean reward a round."""

    n_units: int
    n_rounds: int
    reward: float | None


class ComparedAnswer(TypedDict):
    """What the agent earns a round beside control.

    The intervals hold at every look together, with probability `level`. `ratio` is null where
    control may earn nothing. `variance_taken` is the share of the variance that the model's
    prediction took away.
    """

    difference: float
    low: float
    high: float
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    standard_error: float
    level: float
    variance_taken: float


class LiftPoint(TypedDict):
    """Lift as it was after so many measured rounds."""

    n_rounds: int
    difference: float
    low: float
    high: float
    at: str


class LiftAnswer(TypedDict):
    """A session's agent beside its control group; without `lift`, `reason` says why."""

    agent: GroupAnswer
    control: GroupAnswer
    lift: ComparedAnswer | None
    reason: str | None
    rounds_to_go: float | None
    planned_rounds: int
    n_left_out: int
    n_behind: int
    points: list[LiftPoint]


class ShadowAnswer(TypedDict):
    """How the agent's choices compare with the caller's, over rounds of at least two arms.

    `expected_caller` and `expected_agent` are what the model expects an action to pay in all, on
    average; null before there is a model. `n_scored` rounds are in these averages.
    """

    n_rounds: int
    agreement: float | None
    n_scored: int
    expected_caller: float | None
    expected_agent: float | None
    n_behind: int


class AlgorithmAnswer(TypedDict):
    """An algorithm, and the JSON schema of its options."""

    name: str
    summary: str
    needs_truth: bool
    served: bool
    learns_within_epoch: bool
    options: dict[str, Any]


class TrajectoryAnswer(TypedDict):
    """A trajectory; `n_missing` rounds have no reward among its last 1000 rounds."""

    trajectory: str
    n_rounds: int
    n_missing: int | None
    last_decision_at: str
