"""Agents in memory, rebuilt from stored state whenever that has moved on."""

import json
from collections import OrderedDict
from typing import Any

from lhb_engine.agents import ALGORITHMS, Agent, make_options
from service.records import Session, SessionKey
from service.storage.unit_of_work import UnitOfWork

N_CACHED = 4096


def build_agent(session: Session, state: str | dict[str, Any] | None) -> Agent:
    """The session's agent as `state` describes it, or a fresh one."""
    kind = ALGORITHMS[session.algorithm]
    options = make_options(session.algorithm, session.options)
    if state is None:
        return kind(session.dim, session.horizon, options)
    read = json.loads(state) if isinstance(state, str) else state
    return kind.from_state(session.dim, session.horizon, options, read)


class Agents:
    """The agents of recently active sessions; every use checks that nothing was installed since."""

    def __init__(self) -> None:
        self._agents: OrderedDict[SessionKey, tuple[int, Agent]] = OrderedDict()

    def get(self, uow: UnitOfWork, session: Session) -> Agent:
        """The session's agent as of this transaction."""
        key = session.key
        found = self._agents.get(key)
        if found is not None and found[0] == session.n_estimates:
            self._agents.move_to_end(key)
            return found[1]
        agent = build_agent(session, uow.agent_state(key))
        self.put(session, agent)
        return agent

    def put(self, session: Session, agent: Agent) -> None:
        """Keep an agent that stands for the session as it is now."""
        self._agents[session.key] = (session.n_estimates, agent)
        self._agents.move_to_end(session.key)
        while len(self._agents) > N_CACHED:
            self._agents.popitem(last=False)

    def forget(self) -> None:
        """Forget all: after a rollback, memory may be ahead of the truth."""
        self._agents.clear()
