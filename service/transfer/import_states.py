"""What an agent's state may hold in an exported session."""

from typing import Annotated

from pydantic import Field, with_config
from typing_extensions import TypedDict

from service.field_types import STRICT, Number

Count = Annotated[int, Field(ge=0, le=2**53)]
Wide = Annotated[float, Field(ge=-1e100, le=1e100)]  # three of them multiply without overflow


@with_config(STRICT)
class EllipsoidState(TypedDict):
    """As `Ellipsoid.state`."""

    inverse: list[list[Wide]]
    moment: list[Wide]


@with_config(STRICT)
class PredictionState(TypedDict):
    """As `Prediction.to_json`."""

    lag_weights: list[Wide]
    theta: list[Number]
    intercept: Wide
    noise: Wide
    last_round: Count
    settled: bool


@with_config(STRICT)
class AgentState(TypedDict, total=False):
    """What the agents' `state` may hold; building the agent says which of it there has to be."""

    version: int
    theta: list[Number] | None
    lag: Count | None
    ellipsoid: EllipsoidState
    prediction: PredictionState
