"""Large writes: many small transactions, between which other commands slip.

`Slices` runs them. No reader sees their rows before all are written: a new session's are hidden,
and rounds that are appended are `HiddenWork`.
"""

import asyncio
import time
from collections.abc import Generator
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from service.base.problems import Problem, ProblemCode
from service.session.records import (
    EstimateRow,
    HiddenRows,
    SessionKey,
    SessionRow,
    TrajectoryKey,
    TrajectoryRow,
)
from service.writer.after_commit import Effects, LiveAgent
from service.writer.command import Command
from service.writer.group_commit import GroupCommit
from service.writer.unit_of_work import UnitOfWork

Result = TypeVar("Result")
# the commands of a large write; it is sent the result of each, and returns its own
LargeWrite = Generator[Command[Any], Any, Result]
OWN_SECONDS = 15.0  # from one slice to the next; then the writer counts as dead


class Slices:
    """Runs large writes, one slice of one of them at a time.

    After a slice all of them pause for as long as it took, so together they take at most half of
    the writer's time. Within their half they take turns.
    """

    def __init__(self, writer: GroupCommit) -> None:
        self._writer = writer
        self._turn = asyncio.Lock()

    async def run(self, write: LargeWrite[Result]) -> Result:
        """Run the commands of a large write, and return its result.

        What a command raises is raised in the write, which may undo by further commands what it has
        written, or let it through.
        """
        try:
            command = next(write)
            while True:
                async with self._turn:
                    began = time.monotonic()
                    try:
                        result = await self._writer.submit(command)
                    except Exception as error:
                        command = write.throw(error)
                    else:
                        command = write.send(result)
                    await asyncio.sleep(time.monotonic() - began)
        except StopIteration as done:
            outcome: Result = done.value
            return outcome
        finally:
            write.close()


def hide_for(
    uow: UnitOfWork,
    key: SessionKey,
    writer: str,
    trajectory: str | None = None,
    after_round: int = 0,
) -> None:
    """Note that a large write owns these rows of a session, until OWN_SECONDS from now."""
    until = uow.now + OWN_SECONDS
    uow.pending.hidden.append(HiddenRows(*key, trajectory, after_round, writer, until))


def own(uow: UnitOfWork, key: SessionKey, writer: str) -> None:
    """Put off the time at which the rows stop being this writer's.

    Raises 503 storage_busy: a sweep has begun to erase them, because no slice came for OWN_SECONDS.
    """
    note = uow.locking.hidden_rows(key)
    if note is None or note.writer != writer:
        detail = f"the write paused for more than {OWN_SECONDS:g} s, and was undone; try again"
        raise Problem(ProblemCode.STORAGE_BUSY, detail, retry_after=1)
    uow.pending.hidden.append(note._replace(sweep_at=uow.now + OWN_SECONDS))


def refuse_erasing(session: SessionRow, trajectory: str | None = None) -> None:
    """Raise a 503 while the rows of this trajectory are being erased; of any, without one."""
    if session.erasing is not None and trajectory in (None, session.erasing):
        detail = "the trajectory is being erased; then its key may begin anew"
        raise Problem(ProblemCode.ERASURE_PENDING, detail, "trajectory", retry_after=1)


def refuse_appending(session: SessionRow) -> None:
    """Raise a 503 while a log is being appended to the session in slices."""
    if session.append_token is not None:
        detail = "a log is being appended to the session; it takes nothing else until it is whole"
        raise Problem(ProblemCode.HISTORY_PENDING, detail, retry_after=1)


@dataclass(slots=True)
class WorkState:
    """The session's rows, as they will be (copies), and an agent that is not the cached one.

    Only one trajectory is written to. `now` is the time of all rows, `effects` what the server has
    to act on once the work is whole; `has_learned`: the agent's state differs from the stored one.
    `fits` are the skipped fits. Skipped fits are stored with the last of the work: until then the
    session's number of fits is the old one, and counts the stored fits.
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
        agent, done = self.agent.agent, self.effects
        learns = agent.learns_within_epoch
        return replace(
            self,
            session=copied_session(self.session),
            trajectory=replace(self.trajectory),
            agent=LiveAgent(deepcopy(agent) if learns else agent, self.agent.n_estimates, None),
            effects=Effects({**done.due}, timed={**done.timed}),
            fits=list(self.fits),
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
    changes stay in the state, which is changed: give a copy of one that may be needed again. The
    trajectory's row is stored, so that statements count its rounds; `end` sets it back within the
    same transaction unless the work is whole.
    """

    def __init__(self, uow: UnitOfWork, state: WorkState) -> None:
        uow.flush()
        rows = copy(uow._known)
        rows.sessions = {state.session.key: state.session}
        rows.trajectories = {state.trajectory_key: state.trajectory}
        super().__init__(uow._transaction, rows, state.now)
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
        uow.effects.timed |= state.effects.timed
        for fit in state.fits:
            uow.add_estimate(fit)
        uow.effects.fits += state.fits
        if state.has_learned:
            uow.agents[session.key] = state.agent
            uow.save_agent(session.key)
