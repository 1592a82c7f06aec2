"""A unit of work on one session that keeps the session as it is until the work is whole."""

from copy import copy, deepcopy
from dataclasses import dataclass, field, replace

from service.session.records import (
    EstimateRow,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.writer.effects import Effects, LiveAgent
from service.writer.unit_of_work import UnitOfWork


@dataclass(slots=True)
class WorkState:
    """The session's rows and agent, as they will be.

    Attributes
    ----------
    session, trajectory : SessionRow, TrajectoryRow
        Copies; only one trajectory is written to.
    agent : LiveAgent
        An agent of its own, not the cached one.
    now : float
        The time of all rows, in seconds since 1970.
    effects : Effects
        What the server has to act on once the work is whole.
    has_learned : bool
        Whether the agent's state differs from the stored one.
    fits : list of EstimateRow
        The fits that were skipped. They are stored with the last of the work: the session's number
        of fits, which says what is stored of them, is the old one until then.
    """

    session: SessionRow
    trajectory: TrajectoryRow
    agent: LiveAgent
    now: float
    effects: Effects = field(default_factory=Effects)
    has_learned: bool = False
    fits: list[EstimateRow] = field(default_factory=list)

    @property
    def trajectory_key(self) -> TrajectoryKey:
        """The key of the trajectory."""
        return (*self.session.key, self.trajectory.key)

    def copied(self) -> "WorkState":
        """Return a copy that can be worked on while this one stays as it is."""
        agent = self.agent.agent
        learns = agent.learns_within_epoch
        live = LiveAgent(deepcopy(agent) if learns else agent, self.agent.n_estimates, None)
        return WorkState(
            copied_session(self.session),
            replace(self.trajectory),
            live,
            self.now,
            Effects(
                due=dict(self.effects.due),
                seconds=dict(self.effects.seconds),
                timed=dict(self.effects.timed),
            ),
            self.has_learned,
            list(self.fits),
        )

    def show_in(self, session: SessionRow) -> None:
        """Give a session what rounds move: its counters, its schedule and its names.

        Nothing else of it is the work's. A guard may have tripped meanwhile.
        """
        done = self.session
        session.n_rounds, session.n_trajectories = done.n_rounds, done.n_trajectories
        session.n_measurements, session.n_complete = done.n_measurements, done.n_complete
        session.schedule, session.n_estimates = done.schedule, done.n_estimates
        session.names = done.names


def copied_session(session: SessionRow) -> SessionRow:
    """Return a copy of a session with a schedule of its own."""
    return replace(session, schedule=deepcopy(session.schedule))


class HiddenWork(UnitOfWork):
    """Writes rounds as any unit of work does, but keeps the counters of their session to itself.

    Rows and pending rows are shared with the batch's unit of work. The session's and the agent's
    changes stay in the state. The trajectory's row is stored, so that statements count its rounds;
    `end` sets it back within the same transaction unless the work is whole.

    Parameters
    ----------
    uow : UnitOfWork
        The batch's.
    state : WorkState
        It is changed: give a copy of one that may be needed again.
    """

    def __init__(self, uow: UnitOfWork, state: WorkState) -> None:
        uow.flush()
        known = copy(uow._known)
        known.sessions = {state.session.key: state.session}
        known.trajectories = {state.trajectory_key: state.trajectory}
        super().__init__(uow._transaction, known, state.now)
        self._measured = uow._measured
        self._batch_uow = uow
        self._state = state
        self.effects = state.effects
        self.agents = {state.session.key: state.agent}

    def count(self, session: SessionRow) -> None:
        """Write nothing: `end` stores the session."""

    def save(self, session: SessionRow) -> None:
        """Write nothing: `end` stores the session."""

    def save_agent(self, key: SessionKey) -> None:
        """Note that the agent has learned; `end` stores it."""
        self._state.has_learned = True

    def add_estimate(self, estimate: EstimateRow) -> None:
        """Keep the outcome of a fit; `end` stores it."""
        self._state.fits.append(estimate)

    def end(self, *, is_whole: bool) -> None:
        """Write what is pending; show all of the work if it is whole, and none of it otherwise."""
        self.save_trajectory(self._state.trajectory)
        self.flush()
        uow, state = self._batch_uow, self._state
        if not is_whole:
            uow.save_trajectory(uow.trajectory(state.trajectory_key))
            uow.flush()
            return
        uow._known.trajectories[state.trajectory_key] = state.trajectory
        session = uow.session(state.session.key)
        assert session is not None
        state.show_in(session)
        session.append_token = None
        uow.save(session)
        uow.effects.due |= state.effects.due
        uow.effects.seconds |= state.effects.seconds
        uow.effects.timed |= state.effects.timed
        for fit in state.fits:
            uow.add_estimate(fit)
        uow.effects.fits += state.fits
        if state.has_learned:
            uow.agents[session.key] = state.agent
            uow.save_agent(session.key)
