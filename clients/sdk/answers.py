"""What the service answers: the one description, for clients and for /openapi.json.

The service makes its schema from these types (`service/api/answer_models.py`).
"""

from typing import Any, Literal, NotRequired, TypedDict

from lhb_engine.findings.finding import Code, Missing

from .setting_parts import ClockAnswer as ClockAnswer
from .setting_parts import HoldoutAnswer as HoldoutAnswer
from .settings import SettingsAnswer

Deciding = Literal["in_use", "in_doubt", "learning", "exploring", "none"]
LagForm = Literal["shared", "sparse", "smooth"]
Asked = Literal["begun", "due", "nothing_new"]
By = Literal["position", "round", "time"]
PlayedBy = Literal["agent", "control", "caller", "guard"]


class IntervalsAnswer(TypedDict):
    """95% intervals, each a lower and an upper bound.

    Intervals of `lag_weights` belong to `lags`; null: a weight is not clear of 0. Intervals of
    `lag_profiles`, a list of features for each lag, are there where features' own profiles decide;
    so are those of `lag_sums`, of each feature over its first lags, its later ones, and all. Where
    `drawn`, they are bands of posterior draws, not shown to hold: `no_intervals` says why.
    """

    theta: list[tuple[float, float]]
    lags: list[int]
    lag_weights: list[tuple[float, float] | None]
    drawn: NotRequired[bool]
    effects: NotRequired[list[tuple[float, float]] | None]
    lag_profiles: NotRequired[list[list[tuple[float, float]]] | None]
    lag_sums: NotRequired[list[list[tuple[float, float]]] | None]


class EarnedAnswer(TypedDict):
    """What is earned a round, and its 95% interval."""

    value: float
    low: float
    high: float


class GainAnswer(TypedDict):
    """What choices earn a round, by posterior draws on context sets of the latest rounds.

    `over_chance` is against an arm at random, `over_best_arm` against the best fixed place in the
    list of arms (null where numbers of arms differ, and of fewer than 16 sets that differ),
    `still_to_gain` what the best choices would earn beyond. `best_is_right` is the probability that
    the likeliest arm pays most. Where `if_shared`, all holds if all features pay at the same lags.
    """

    over_chance: EarnedAnswer
    over_best_arm: EarnedAnswer | None
    still_to_gain: EarnedAnswer
    best_is_right: float
    if_shared: NotRequired[bool]


class TotalsAnswer(TypedDict):
    """What an action pays in all lags together, by posterior draws.

    An action of context x pays x `values`; its 95% interval is the root of x `squares` x to both
    sides. Where x has a part of the directions `unknown`, the rewards do not tell. Where
    `if_shared` is true, this holds if all features pay at the same lags.
    """

    values: list[float]
    squares: list[list[float]]
    unknown: list[list[float]]
    if_shared: NotRequired[bool]


class EffectsAnswer(TypedDict):
    """What covariates, seasons and a trend do.

    `values` is the change of the reward by one unit of each column; `included` the probability
    that each group of columns has an effect; `share` its share of the rewards' variance; `groups`
    the groups' names.
    """

    values: list[float]
    included: list[float]
    share: list[float]
    groups: list[str]


class LevelsAnswer(TypedDict):
    """How far trajectories' levels of their own differ, in units of reward.

    `spread` is their standard deviation, `interval` its 95% interval.
    """

    spread: float
    interval: tuple[float, float]


class ResponseSpreadAnswer(TypedDict):
    """How far thetas of trajectories or groups differ, in units in which theta is 1.

    `spread` is the standard deviation of each number of theta, `intervals` its 95% intervals;
    `covariance` that of theta's numbers. `gain` is by how many nats this is likelier than that all
    are alike.
    """

    spread: list[float]
    intervals: list[tuple[float, float]]
    covariance: list[list[float]]
    gain: float


class GroupsAnswer(ResponseSpreadAnswer):
    """How far groups of trajectories differ; `by` is the option `groups`.

    Of up to 100 groups `means` and `errors` have the mean about theta and its standard deviations.
    """

    by: str
    means: dict[str, list[float]]
    errors: dict[str, list[float]]


class OwnAnswer(ResponseSpreadAnswer):
    """How far trajectories' responses of their own differ; about their groups', with `groups`.

    `noise` is in units of reward. `message` says by feature how far they differ, or that they do
    not.
    """

    noise: float
    message: str
    groups: NotRequired[GroupsAnswer]


