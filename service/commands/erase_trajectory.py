"""Erasing: of rows that no reader sees, in slices, and of a trajectory and the person behind it."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from service.commands.out_of_turn import fit_anew
from service.commands.sessions import find_session
from service.fits.when_due import recount
from service.lift.steps import lift_sums_without
from service.rounds.retention import measurements_left, rounds_left
from service.rounds.timeline import timeline_of
from service.session.records import COMMAND_LINE, Actor, HiddenRows, SessionKey
from service.session.rules import has_only_sums
from service.storage.ports import EraseCursor, Keys
from service.writer.command import Command, SessionCommand
from service.writer.large_writes import refuse_erasing
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork


class Erased(NamedTuple):
    """The note of the rows that a sweep erases, and where its last slice ended."""

    note: HiddenRows
    cursor: EraseCursor


@dataclass(frozen=True, slots=True)
class EraseSlice(SessionCommand[Erased | None]):
    """Command: erase some hidden rows of a session, and their note with the last of them."""

    key: SessionKey
    done: Erased | None = None  # what the slice before returned
    # the token of a writer that is known to be gone; any other writer has until `sweep_at`
    abandoned_by: str | None = None

    def __call__(self, uow: UnitOfWork) -> Erased | None:
        """Return where to go on; None if nothing is left, or the rows are another's to write."""
        hidden = uow.hidden_rows(self.key)
        if hidden is None:
            return None
        if hidden.writer is not None:
            if hidden.sweep_at > uow.now and hidden.writer != self.abandoned_by:
                return None
            hidden = hidden._replace(writer=None)
            uow.pending.hidden.append(hidden)  # the writer, if it lives, finds them not its own
        # another note hides other rows: since the slice before, the session was deleted, or another
        # sweep has come to its end and another log was begun
        done = self.done
        cursor = uow.erase(hidden, done.cursor if done and done.note == hidden else None)
        if cursor is not None:
            return Erased(hidden, cursor)
        uow.pending.swept.append(self.key)
        session = uow.session(self.key)
        if session is not None:
            was_erasing = session.erasing is not None
            session.append_token = session.erasing = None
            if was_erasing:
                recount(uow, session)
            uow.save(session)
        return None


def sweep(
    key: SessionKey, *, abandoned_by: str | None = None
) -> Generator[Command[Erased | None], Erased | None, None]:
    """Yield the commands that erase a session's hidden rows; see `EraseSlice`."""
    done = yield EraseSlice(key, None, abandoned_by)
    while done is not None:
        done = yield EraseSlice(key, done, abandoned_by)


@dataclass(frozen=True, slots=True)
class EraseTrajectory(SessionCommand[bool]):
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

        Raises 404 unknown_session; 422 where totals are stored under the key; 503 history_pending;
        503 erasure_pending: another trajectory of the session is being erased.
        """
        session = find_session(uow, self.key)
        if session.erasing == self.trajectory:
            return True
        refuse_erasing(session)
        timeline = timeline_of(session)
        timeline.refuse_erasing(self.trajectory)
        key = (*self.key, self.trajectory)
        trajectory = uow.trajectory(key)
        if trajectory.n_decisions == 0:
            return False
        stored = uow.stored
        n_voids = len(stored.voids_of(key, 1, trajectory.n_rounds))  # they have positions, too
        n_rounds = rounds_left(stored, session, trajectory)
        n_measurements = measurements_left(stored, session, trajectory)
        changes = timeline.without(stored, session, self.trajectory)
        if has_only_sums(session):  # dropped rows are in no place but these
            # here: a server starts without what only fits need
            from service.fits.prepared_fit import sums_without

            sums = sums_without(stored, session, self.trajectory)
            changes.kept_sums += [] if sums is None else [sums]
        else:
            changes.dropped_sums.append(self.key)
        session.erasing = self.trajectory
        session.n_trajectories -= 1
        session.n_erased_rounds += n_rounds
        session.n_erased_measurements += n_measurements + n_voids
        uow.save(session)
        changes.lift_sums += lift_sums_without(stored, session, trajectory)
        uow.write_rows(changes)
        uow.pending.hidden.append(HiddenRows(*self.key, self.trajectory, 0, None, uow.now))
        fit_anew(uow, session)
        # the key may say who it was: the entry does not hold it
        about = {"rounds": n_rounds, "measurements": n_measurements}
        note(uow, session.tenant, self.by, "trajectory_erased", session.id, **about)
        return True


def erase_trajectory(
    key: SessionKey, trajectory: str, by: Actor = COMMAND_LINE
) -> Generator[Command[Any], Any, None]:
    """Yield the commands that erase a trajectory.

    After the first one nobody sees it. The sweeper erases what is left if no other command follows.
    """
    if (yield EraseTrajectory(key, trajectory, by)):
        yield from sweep(key)
