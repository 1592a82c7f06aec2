"""Storing a step of the sums of a comparison."""

from dataclasses import dataclass

from service.lift.steps import Step, sums_so_far
from service.records import SessionKey
from service.storage.ports import Changes
from service.trial import trial_of
from service.trial_records import LiftSumsRow
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class KeepLift(SessionCommand[bool]):
    """Command: store a step that was read from committed rows."""

    key: SessionKey
    step: Step

    def __call__(self, uow: UnitOfWork) -> bool:
        """Return whether it was stored: not if another process has gone on from the same sums."""
        session, step = uow.session(self.key), self.step
        if session is None or sums_so_far(uow.stored, session) != step.before:
            return False
        step.sums.add_point(trial_of(session.trial), uow.now)
        place = (step.before.since, step.decided, step.measured)
        row = LiftSumsRow(*self.key, *place, step.sums.dumps())
        uow.write_rows(Changes(lift_sums=[row], lift_units=step.units))
        return True
