"""What a session's next decision is made by, remembered from one fit to the next."""

from math import inf

from lhb_engine.agents import ALGORITHMS
from lhb_engine.agents.base import Deciding
from service.rounds.timeline import timeline_of
from service.session.records import SessionKey, SessionRow
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent

MOST_KNOWN = 20_000  # sessions of which `deciding` remembers what decides
# by session, its number of fits and its options: from and until which round what decides
_decides: dict[tuple[SessionKey, float, int, str | None], tuple[int, float, Deciding]] = {}


def deciding(reader: Reader, session: SessionRow) -> Deciding:
    """Return what the session's next decision is made by.

    The agent is built, and its state read, once after each fit: a listing asks of many sessions.
    The estimate of an agent that learns within an epoch never lapses.
    """
    if ALGORITHMS[session.algorithm].learns_within_epoch and session.estimate:
        return "in_use"
    version = (session.key, session.created_at, session.n_estimates, session.changes)
    since, until, known = _decides.get(version, (0, 0, "none"))
    n_begun = timeline_of(session).n_begun(session)
    if since <= n_begun < until:
        return known
    state = reader.agent_state(session.key) if session.estimate else None
    agent = build_agent(session, state)
    found = agent.deciding(n_begun)
    if len(_decides) >= MOST_KNOWN:
        _decides.clear()
    has_lapsed = n_begun >= agent.used_until
    _decides[version] = (n_begun, inf if has_lapsed else agent.used_until, found)
    return found
