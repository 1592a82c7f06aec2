"""The context sets of a few of the latest decisions, which a fit says what choices earn by."""

from dataclasses import replace

from lhb_engine.agents import Agent
from lhb_engine.context_sets import latest_kept
from lhb_engine.history import FitWindow, Floats
from service.rounds.timeline import timeline_of
from service.session.kept_contexts import unpack
from service.session.records import SessionRow
from service.session.schedule_records import Watermark
from service.storage.reader import Reader


def stored_sets(
    reader: Reader, session: SessionRow, agent: Agent, window: FitWindow, known: Watermark
) -> dict[int, Floats]:
    """Return the kept sets of the latest decisions of a fit's rounds, by position."""
    if not agent.takes_sets:
        return {}
    if agent.prediction is not None:  # older rows may be dropped
        window = replace(window, first=max(window.first, agent.prediction.since_round))
    first, last = timeline_of(session).positions_of(window, known)
    stored = reader.context_sets(session.key, [p for p in latest_kept(last) if p >= first])
    kept = [(position, one) for name, position, one in stored if name != session.erasing]
    return {position: unpack(one, session.dim) for position, one in kept}