class LagFormAnswer(TypedDict):
    """How a form of the lag profiles predicted rows not seen yet, beside shared profiles.

    `excess` is the discounted sum of its squared one-step errors less those of shared profiles, in
    mean squares of the latter: below 0 it predicts better. `variance` is that of `excess`.
    """

    excess: float
    variance: float


class FindingAnswer(TypedDict):
    """A check of the model that failed on the latest rows: what was seen, and what to do."""

    code: Code
    message: str
    period: float | None
    harmonics: int | None
    features: list[int]
    lags: list[int]


class UncheckedAnswer(TypedDict):
    """Checks of the model that could not be made, which says nothing of what they would find."""

    codes: list[Code]
    missing: Missing
    message: str


class ProblemAnswer(TypedDict):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    code: str  # docs/problem-codes.md
    detail: str
    field: str | None
    errors: NotRequired[list[dict[str, str]] | None]


class DecisionAnswer(TypedDict):
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
    played_by: NotRequired[PlayedBy]
    agent_arm: NotRequired[int | None]


class AcceptedAnswer(TypedDict):
    """How many rewards were new, and how many had been received before."""

    accepted: int
    repeated: int


class ItemAnswer(TypedDict):
    """One item of a batch: its status, and the answer that its own route would give."""

    status: int
    decision: NotRequired[DecisionAnswer]
    reward: NotRequired[AcceptedAnswer]
    problem: NotRequired[ProblemAnswer]


class BatchAnswer(TypedDict):
    """Answers in the order of the items."""

    items: list[ItemAnswer]


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


class WindowAnswer(TypedDict):
    """The rounds that a fit reads, its number of lags, and the round after which it is due."""

    epoch: int
    first: int
    last: int
    n_lags: int
    due: int


class FitAnswer(TypedDict):
    """A fit. The members of its estimate are absent if it failed or was skipped.

    `products` are pairs of features whose products count, as further numbers of `theta`.
    """

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
    theta: NotRequired[list[float] | None]
    lag_weights: NotRequired[list[float] | None]
    active_lags: NotRequired[list[int] | None]
    design: NotRequired[str | None]
    intercept: NotRequired[float | None]
    lam: NotRequired[float | None]
    lambda_max: NotRequired[float | None]
    sigma_hat: NotRequired[float | None]
    duality_gap: NotRequired[float | None]
    n_iterations: NotRequired[int | None]
    converged: NotRequired[bool | None]
    singular_ratio: NotRequired[float | None]
    sign_margin: NotRequired[float | None]
    n_rows: NotRequired[int | None]
    n_missing: NotRequired[int | None]
    first_round: NotRequired[int | None]
    last_round: NotRequired[int | None]
    seconds: NotRequired[float | None]
    message: NotRequired[str | None]
    diagnostics: NotRequired[dict[str, Any] | None]
    candidates: NotRequired[list[list[float]] | None]
    intervals: NotRequired[IntervalsAnswer | None]
    no_intervals: NotRequired[str | None]
    gain: NotRequired[GainAnswer | None]
    no_gain: NotRequired[str | None]
    totals: NotRequired[TotalsAnswer | None]
    no_totals: NotRequired[str | None]
    effects: NotRequired[EffectsAnswer | None]
    levels: NotRequired[LevelsAnswer | None]
    own: NotRequired[OwnAnswer | None]
    products: NotRequired[list[tuple[int, int]] | None]
    form: NotRequired[LagForm | None]
    lag_profiles: NotRequired[list[list[float]] | None]
    forms: NotRequired[dict[LagForm, LagFormAnswer] | None]
    findings: NotRequired[list[FindingAnswer] | None]
    unchecked: NotRequired[list[UncheckedAnswer] | None]


class EstimateAnswer(FitAnswer):
    """The estimate that decisions are made by now."""

    deciding: Literal["in_use", "in_doubt", "learning"]
    checked: str | None
    features: NotRequired[list[str] | None]
    slot_seconds: NotRequired[int | None]


class NoEstimateAnswer(TypedDict):
    """No estimate is in use."""

    status: Literal["none"]
    deciding: Deciding
    findings: list[FindingAnswer]
    unchecked: list[UncheckedAnswer]
    checked: str | None


class EpochAnswer(TypedDict):
    """One fit of the schedule: done, due or to come."""

    epoch: int
    status: str
    window: WindowAnswer
    reason: NotRequired[str | None]
    due_reason: NotRequired[str | None]
    number: NotRequired[int | None]
    model_version: NotRequired[int | None]
    at: NotRequired[str | None]
    due_at: NotRequired[str | None]
    attempts: NotRequired[int | None]
    retry_at: NotRequired[str | None]
    n_complete: NotRequired[int | None]
    n_missing: NotRequired[int | None]
    overdue_at: NotRequired[str | None]


