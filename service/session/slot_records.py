"""The row that is stored of summed slots of time, in sessions with a clock."""

from typing import NamedTuple


class SlotSumsRow(NamedTuple):
    """The summed contexts of slots that take no decision any more; see `service.rounds.slot_sums`.

    They are those of a trajectory, after the session's row before, up to `last_slot`. The default
    trajectory has a row wherever another has one, be it empty; where rewards are totals over all,
    it has the sums of all.
    """

    tenant: str
    session_id: str
    trajectory: str
    last_slot: int
    decided: int  # decisions of all later slots have positions after this one
    sums: bytes  # float64 (n, 1 + dim): slots that have decisions, each with its context
