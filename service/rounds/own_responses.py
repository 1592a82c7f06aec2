"""A trajectory's own theta, where trajectories have responses of their own (docs/model.md 15).

A trajectory's row keeps it with the number of the estimate that it is by. It is worked out again,
from the trajectory's last rounds, at the first decision after a fit was installed, or after one of
the trajectory's rewards came or was corrected, or a decision of it was void.
"""

from collections.abc import Callable
from struct import Struct

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow, Trajectory
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow, TrajectoryRow
from service.storage.reader import Reader

MOST_ROUNDS = 512  # of a trajectory, which its theta is from
NUMBER = Struct("<q")


def own_agent(
    read: Callable[[], Reader], session: SessionRow, agent: Agent, trajectory: TrajectoryRow | None
) -> tuple[Agent, bytes | None]:
    """Return the agent that decides for a trajectory, and the bytes of that trajectory's theta.

    These are None where everybody's theta decides. The trajectory's row keeps what was worked out.
    """
    if not (agent.has_responses and session.estimate and trajectory and trajectory.n_measurements):
        return agent, None
    number = NUMBER.pack(session.estimate)
    if trajectory.own is None or trajectory.own[:8] != number:
        own = _worked_out(read(), session, agent, trajectory)
        theta = b"" if own is agent or own.theta is None else own.theta.tobytes()
        trajectory.own = number + theta
    theta = trajectory.own[8:]
    return (agent.responding(np.frombuffer(theta)), theta) if theta else (agent, None)


def _worked_out(
    reader: Reader, session: SessionRow, agent: Agent, trajectory: TrajectoryRow
) -> Agent:
    found = last_rounds(reader, session, trajectory.key, trajectory.n_rounds - MOST_ROUNDS + 1)
    return agent if found is None else agent.of(found)


def last_rounds(
    reader: Reader, session: SessionRow, trajectory: str, first: int
) -> Trajectory | None:
    """Return a trajectory's rounds from one on, with the lags before it, if any are left."""
    timeline = timeline_of(session)
    last = timeline.n_begun(session)
    if not last:
        return None
    window = FitWindow(1, 1, last, session.horizon, last)
    past = timeline.past(reader, session, window, None, takes_kept=True)
    found = past.of(trajectory, max(1, first - session.horizon)).trajectories
    return [*found.values()][-1] if found else None