class AskedFitAnswer(TypedDict):
    """What asking for a fit did, and the fit that is due.

    begun: it is due now. due: one was due already, and no other begins. nothing_new: all rewards
    are in the last fit. `reason` says why the fit does not begin: no worker runs.
    """

    asked: Asked
    fit: EpochAnswer | None
    reason: NotRequired[str]


class AlgorithmAnswer(TypedDict):
    """An algorithm, and the JSON schema of its options."""

    name: str
    summary: str
    needs_truth: bool
    served: bool
    learns_within_epoch: bool
    options: dict[str, Any]


class GroupAnswer(TypedDict):
    """A group: its units and rounds with a reward, and its mean reward a round."""

    n_units: int
    n_rounds: int
    reward: float | None


class ComparedAnswer(TypedDict):
    """What the agent earns beside control: a round, or a unit in all.

    The intervals hold at every look together, with probability `level`. `ratio` is null where
    control may earn nothing. `variance_taken` is the share of the variance that the model's
    prediction and units' own past took away, `narrowed_by_past` the share of the interval's width
    that the past took away.
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
    narrowed_by_past: float


class LiftPoint(TypedDict):
    """Lift as it was after so many measured rounds."""

    n_rounds: int
    difference: float
    low: float
    high: float
    at: str


class LiftAnswer(TypedDict):
    """A session's agent beside its control group; without `lift`, `reason` says why.

    `verdict` says lift in a sentence. `groups_differ` says that the groups' sizes are hardly ever
    drawn with the holdout's share: then something other than the draw decides who is measured;
    or that choices change how often people come. Then `decides` is "in_all", what a unit brings in
    all, else "lift", what a round brings.
    `days_to_go` is how long `rounds_to_go` take at the pace of late; without `lift`, how long it
    is until there is one. `units` are what falls to the groups.
    """

    agent: GroupAnswer
    control: GroupAnswer
    lift: ComparedAnswer | None
    in_all: ComparedAnswer | None
    decides: Literal["lift", "in_all"]
    verdict: str
    groups_differ: str | None
    reason: str | None
    units: str
    rounds_to_go: float | None
    days_to_go: float | None
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


class SessionAnswer(SettingsAnswer):
    """A session."""

    id: str
    name: str | None
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


class TrajectoryAnswer(TypedDict):
    """A trajectory; `n_missing` rounds have no reward among its last 1000 rounds."""

    trajectory: str
    n_rounds: int
    n_missing: int | None
    last_decision_at: str


class ThetaAnswer(TypedDict):
    """Numbers of a theta, and their 95% intervals where these are known."""

    values: list[float]
    intervals: list[tuple[float, float]] | None


class GroupThetaAnswer(ThetaAnswer):
    """The theta of a group of trajectories, with the group's name."""

    name: str


class LevelAnswer(TypedDict):
    """The level of a trajectory, in units of reward, and its 95% interval."""

    value: float
    interval: tuple[float, float]


class OneTrajectoryAnswer(TrajectoryAnswer):
    """A trajectory, and what is known of it by the estimate in use.

    `everybody` is the theta of all, `own` that by which this one is decided for: null where
    trajectories have no responses of their own, or their spread is not known yet. `level` is that
    of its latest rounds; null where trajectories have none. `group` is the theta of its group; null
    where groups do not differ, or nothing is known of this one.
    """

    own: ThetaAnswer | None
    everybody: ThetaAnswer | None
    level: LevelAnswer | None
    group: GroupThetaAnswer | None
    features: list[str] | None
    model_version: int
    deciding: Deciding


class SpanAnswer(TypedDict):
    """A value measured over several rounds."""

    first_round: int
    last_round: int
    value: float
    covariates: dict[str, float] | None


class RoundAnswer(TypedDict):
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


class CreditIntervals(TypedDict):
    """95% intervals of what a feature paid: over its first lags, its later ones, and in all."""

    at_once: tuple[float, float]
    later: tuple[float, float]
    in_all: tuple[float, float] | None


class FeatureCreditAnswer(TypedDict):
    """What a feature's values paid in some decisions, beside decisions with 0 in its place.

    `at_once` is paid within its `first_lags`, `later` after them. The same sum is what is `earned`
    so far and what is `to_come`.
    """

    feature: int
    name: str | None
    first_lags: int
    at_once: float
    later: float
    earned: float
    to_come: float
    intervals: CreditIntervals | None


