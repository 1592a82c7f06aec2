"""Erasing: of rows that no reader sees, in slices, and of a trajectory and the person behind it."""

from collections.abc import Generator
from typing import Any, NamedTuple

from service.commands.out_of_turn import fit_anew
from service.commands.sessions import find_session
from service.fits.when_due import recount
from service.lift.add_to_sums import lift_sums_without
from service.rounds.retention import measurements_left, rounds_left
from service.rounds.timeline import timeline_of
from service.session.records import COMMAND_LINE, Actor, HiddenRows, SessionKey
from service.session.rules import has_only_sums
from service.storage.ports import EraseCursor
from service.writer.command import Command, session_command
from service.writer.large_writes import refuse_erasing
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork


class Erased(NamedTuple):
    """The note of the rows that a sweep erases, and where its last slice ended."""

    note: HiddenRows
    cursor: EraseCursor


@session_command
def erase_slice(
    uow: UnitOfWork, key: SessionKey, done: Erased | None = None, abandoned_by: str | None = None
) -> Erased | None:
    """Erase some hidden rows of a session, and their note with the last of them.

    `done` is what the slice before returned, `abandoned_by` the token of a writer that is known to
    be gone; any other writer has until `sweep_at`. Returns where to go on; None if nothing is left,
    or the rows are another's to write.
    """
    hidden = uow.locking.hidden_rows(key)
    if hidden is None:
        return None
    if hidden.writer is not None:
        if hidden.sweep_at > uow.now and hidden.writer != abandoned_by:
            return None
        hidden = hidden._replace(writer=None)
        uow.pending.hidden.append(hidden)  # the writer, if it lives, finds them not its own
    # another note hides other rows: since the slice before, the session was deleted, or another
    # sweep has come to its end and another log was begun
    cursor = uow.erase(hidden, done.cursor if done and done.note == hidden else None)
    if cursor is not None:
        return Erased(hidden, cursor)
    uow.pending.swept.append(key)
    session = uow.session(key)
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
    """Yield the commands that erase a session's hidden rows; see `erase_slice`."""
    done = yield erase_slice(key, None, abandoned_by)
    while done is not None:
        done = yield erase_slice(key, done, abandoned_by)


@session_command
def hide_trajectory(
    uow: UnitOfWork, key: SessionKey, trajectory: str, by: Actor = COMMAND_LINE
) -> bool:
    """Hide a trajectory from every reader and every fit, and note its rows for a sweep.

    Returns whether there are rows to erase. Raises 404 unknown_session; 422 where totals are stored
    under the key; 503 history_pending; 503 erasure_pending: another trajectory of the session is
    being erased.

    The session's counters keep counting its rounds and measurements, because positions are not
    given twice. The sums of the session's past go, and a fit is due that begins from nothing and
    adds up the rows that are left: so its estimate is equal to the bit to one of a session without
    these rows. Where the session has dropped rows, what is left of the trajectory is taken out of
    the sums; with a clock all of it leaves the sums of slots. The trajectory's units leave those of
    lift.
    """
    session = find_session(uow, key)
    if session.erasing == trajectory:
        return True
    refuse_erasing(session)
    timeline = timeline_of(session)
    timeline.refuse_erasing(trajectory)
    row = uow.trajectory((*key, trajectory))
    if row.n_decisions == 0:
        return False
    stored = uow.stored
    voids = stored.voids_of((*key, trajectory), 1, row.n_rounds)  # they have positions, too
    n_rounds = timeline.erased(session, row.n_rounds, rounds_left(stored, session, row))
    n_measurements = measurements_left(stored, session, row)
    changes = timeline.without(stored, session, trajectory)
    if has_only_sums(session):  # dropped rows are in no place but these
        # here: a server starts without what only fits need
        from service.fits.stored_sums import sums_without

        sums = sums_without(stored, session, trajectory)
        changes.kept_sums += [] if sums is None else [sums]
    else:
        changes.dropped_sums.append(key)
    session.erasing = trajectory
    session.n_trajectories -= 1
    session.n_erased_rounds += n_rounds
    session.n_erased_measurements += n_measurements + len(voids)
    uow.save(session)
    changes.lift_sums += lift_sums_without(stored, session, row)
    uow.write_rows(changes)
    uow.pending.hidden.append(HiddenRows(*key, trajectory, 0, None, uow.now))
    fit_anew(uow, session)
    # the key may say who it was: the entry does not hold it
    about = {"rounds": n_rounds, "measurements": n_measurements}
    note(uow, session.tenant, by, "trajectory_erased", session.id, **about)
    return True


def erase_trajectory(
    key: SessionKey, trajectory: str, by: Actor = COMMAND_LINE
) -> Generator[Command[Any], Any, None]:
    """Yield the commands that erase a trajectory.

    After the first one nobody sees it. The sweeper erases what is left if no other command follows.
    """
    if (yield hide_trajectory(key, trajectory, by)):
        yield from sweep(key)
