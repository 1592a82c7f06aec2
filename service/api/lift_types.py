"""The types of the answers on what a session compares its agent with, for /openapi.json."""

from pydantic import BaseModel

from service.session.trial import Policy


class ControlAnswer(BaseModel):
    """The session whose agent control plays, by its id."""

    session: str


class HoldoutAnswer(BaseModel):
    """The share of trajectories in control, and what is played there."""

    share: float
    policy: Policy | ControlAnswer
    planned_rounds: int


class GroupAnswer(BaseModel):
    """A group: its units and rounds with a reward, and its mean reward a round."""

    n_units: int
    n_rounds: int
    reward: float | None


class ComparedAnswer(BaseModel):
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


class LiftPoint(BaseModel):
    """Lift as it was after so many measured rounds."""

    n_rounds: int
    difference: float
    low: float
    high: float
    at: str


class LiftAnswer(BaseModel):
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


class ShadowAnswer(BaseModel):
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
