"""What an event does to its session's state, whoever brings it: a request, a log, a file or a copy.

What follows from many events (windows that open, sums) is worked out beside.
"""

from typing import TypeAlias

from service.rounds.timeline import timeline_of
from service.session.names import after_choice
from service.session.records import DecisionRow, MeasurementRow, SessionRow, TrajectoryRow, VoidRow

Event: TypeAlias = DecisionRow | MeasurementRow | VoidRow


def apply(session: SessionRow, trajectory: TrajectoryRow, event: Event, begun: int = 0) -> int:
    """Count an event; a decision began round `begun`.

    Return the number of begun rounds, or 0 if the event began none.
    """
    timeline = timeline_of(session)
    before = timeline.n_begun(session)
    if isinstance(event, DecisionRow):
        if trajectory.n_decisions == 0:
            session.n_trajectories += 1
        trajectory.n_decisions += 1
        trajectory.n_rounds += 1
        session.n_rounds += 1
        if event.at > trajectory.last_at:
            trajectory.last_at = event.at
        if trajectory.own is not None and timeline.is_measured(trajectory, begun):
            trajectory.own = None
        names = session.names
        if names.repetition:
            context, dim = event.context, session.dim
            trajectory.lately = after_choice(names, trajectory.lately, context, dim)
    else:
        session.n_measurements += 1
        trajectory.own = None
        if isinstance(event, MeasurementRow):
            trajectory.n_measurements += 1
            trajectory.measured_through = max(trajectory.measured_through, event.last_round)
            begun = timeline.begun_with(session, event.last_round)
    if begun <= before:
        return 0
    timeline.begin(session, begun)
    return begun
