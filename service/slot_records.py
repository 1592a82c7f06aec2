"""The row that is stored of summed slots of time, in sessions with a clock."""

from typing import NamedTuple


class SlotSumsRow(NamedTuple):
    """The summed contexts of a stretch of slots that take no decision any more; see `SlotSums`.

    Each stretch of a session has a row of the default trajectory. Where rewards are totals of
    trajectories, those with decisions in it have rows of their own.
    """

    tenant: str
    session_id: str
    trajectory: str
    stretch: int  # from 0
    decided: int  # decisions of all later slots have positions after this one
    sums: bytes  # float64 (STRETCH, dim)
