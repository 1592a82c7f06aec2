"""What a session's next decision is made by, remembered from one fit to the next."""

from lhb_engine.agents import ALGORITHMS
from lhb_engine.agents.base import Deciding
from service.session.records import SessionKey, SessionRow
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent

MOST_KNOWN = 20_000  # sessions of which `deciding` remembers what decides
# by session, its number of fits and the revision of its options
_decides: dict[tuple[SessionKey, float, int, int], Deciding] = {}


def deciding(reader: Reader, session: SessionRow) -> Deciding:
    """Return what the session's next decision is made by.

    The agent is built, and its state read, once after each fit: a listing asks of many sessions.
    """
    if ALGORITHMS[session.algorithm].learns_within_epoch and session.estimate:
        return "in_use"
    version = (session.key, session.created_at, session.n_estimates, session.revision)
    found = _decides.get(version)
    if found is None:
        state = reader.agent_state(session.key) if session.estimate else None
        found = build_agent(session, state).deciding
        if len(_decides) >= MOST_KNOWN:
            _decides.clear()
        _decides[version] = found
    return found
