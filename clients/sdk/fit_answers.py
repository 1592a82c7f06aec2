"""What the service answers of fits and estimates, as types of dictionaries."""

from typing import Any, Literal, NotRequired, TypedDict

Deciding = Literal["in_use", "lapsed", "exploring", "none"]
FindingCode = Literal[
    "season",
    "trend",
    "errors_correlated",
    "features_alike",
    "known_before",
    "horizon_short",
    "lags_change",
]


class ClockAnswer(TypedDict):
    """The slots of a session, and how many of them have begun."""

    slot_seconds: int
    start: str
    totals: Literal["all", "trajectory"]
    n_slots: int


class WindowAnswer(TypedDict):
    """The rounds that a fit reads, its number of lags, and the round after which it is due."""

    epoch: int
    first: int
    last: int
    n_lags: int
    due: int


class IntervalsAnswer(TypedDict):
    """95% intervals, each a lower and an upper bound.

    Those of `lag_weights` belong to `lags`; null where a weight is not clear of 0.
    """

    theta: list[tuple[float, float]]
    lags: list[int]
    lag_weights: list[tuple[float, float] | None]
    effects: NotRequired[list[tuple[float, float]] | None]


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


class FindingAnswer(TypedDict):
    """A check of the model that failed on the latest rows: what was seen, and what to do."""

    code: FindingCode
    message: str
    period: float | None
    features: list[int]
    lags: list[int]


class FitAnswer(TypedDict):
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
    effects: NotRequired[EffectsAnswer | None]
    levels: NotRequired[LevelsAnswer | None]
    findings: NotRequired[list[FindingAnswer] | None]


class EstimateAnswer(FitAnswer):
    """The estimate that decisions are made by now."""

    deciding: Literal["in_use"]
    features: NotRequired[list[str] | None]
    slot_seconds: NotRequired[int | None]


class NoEstimateAnswer(TypedDict):
    """No estimate is in use. Status is "lapsed" if the last one, `last`, is too old."""

    status: Literal["none", "lapsed"]
    deciding: Deciding
    last: NotRequired[FitAnswer | None]
    findings: list[FindingAnswer]


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
    are in the last fit.
    """

    asked: Literal["begun", "due", "nothing_new"]
    fit: EpochAnswer | None