class CreditByFeatureAnswer(TypedDict):
    """What each feature of a session's last decisions paid; without items, `reason` says why."""

    first_round: int
    last_round: int
    items: list[FeatureCreditAnswer]
    reason: str | None
    form: LagForm | None
    model_version: int
    deciding: Deciding


class ArmBinAnswer(TypedDict):
    """Some consecutive decisions, and when they begin."""

    first_round: int
    last_round: int
    at: str | None


class OneChoiceAnswer(TypedDict):
    """What one choice of an arm pays, whoever chooses, with the contexts that it is offered with.

    `interval` is that of the whole, with probability 95%; null where it is not known.
    """

    at_once: float
    later: float
    in_all: float
    interval: tuple[float, float] | None


class ArmAnswer(TypedDict):
    """An arm: how often it was chosen, what one choice of it pays, and what its decisions paid.

    An arm that was offered and never chosen has `n` 0.
    """

    arm_id: str | None
    arm: int | None
    n: int
    one: OneChoiceAnswer | None
    at_once: float | None
    later: float | None
    earned: float | None
    to_come: float | None
    in_all_interval: tuple[float, float] | None
    context: list[float]
    is_fixed: bool
    shares: list[float]


class PlayerAnswer(TypedDict):
    """What the `n` decisions that one player chose pay on average, and the mean of their contexts.

    A log is its caller's. `one` is null where no arm's worth is known.
    """

    by: PlayedBy
    n: int
    one: OneChoiceAnswer | None
    context: list[float]


class CreditByArmAnswer(TypedDict):
    """The arms of a session's last decisions; `n_others` decisions chose arms beyond these."""

    first_round: int
    last_round: int
    n_others: int
    bins: list[ArmBinAnswer]
    items: list[ArmAnswer]
    players: list[PlayerAnswer]
    reason: str | None
    no_intervals: str | None
    model_version: int
    deciding: Deciding


class PartsAnswer(TypedDict):
    """What the estimate makes a mean reward of. The parts add up to what it expects.

    `levels` are those of the trajectories at hand, given their rewards.
    """

    base: float
    trend: float
    season: float
    covariates: float
    levels: float
    actions: float


class BinAnswer(ArmBinAnswer):
    """Some consecutive rounds of a session. Means are null where nothing was measured or chosen."""

    n_measured: int
    reward: float | None
    expected: float | None
    explored: float | None
    parts: PartsAnswer | None
    spread: tuple[float, float] | None


class ArrivalsAnswer(TypedDict):
    """How long values took to come, from the decision of their last round."""

    n_values: int
    n_late: int
    median_seconds: float
    nine_tenths_seconds: float
    longest_seconds: float


class SeriesAnswer(TypedDict):
    """A session's last rounds in bins, and whether the estimate in use raised an alarm.

    `bin_seconds` is the width of bins of equal times.
    """

    first_round: int
    last_round: int
    bin_seconds: int | None
    alarm: bool | None
    reason: str | None
    arrivals: ArrivalsAnswer | None
    items: list[BinAnswer]


class KeyAnswer(TypedDict):
    """An API key, without the key itself."""

    id: str
    tenant: str
    role: Literal["reader", "writer", "admin"]
    label: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class NewKeyAnswer(KeyAnswer):
    """A new API key. This is the only time that `key` is shown."""

    key: str


class LimitAnswer(TypedDict):
    """Limits of a tenant, or of a key; null: the server's setting of this name holds."""

    tenant: str
    key_id: str
    requests_per_second: float | None
    max_sessions: int | None
    max_tenant_mb: int | None


class WebhookAnswer(TypedDict):
    """A URL that is told of events; `last_error` is null where the last attempt went well."""

    id: str
    url: str
    events: list[Literal["finding", "alarm", "fit_failed", "guard_tripped"]]
    created_at: str
    delivered_at: str | None
    failed_at: str | None
    last_error: str | None
    n_waiting: int
    next_try_at: str | None
    n_given_up: int


class NewWebhookAnswer(WebhookAnswer):
    """A new webhook. This is the only time that `secret` is shown."""

    secret: str


class AuditAnswer(TypedDict):
    """A change of a key or a session: whose, when, by which key and request, and what."""

    tenant: str
    id: str
    at: str
    actor: str | None
    request_id: str | None
    action: str
    subject: str
    detail: dict[str, Any]
