"""Erasing one trajectory: the right of the person behind it to be forgotten."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from service.commands.out_of_turn import fit_anew
from service.commands.sessions import find_session
from service.commands.sweep import sweep
from service.lift.steps import totals_of
from service.lift.sums import NOTHING, LiftSums
from service.rounds.timeline import timeline_of
from service.session.records import (
    COMMAND_LINE,
    Actor,
    HiddenRows,
    KeptSumsRow,
    SessionKey,
    SessionRow,
)
from service.session.rules import has_only_sums
from service.session.trial import block_of, block_rounds, trial_of
from service.session.trial_records import LiftSumsRow
from service.storage.ports import Keys
from service.storage.reader import Reader
from service.writer.audit import note
from service.writer.command import Command
from service.writer.large_writes import refuse_erasing
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class EraseTrajectory(Command[bool]):
    """Command: hide a trajectory from every reader and every fit, and note its rows for a sweep.

    The session's counters keep counting its rounds and measurements, because positions are not
    given twice. The sums of the session's past go, and a fit is due that begins from nothing and
    adds up the rows that are left: so its estimate is equal to the bit to one of a session without
    these rows. Where the session has dropped rows, what is left of the trajectory is taken out of
    the sums. The trajectory's units leave the sums of lift.
    """

    key: SessionKey
    trajectory: str
    by: Actor = COMMAND_LINE

    def keys(self, keys: Keys) -> None:
        """Add the rows that this command reads."""
        keys.sessions.add(self.key)
        keys.trajectories.add((*self.key, self.trajectory))

    def __call__(self, uow: UnitOfWork) -> bool:
        """Return whether there are rows to erase.

        Raises
        ------
        Problem
            404 unknown_session; 422 where totals are stored under the key; 503 history_pending; 503
            erasure_pending: another trajectory of the session is being erased.
        """
        session = find_session(uow, self.key)
        if session.erasing is not None and session.erasing != self.trajectory:
            refuse_erasing(session, session.erasing)
        if session.erasing is not None:
            return True
        timeline = timeline_of(session)
        timeline.refuse_erasing(self.trajectory)
        key = (*self.key, self.trajectory)
        found = uow.trajectory(key)
        if found.n_decisions == 0:
            return False
        stored = uow.stored
        n_voids = len(stored.voids_of(key, 1, found.n_rounds))  # they have positions, too
        n_rounds, n_measurements = found.n_rounds, found.n_measurements
        changes = timeline.without(key)
        if has_only_sums(session):  # dropped rows are in no place but these
            sums = _sums_without(stored, session, self.trajectory)
            changes.sums += [] if sums is None else [sums]
        else:
            changes.dropped_sums.append(self.key)
        if session.dropped_to:
            first = stored.first_left(key)
            n_rounds = 0 if first is None else n_rounds - first + 1
            n_measurements = sum(1 for _ in stored.measurement_log(key))
        session.erasing = self.trajectory
        session.n_trajectories -= 1
        session.n_erased_rounds += n_rounds
        session.n_erased_measurements += n_measurements + n_voids
        uow.save(session)
        if session.trial is not None:
            changes.lift_sums += self._lift_sums(uow, session, found.n_rounds)
        uow.write_rows(changes)
        uow.hide(HiddenRows(*self.key, self.trajectory, 0, None, uow.now))
        fit_anew(uow, session)
        # the key may say who it was: the entry does not hold it
        about = {"rounds": n_rounds, "measurements": n_measurements}
        note(uow, session.tenant, self.by, "trajectory_erased", session.id, **about)
        return True

    def _lift_sums(self, uow: UnitOfWork, session: SessionRow, n_rounds: int) -> list[LiftSumsRow]:
        """Return the sums of the session's comparison without the trajectory's units, if any."""
        stored, trial = uow.stored, trial_of(session.trial)
        row = stored.lift_sums(session.key)
        if row is None or row.since != trial.since:
            return []
        horizon, sums = session.horizon, LiftSums.loads(row.sums)
        blocks = range(block_of(self.trajectory, n_rounds, horizon) + 1)
        units = [(self.trajectory, block) for block in blocks]
        for (_, block), unit in stored.lift_units(session.key, row.since, units).items():
            round = max(0, block - 1) * block_rounds(horizon) + 1
            is_control = trial.is_control(session.seed, self.trajectory, round, horizon)
            sums.move("control" if is_control else "agent", totals_of(unit), NOTHING)
        return [row._replace(sums=sums.dumps())]


def _sums_without(
    reader: Reader, session: SessionRow, trajectory: str
) -> KeptSumsRow | None:  # a server starts without what only fits need
    from service.fits.past import sums_without

    return sums_without(reader, session, trajectory)


def erase_trajectory(
    key: SessionKey, trajectory: str, by: Actor = COMMAND_LINE
) -> Generator[Command[Any], Any, None]:
    """Yield the commands that erase a trajectory.

    After the first one nobody sees it. The sweeper erases what is left if no other command follows.
    """
    if (yield EraseTrajectory(key, trajectory, by)):
        yield from sweep(key)
