"""What settings that have members are answered as."""

from typing import Literal, TypedDict


class ControlAnswer(TypedDict):
    """The session whose agent control plays, by its id."""

    session: str


class HoldoutAnswer(TypedDict):
    """The share of trajectories in control, and what is played there."""

    share: float
    policy: Literal["default_arm", "uniform"] | ControlAnswer
    planned_rounds: int


class ClockAnswer(TypedDict):
    """The slots of a session, and how many of them have begun."""

    slot_seconds: int
    start: str
    totals: Literal["all", "trajectory"]
    late_slots: int
    n_slots: int
