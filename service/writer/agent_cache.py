"""Cache of the sessions' agents, rebuilt from stored state whenever that has changed."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from lhb_engine.agents import Agent, make_options
from lhb_engine.agents.base import Deciding
from lhb_engine.history import History, Measurements
from lhb_engine.history import Trajectory as Rounds
from service.base.byte_bounded import ByteBounded
from service.session.records import NUMBER_BYTES, SessionKey, SessionRow
from service.storage.reader import Reader
from service.writer.after_commit import LiveAgent
from service.writer.unit_of_work import UnitOfWork

MOST_BYTES = 2**28  # of the arrays and states of all cached agents
LEAST_BYTES = 4096  # that any agent counts as
TEXT_BYTES = 24  # at most, of a number in the state of a learner, which the commit makes
MOST_KNOWN = 20_000  # sessions of which `deciding` remembers what decides
# by session, its number of fits and the revision of its options
_decides: dict[tuple[SessionKey, float, int, int], Deciding] = {}


def build_agent(session: SessionRow, state: str | dict[str, Any] | None) -> Agent:
    """Build the session's agent from its stored state, JSON text or parsed.

    Without one it has learned nothing. Raises `OptionError` by options that are not valid.
    """
    options = make_options(session.algorithm, session.names.numbered(session.options))
    if state is None:
        return session.kind(session.dim, session.horizon, options)
    read = json.loads(state) if isinstance(state, str) else state
    return session.kind.from_state(session.dim, session.horizon, options, read)


def deciding(reader: Reader, session: SessionRow) -> Deciding:
    """Return what the session's next decision is made by.

    The agent is built, and its state read, once after each fit: a listing asks of many sessions.
    """
    if session.kind.learns_within_epoch and session.estimate:
        return "in_use"
    version = (session.key, session.created_at, session.n_estimates, session.revision)
    answer = _decides.get(version)
    if answer is None:
        state = reader.agent_state(session.key) if session.estimate else None
        answer = build_agent(session, state).deciding
        if len(_decides) >= MOST_KNOWN:
            _decides.clear()
        _decides[version] = answer
    return answer


def held_bytes(live: LiveAgent) -> int:
    """Return the bytes of an agent's arrays and lists, its parts' included, and of its state."""
    parts = [live.agent, *(part for part in vars(live.agent).values() if hasattr(part, "__dict__"))]
    values = [value for part in parts for value in vars(part).values()]
    held = sum(value.nbytes for value in values if isinstance(value, np.ndarray))
    held += NUMBER_BYTES * sum(len(value) for value in values if isinstance(value, list))
    text = held // 8 * TEXT_BYTES if live.agent.learns_within_epoch else 0
    return LEAST_BYTES + held + max(text, len(live.state or ""))


class Agents:
    """The agents of recently active sessions.

    Each transaction checks once whether a cached agent is still that of the stored state. The check
    compares the number of recorded fits, or, for an agent that learns from every reward, the stored
    state itself. Agents unused for longest are removed while all together hold more than `most`
    bytes.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._agents: ByteBounded[SessionKey, LiveAgent] = ByteBounded(most)

    def get(self, uow: UnitOfWork, session: SessionRow) -> Agent:
        """Return the session's agent as of this transaction."""
        key = session.key
        live = uow.agents.get(key)
        if live is None or live.changes is not session.changes:
            before = live or self._agents.get(key)
            live = uow.agents[key] = self._current(uow, session, before)
            if before is not live or live.counted is not live.state:
                live.counted = live.state
                self._agents.keep(key, live, held_bytes(live))
                self._agents.trim()
        return live.agent

    def anew(self, uow: UnitOfWork, session: SessionRow) -> Agent:
        """Return an agent that has learned nothing, in place of the session's."""
        live = LiveAgent(build_agent(session, None), session.n_estimates, None, session.changes)
        uow.agents[session.key] = live
        self._agents.keep(session.key, live, held_bytes(live))
        return live.agent

    def has(self, session: SessionRow) -> bool:
        """Return whether the session's agent is cached and known to be current without a read."""
        live = self._agents.get(session.key)
        if live is None or session.kind.learns_within_epoch or live.changes is not session.changes:
            return False
        return live.n_estimates == session.n_estimates

    def _current(self, uow: UnitOfWork, session: SessionRow, live: LiveAgent | None) -> LiveAgent:
        """Return a cached agent if it is still the session's, or a new one."""
        state: str | None = None
        if session.kind.learns_within_epoch:
            state = uow.agent_state(session.key)
            is_current = live is not None and live.state == state
        else:
            is_current = live is not None and live.n_estimates == session.n_estimates
            state = None if is_current else uow.agent_state(session.key)
        if live is None or not is_current:
            agent = build_agent(session, state)
            return LiveAgent(agent, session.n_estimates, state, session.changes)
        if live.changes is not session.changes and live.changes != session.changes:
            agent = build_agent(session, live.agent.state())  # with other options
            return replace(live, agent=agent, changes=session.changes)
        live.changes = session.changes
        return live

    def observe(
        self, uow: UnitOfWork, session: SessionRow, trajectory: str, round: int, value: float
    ) -> None:
        """Pass one round's reward to an agent that learns within an epoch, and save its state.

        Rounds are from 1.
        """
        agent = self.get(uow, session)
        key = (*session.key, trajectory)
        first = max(1, round - session.horizon + 1)
        contexts = np.zeros((round - first + 1, session.dim))
        for number, _, context in uow.stored.selected_contexts(key, first, round):
            if context:
                contexts[number - first] += np.frombuffer(context)
        measured = Measurements.single(np.array([round]), np.array([value]))
        history = History(session.dim, {trajectory: Rounds(contexts, measured, first)})
        agent.observe(history, trajectory, round, value)
        uow.save_agent(session.key)
        live = uow.agents[session.key]
        self._agents.keep(session.key, live, held_bytes(live))  # what it has learned takes room
        self._agents.trim()

    def forget(self) -> None:
        """Clear the cache: after a rollback, agents may be ahead of the stored state."""
        self._agents.clear()
