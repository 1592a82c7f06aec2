"""What a batch leaves in memory: what the server has to act on, and the agents it has used."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

from lhb_engine.agents import Agent
from service.session.records import UNCHANGED, EstimateRow, OptionChanges, SessionKey


@dataclass(slots=True)
class Effects:
    """What the server has to act on, and counts, once the batch is durable.

    Fits that became due (due round, and the CPU seconds that it is expected to take), sessions with
    a newly installed estimate, sessions with a wake-up time, and deleted sessions.
    `counts` has, by kind and tenant, how many "decisions" and "rewards" are new, how many of these
    are "late_rewards", which came after their trajectory's next round had begun, and of how many
    rounds the rows went, "rounds_dropped". `fits` are the recorded ones.
    """

    due: dict[SessionKey, tuple[int, float]] = field(default_factory=dict)
    installed: set[SessionKey] = field(default_factory=set)
    timed: dict[SessionKey, float] = field(default_factory=dict)
    removed: set[SessionKey] = field(default_factory=set)
    counts: dict[tuple[str, str], int] = field(default_factory=partial(defaultdict, int))
    fits: list[EstimateRow] = field(default_factory=list)


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
