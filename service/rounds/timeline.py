"""The timeline of a session: what its rounds are, as lags and fits count them.

It says which round a decision begins, which rounds a value belongs to, and what has begun. Its two
kinds answer the same calls. This module alone reads which kind a session has.
"""

import re
from functools import lru_cache
from typing import TypeAlias

from lhb_engine.history import FitWindow, History
from service.rounds.history import PastByDecision
from service.rounds.slot_history import PastBySlot
from service.rounds.timeline_by_decision import ByDecision
from service.rounds.timeline_by_slot import BySlot
from service.session.records import SessionRow
from service.session.schedule_records import Watermark
from service.storage.reader import Reader

Timeline: TypeAlias = ByDecision | BySlot
Past: TypeAlias = PastByDecision | PastBySlot
BY_DECISION = ByDecision()
_by_slot = lru_cache(maxsize=256)(BySlot)


def timeline_of(session: SessionRow) -> Timeline:
    """Return the timeline of a session."""
    return BY_DECISION if session.clock is None else _by_slot(session.clock)


def in_rounds(session: SessionRow, text: str) -> str:
    """Return a text in which rounds are called what they are: hours where a slot is an hour."""
    called = timeline_of(session).called
    several, one = (
        re.sub(r"^\w+", r"\g<0>s", called),
        f"{'an' if called == 'hour' else 'a'} {called}",
    )
    words = {"rounds": several, "a round": one, "round": called}
    return re.sub(r"\b(a round|rounds?)\b", lambda found: words[found[0]], text)


def read_history(
    reader: Reader, session: SessionRow, window: FitWindow, known: Watermark | None = None
) -> History:
    """Return the history of all rows of a window, up to a watermark.

    Without one there are all measurements, as they came, and kept sums stand for decisions.
    """
    given = reader, session, window, known
    return timeline_of(session).past(*given, takes_kept=known is None).whole()
