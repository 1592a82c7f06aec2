"""What a batch leaves in memory: what the server has to act on, and the agents it has used."""

from dataclasses import dataclass, field

from lhb_engine.agents import Agent
from service.session.records import UNCHANGED, EstimateRow, OptionChanges, SessionKey

Counts = dict[str, int]  # by tenant


@dataclass(slots=True)
class Effects:
    """What the server has to act on, and counts, once the batch is durable.

    Fits that became due (by due round) and the CPU seconds that each is expected to take, sessions
    with a newly installed estimate, sessions with a wake-up time, and deleted sessions.
    `n_decisions`, `n_rewards` and `n_late` count new decisions, rewards, and the rewards that came
    after their trajectory's next round had begun; `n_dropped` counts rounds whose rows went.
    `fits` are the recorded ones.
    """

    due: dict[SessionKey, int] = field(default_factory=dict)
    seconds: dict[SessionKey, float] = field(default_factory=dict)
    installed: set[SessionKey] = field(default_factory=set)
    timed: dict[SessionKey, float] = field(default_factory=dict)
    removed: set[SessionKey] = field(default_factory=set)
    n_decisions: Counts = field(default_factory=dict)
    n_rewards: Counts = field(default_factory=dict)
    n_late: Counts = field(default_factory=dict)
    n_dropped: Counts = field(default_factory=dict)
    fits: list[EstimateRow] = field(default_factory=list)


def count(counts: Counts, tenant: str, n: int = 1) -> None:
    """Count so many more for a tenant."""
    counts[tenant] = counts.get(tenant, 0) + n


@dataclass(slots=True)
class LiveAgent:
    """An agent in memory, and the stored state that it was built from or saved as.

    `changes` are those of its session's options that it has. `counted` is the state whose size the
    cache of agents knows.
    """

    agent: Agent
    n_estimates: int
    state: str | None
    changes: OptionChanges = UNCHANGED
    counted: str | None = None
