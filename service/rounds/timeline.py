"""The timeline of a session: what its rounds are, as lags and fits count them.

It says which round a decision begins, which rounds a value belongs to, and what has begun. Its two
kinds answer the same calls. This module alone reads which kind a session has.
"""

from functools import lru_cache
from typing import TypeAlias

from service.rounds.by_decision import ByDecision
from service.rounds.by_slot import BySlot
from service.session.records import SessionRow
from service.session.slot_clock import clock_of

Timeline: TypeAlias = ByDecision | BySlot


def timeline_of(session: SessionRow) -> Timeline:
    """Return the timeline of a session."""
    return _timeline(session.clock)


@lru_cache(maxsize=256)
def _timeline(text: str | None) -> Timeline:
    clock = clock_of(text)
    return ByDecision() if clock is None else BySlot(clock)
