"""A trajectory's own theta, where trajectories have responses of their own (docs/model.md 15).

A trajectory without rewards has that of its group, where groups differ. Of another, the row keeps
its theta with the number of the estimate that it is by. It is worked out again,
from the trajectory's last rounds, at the first decision after a fit was installed, or after one of
the trajectory's rewards came or was corrected, or a decision of it was void, or fell into a slot
that is measured; and, where time closes rounds, after a round of it has closed or the wait has
changed.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from struct import Struct

import numpy as np

from lhb_engine.agents import Agent
from lhb_engine.history import FitWindow, Trajectory
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow, TrajectoryRow
from service.storage.reader import Reader

MOST_ROUNDS = 512  # of a trajectory, which its theta is from
# number of the estimate, the wait by which rounds were closed, and the time of the first decision
# that had closed no round yet
HEAD = Struct("<qdd")
NOTHING = HEAD.pack(0, 0.0, 0.0)


def own_agent(
    read: Callable[[], Reader],
    session: SessionRow,
    agent: Agent,
    key: str,
    trajectory: TrajectoryRow | None,
    now: float,
) -> tuple[Agent, bytes | None]:
    """Return the agent that decides for a trajectory, and the bytes of that trajectory's theta.

    These are None where everybody's theta decides. The trajectory's row keeps what was worked out.
    """
    if not (agent.responses_differ and session.estimate):
        return agent, None
    kept = (trajectory and trajectory.own) or NOTHING
    number, wait, following = HEAD.unpack_from(kept)
    is_kept = number == session.estimate and wait == session.reward_wait_seconds
    if is_kept and following > now - wait:
        theta = kept[HEAD.size :]
    elif not (trajectory and trajectory.n_rounds) or not (
        trajectory.n_measurements or closing_of(session).is_by_time
    ):
        theta = _theta_of(agent, key, None)
    else:
        reader, first = read(), first_of_last(session, trajectory)
        closed, following = closed_rounds(reader, session, trajectory, now)
        theta = _theta_of(agent, key, last_rounds(reader, session, key, first, closed))
        trajectory.own = HEAD.pack(session.estimate, session.reward_wait_seconds, following) + theta
    return (agent.responding(np.frombuffer(theta)), theta) if theta else (agent, None)


def _theta_of(agent: Agent, key: str, tail: Trajectory | None) -> bytes:
    """Return the theta of a trajectory with these last rounds; empty where it is everybody's."""
    own = agent.of(key, tail)
    return b"" if own is agent or own.theta is None else own.theta.tobytes()


def closed_rounds(
    reader: Reader, session: SessionRow, trajectory: TrajectoryRow, now: float
) -> tuple[int, float]:
    """Return the last round that is closed now, and when the decision was that closes the next.

    The next decision of a trajectory closes a round, `reward_wait_seconds` later. Where rounds
    close by their values, that is never.
    """
    n, closed_at = trajectory.n_rounds, now - session.reward_wait_seconds
    if not closing_of(session).is_by_time:
        return n, math.inf
    if trajectory.last_at <= closed_at:
        return n - 1, now
    after, key = max(0, n - MOST_ROUNDS), (*session.key, trajectory.key)
    while page := reader.decisions(key, after, MOST_ROUNDS):
        for decision in page:
            if decision.at > closed_at:
                return max(0, decision.round - 2), decision.at
        after = page[-1].round
    return n - 1, now


def first_of_last(session: SessionRow, trajectory: TrajectoryRow) -> int:
    """Return the first of the rounds that a trajectory's theta is from; it may be below 1.

    With a clock the last one is the last slot that is measured.
    """
    return timeline_of(session).last_round(trajectory) - MOST_ROUNDS + 1


def last_rounds(
    reader: Reader, session: SessionRow, trajectory: str, first: int, closed: int
) -> Trajectory | None:
    """Return a trajectory's rounds from one on, with the lags before it, if any are left.

    Rounds up to `closed` are measured, where time closes rounds.
    """
    timeline = timeline_of(session)
    last = timeline.n_begun(session)
    if not last:
        return None
    window = FitWindow(1, 1, last, session.horizon, last)
    past = timeline.past(reader, session, window, None, takes_kept=True)
    parts = past.of(trajectory, max(1, first - session.horizon)).trajectories
    if not parts:
        return None
    *_, latest = parts.values()
    rows = closing_of(session).rows(latest.measurements, latest.first_round, closed)
    return replace(latest, measurements=rows)
