"""The command that takes a decision out of what fits read: it was never shown."""

from dataclasses import dataclass

from lhb_engine.agents import ALGORITHMS
from service.base.problems import Problem, ProblemCode
from service.commands.out_of_turn import is_stale
from service.commands.sessions import find_session, refuse_archived
from service.fits.when_due import fit_now
from service.rounds.retention import refuse_dropped
from service.rounds.reward_rounds import decision_of
from service.rounds.timeline import timeline_of
from service.session.records import DecisionRow, SessionKey, VoidRow
from service.session.rules import has_only_sums
from service.storage.ports import Keys
from service.writer.agent_cache import Agents
from service.writer.command import SessionCommand
from service.writer.large_writes import refuse_erasing
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class VoidDecision(SessionCommand[tuple[DecisionRow, VoidRow]]):
    """Command: from the next fit on, the decision's round counts as one without action.

    The decision stays in the log as it was answered. Its round stays, and so do its rewards: they
    are of earlier decisions.
    """

    key: SessionKey
    trajectory: str
    event_id: str
    agents: Agents

    def keys(self, keys: Keys) -> None:
        """Add the rows that this command reads."""
        keys.sessions.add(self.key)
        keys.trajectories.add((*self.key, self.trajectory))
        keys.add_event((*self.key, self.trajectory), self.event_id)

    def __call__(self, uow: UnitOfWork) -> tuple[DecisionRow, VoidRow]:
        """Return the decision, and the note that it is void; a repeat returns the first note.

        Raises 404 without such a session or decision; 409 no_corrections if the agent learns from
        each reward at once; 503 erasure_pending.
        """
        session, key = find_session(uow, self.key), (*self.key, self.trajectory)
        refuse_erasing(session, self.trajectory)  # a sweep is about to take the note away
        decision = decision_of(uow, session, key, self.event_id, "event_id")
        voids = uow.stored.voids_of(key, decision.round, decision.round)
        if voids:
            return decision, voids[0]
        refuse_archived(session)
        if not ALGORITHMS[session.algorithm].takes_corrections:
            detail = f"{session.algorithm} may have learned from the decision, and keeps no past"
            raise Problem(ProblemCode.NO_CORRECTIONS, detail, "event_id")
        refuse_dropped(session, decision.position, f"round {decision.round}", "event_id")
        if has_only_sums(session):
            detail = "the session drops rows: what fits have learned stays as it is"
            raise Problem(ProblemCode.NO_CORRECTIONS, detail, "event_id")
        changes = timeline_of(session).without_decision(uow.stored, session, decision)
        session.n_measurements += 1
        void = VoidRow(*key, decision.round, session.n_measurements, uow.now)
        uow.count(session)
        if is_stale(session):
            fit_now(uow, session, self.agents.get(uow, session), "stale", uow.now)
        trajectory = uow.trajectory(key)
        trajectory.own = None
        uow.save_trajectory(trajectory)
        changes.voids.append(void)
        uow.write_rows(changes)
        return decision, void
