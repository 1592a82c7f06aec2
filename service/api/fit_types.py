"""Parts of the answers about fits, for /openapi.json."""

from pydantic import BaseModel

from lhb_engine.diagnostics.finding import Code as FindingCode


class IntervalsAnswer(BaseModel):
    """95% intervals, each a lower and an upper bound.

    Those of `lag_weights` belong to `lags`; null where a weight is not clear of 0.
    """

    theta: list[tuple[float, float]]
    lags: list[int]
    lag_weights: list[tuple[float, float] | None]
    effects: list[tuple[float, float]] | None = None


class EffectsAnswer(BaseModel):
    """What covariates, seasons and a trend do.

    `values` is the change of the reward by one unit of each column; `included` the probability
    that each group of columns has an effect; `share` its share of the rewards' variance; `groups`
    the groups' names.
    """

    values: list[float]
    included: list[float]
    share: list[float]
    groups: list[str]


class LevelsAnswer(BaseModel):
    """How far trajectories' levels of their own differ, in units of reward.

    `spread` is their standard deviation, `interval` its 95% interval.
    """

    spread: float
    interval: tuple[float, float]


class LagProfilesAnswer(BaseModel):
    """A form of the lag profiles that was fitted, and how it predicted rows not seen yet.

    `profiles` is what each feature pays at each lag, a list a lag; `excess` the discounted sum of
    its squared one-step errors less those of shared profiles, in mean squares of the latter;
    `variance` that of `excess`.
    """

    profiles: list[list[float]]
    effects: list[float]
    autocorrelation: float
    excess: float
    variance: float


class FindingAnswer(BaseModel):
    """A check of the model that failed on the latest rows: what was seen, and what to do."""

    code: FindingCode
    message: str
    period: float | None
    features: list[int]
    lags: list[int]
