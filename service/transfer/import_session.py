"""Import a session: write its rows in slices that no reader sees, then show them at once."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from service.base.problems import Problem, ProblemCode
from service.base.session_ids import new_id
from service.commands.control import with_located_control
from service.commands.limits import NO_LIMITS, Limits
from service.commands.sessions import find_session
from service.fits.when_due import announce
from service.session.records import (
    COMMAND_LINE,
    Actor,
    DecisionRow,
    EstimateRow,
    KeptSumsRow,
    LiftSumsRow,
    LiftUnitRow,
    MeasurementRow,
    SessionKey,
    SessionRow,
    TrajectoryRow,
    VoidRow,
)
from service.storage.ports import Changes
from service.transfer.import_file import PreparedImport, read_slice
from service.transfer.import_fold import Row
from service.writer.command import Command
from service.writer.large_writes import LargeWrite, hide_for, own
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class BeginImport(Command[tuple[SessionRow, bool]]):
    """Command: give the session its id, and hide the rows to come.

    `mark`, the digest of the file, is the end of a named session's id; `writer` the token of this
    import.
    """

    session: SessionRow
    mark: str
    writer: str
    limits: Limits = NO_LIMITS

    def __call__(self, uow: UnitOfWork) -> tuple[SessionRow, bool]:
        """Return the session with its id and True, or the one that this import made before.

        Raises 409 session_conflict: another session has the name.
        """
        known = imported_before(uow, self.session, self.mark)
        if known is not None:
            return known, False
        self.limits.refuse_session(uow, self.session)
        with_located_control(uow, self.session)
        now, mark = uow.now, None if self.session.name is None else self.mark
        while True:  # the same file under another name may come within the id's millisecond
            session = replace(self.session, id=new_id(now, mark))
            if uow.session(session.key) is None and uow.hidden_rows(session.key) is None:
                break
            now += 0.001
        hide_for(uow, session.key, self.writer)
        return session, True


def imported_before(uow: UnitOfWork, session: SessionRow, mark: str) -> SessionRow | None:
    """Find the session that the same file made under the same name.

    Raises 409 session_conflict: there is none, and another session has the name.
    """
    if session.name is None:
        return None
    bearer = uow.session_named(session.tenant, session.name)
    if bearer is not None and bearer.id.endswith(mark):
        return bearer
    for session_id, _ in uow.stored.created_as(session.tenant, session.name):
        if session_id.endswith(mark):  # it has been renamed since
            return find_session(uow, (session.tenant, session_id))
    if bearer is None:
        return None
    detail = f"the name {session.name!r} is taken; give another one"
    raise Problem(ProblemCode.SESSION_CONFLICT, detail, "name")


@dataclass(frozen=True, slots=True)
class WriteSlice(Command[int | None]):
    """Command: write the slice of hidden rows at an offset of the file of slices."""

    key: SessionKey
    writer: str
    rows: Path
    offset: int

    def __call__(self, uow: UnitOfWork) -> int | None:
        """Return the next offset; None at the end."""
        own(uow, self.key, self.writer)
        rows, offset = read_slice(self.rows, self.offset)
        if not rows:
            return None
        uow.write_rows(changes_of(rows, self.key))
        return offset


def changes_of(rows: list[Row], key: SessionKey) -> Changes:
    """Return the rows of a slice as the session's own."""
    changes, (tenant, id) = Changes(), key
    tables: dict[type, list[Any]] = {
        DecisionRow: changes.decisions,
        MeasurementRow: changes.measurements,
        VoidRow: changes.voids,
        EstimateRow: changes.estimates,
        LiftUnitRow: changes.lift_units,
    }
    for row in rows:
        if isinstance(row, TrajectoryRow):
            changes.trajectories[*key, row.key] = replace(row, tenant=tenant, session_id=id)
        else:
            tables[type(row)].append(row._replace(tenant=tenant, session_id=id))
    return changes


@dataclass(frozen=True, slots=True)
class FinishImport(Command[tuple[SessionRow, bool]]):
    """Command: create the session, and so show its rows."""

    session: SessionRow
    mark: str
    writer: str
    state: str | None
    by: Actor
    sums: KeptSumsRow | None = None
    lift: LiftSumsRow | None = None

    def __call__(self, uow: UnitOfWork) -> tuple[SessionRow, bool]:
        """Return the session and whether it is new; the name may have been given since.

        Raises 409 session_conflict: another session has the name.
        """
        session = with_located_control(uow, replace(self.session))
        own(uow, session.key, self.writer)
        known = imported_before(uow, session, self.mark)
        if known is not None:
            return known, False
        uow.add_session(session)
        about = {"name": session.name, "algorithm": session.algorithm, "options": session.options}
        note(uow, session.tenant, self.by, "session_imported", session.id, **about)
        if self.state is not None:
            uow.pending.states[session.key] = self.state
        if self.sums is not None:
            sums = self.sums._replace(tenant=session.tenant, session_id=session.id)
            uow.pending.sums.append(sums)
        if self.lift is not None:
            lift = self.lift._replace(tenant=session.tenant, session_id=session.id)
            uow.pending.lift_sums.append(lift)
        uow.pending.swept.append(session.key)
        announce(uow, session)
        if session.wake_at is not None:
            uow.effects.timed[session.key] = session.wake_at
        return session, True


def import_session(
    prepared: PreparedImport,
    abandon: Callable[[SessionKey, str], None],
    by: Actor = COMMAND_LINE,
    limits: Limits = NO_LIMITS,
) -> LargeWrite[tuple[SessionRow, bool]]:
    """Yield the commands of an import; return the session and whether it is new.

    `abandon` is called with the session's key and this import's token if rows were written that
    nobody will show.
    """
    writer = secrets.token_hex(8)
    session, is_new = yield BeginImport(prepared.session, prepared.mark, writer, limits)
    if not is_new:
        return session, False
    is_shown = False
    try:
        offset: int | None = 0
        while offset is not None:
            offset = yield WriteSlice(session.key, writer, prepared.rows, offset)
        summed = prepared.sums, prepared.lift
        finish = FinishImport(session, prepared.mark, writer, prepared.state, by, *summed)
        found, is_shown = yield finish
        return found, is_shown
    finally:
        if not is_shown:
            abandon(session.key, writer)
