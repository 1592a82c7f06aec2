"""Storing a step of the sums of a comparison, and what follows if the agent does harm."""

from dataclasses import dataclass
from typing import NamedTuple

from lhb_engine.evaluation.batch_ratio import Refusal
from service.lift.steps import Step, sums_so_far
from service.rounds.timeline import timeline_of
from service.session.records import Actor, LiftSumsRow, SessionKey, SessionRow
from service.session.trial import Trial
from service.storage.ports import Changes
from service.writer.announce import announce
from service.writer.audit import note
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork

GUARD = Actor("guard", None)


class Kept(NamedTuple):
    """Whether a step was stored, and whether the guard has tripped by it."""

    is_stored: bool
    has_tripped: bool


@dataclass(frozen=True, slots=True)
class KeepLift(SessionCommand[Kept]):
    """Command: store a step that was read from committed rows.

    Where the interval of lift then lies below zero, a guard that is armed trips.
    """

    key: SessionKey
    step: Step

    def __call__(self, uow: UnitOfWork) -> Kept:
        """Store it, unless another process has gone on, or rows were erased since it was read."""
        session, step = uow.session(self.key), self.step
        if session is None or sums_so_far(uow.stored, session) != step.before:
            return Kept(False, False)
        if session.n_erased_rounds != step.n_erased:
            return Kept(False, False)
        trial = session.trial
        step.sums.add_point(trial, uow.now)
        has_tripped = trial.guard == "armed" and self._trips(uow, session, trial)
        place = (step.before.since, step.decided, step.measured)
        row = LiftSumsRow(*self.key, *place, step.sums.dumps())
        uow.write_rows(Changes(lift_sums=[row], lift_units=step.units))
        return Kept(True, has_tripped)

    def _trips(self, uow: UnitOfWork, session: SessionRow, trial: Trial) -> bool:
        """Trip the guard if lift lies below zero; return whether it did."""
        lift = self.step.sums.lift(trial)
        if isinstance(lift, Refusal) or lift.high >= 0.0:
            return False
        session.trial = trial.tripped(timeline_of(session).n_slots(session))
        uow.save(session)
        about = {"difference": lift.difference, "low": lift.low, "high": lift.high}
        note(uow, session.tenant, GUARD, "guard_tripped", session.id, name=session.name, **about)
        announce(uow, session, "guard_tripped", **about)
        return True
