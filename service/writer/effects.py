"""What a batch leaves in memory: what the server has to act on, and the agents it has used."""

from dataclasses import dataclass, field

from lhb_engine.agents import Agent
from service.records import SessionKey


@dataclass(slots=True)
class Effects:
    """What the server has to act on once the batch is durable.

    Fits that became due (by due round) and the CPU seconds that each is expected to take, sessions
    with a newly installed estimate, sessions with a wake-up time, and deleted sessions.
    """

    due: dict[SessionKey, int] = field(default_factory=dict)
    seconds: dict[SessionKey, float] = field(default_factory=dict)
    installed: set[SessionKey] = field(default_factory=set)
    timed: dict[SessionKey, float] = field(default_factory=dict)
    removed: set[SessionKey] = field(default_factory=set)


@dataclass(slots=True)
class LiveAgent:
    """An agent in memory, and the stored state that it was built from or saved as.

    `counted` is the state whose size the cache of agents knows.
    """

    agent: Agent
    n_estimates: int
    state: str | None
    counted: str | None = None
