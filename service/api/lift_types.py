"""The types of the answers on what a session compares its agent with, for /openapi.json."""

from pydantic import BaseModel

from service.trial import Policy


class HoldoutAnswer(BaseModel):
    """The share of trajectories in control, and what is played there."""

    share: float
    policy: Policy
    planned_rounds: int
