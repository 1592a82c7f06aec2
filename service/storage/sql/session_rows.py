"""Sessions and trajectories as rows: the columns that every SQL database has, in their order."""

import json
from typing import Any

from service.records import SessionRow, TrajectoryRow


def session_row(s: SessionRow) -> tuple[Any, ...]:
    """All columns of a session."""
    return (
        *(s.tenant, s.id, s.name, s.algorithm, s.dim, s.horizon, s.seed),
        *(json.dumps(s.options), s.reward_mode, s.reward_wait_seconds, s.default_reward),
        *(s.refit, s.request, s.created_at, s.archived_at, s.n_rounds, s.n_trajectories),
        *(s.n_complete, s.n_estimates, s.estimate, s.model_version),
        *(s.schedule.dumps(), s.fit_due, s.wake_at, s.created_as),
    )


def session_update(s: SessionRow) -> tuple[Any, ...]:
    """What may change of a session, then its key."""
    return (
        *(s.name, s.archived_at, s.n_rounds, s.n_trajectories, s.n_complete, s.n_estimates),
        *(s.estimate, s.model_version, s.schedule.dumps(), s.fit_due, s.wake_at, s.tenant, s.id),
    )


def trajectory_row(t: TrajectoryRow) -> tuple[Any, ...]:
    """All columns of a trajectory."""
    return (
        t.tenant,
        t.session_id,
        t.key,
        t.n_decisions,
        t.n_rounds,
        t.n_measurements,
        t.measured_through,
        t.last_at,
    )


def fit_due_at(session: SessionRow) -> float | None:
    """Since when the session's fit is due."""
    current = session.schedule.current
    return None if current is None else current.due_at
