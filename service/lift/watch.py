"""Takes and stores the steps of comparisons, in the background too; trips guards that see harm."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import structlog

from lhb_engine.evaluation.lift import Lift
from service.base.problems import Unavailable
from service.base.recurring import Intervals, Recurring
from service.lift.add_to_sums import Step, next_step, sums_so_far
from service.rounds.timeline import timeline_of
from service.session.records import Actor, LiftSumsRow, SessionKey
from service.storage.ports import Changes
from service.storage.reader import Reader
from service.writer.command import session_command
from service.writer.group_commit import GroupCommit
from service.writer.notices import announce, note
from service.writer.unit_of_work import UnitOfWork

GUARD = Actor("guard", None)


@session_command
def keep_lift(uow: UnitOfWork, key: SessionKey, step: Step) -> bool | None:
    """Store a step that was read from committed rows, and return whether the guard has tripped.

    It trips, if it is armed, where the interval of lift then lies below zero. None: nothing is
    stored, as another process has gone on, or rows were erased since the step was read.
    """
    session = uow.session(key)
    if session is None or sums_so_far(uow.stored, session) != step.before:
        return None
    if session.n_erased_rounds != step.n_erased:
        return None
    trial = session.trial
    step.sums.add_point(trial, uow.now)
    is_armed = trial.guard == "armed"
    in_all = is_armed and step.sums.is_in_all
    lift = step.sums.lift(trial, in_all=in_all) if is_armed else None
    has_tripped = isinstance(lift, Lift) and lift.high < 0.0
    if isinstance(lift, Lift) and has_tripped:
        session.trial = trial.tripped(timeline_of(session).begun(session))
        uow.save(session)
        interval = {"difference": lift.difference, "low": lift.low, "high": lift.high}
        about: dict[str, Any] = {**interval, "in_all": in_all}
        note(uow, session.tenant, GUARD, "guard_tripped", session.id, name=session.name, **about)
        announce(uow, session, "guard_tripped", **about)
    place = (step.before.since, step.decided, step.measured)
    row = LiftSumsRow(*key, *place, step.sums.dumps())
    uow.write_rows(Changes(lift_sums=[row], lift_units=step.units))
    return has_tripped


T = TypeVar("T")
log = structlog.get_logger()
MOST_SESSIONS = 100  # of one look
MOST_STEPS = 20  # of a session before another one's turn, and of one request


class Running(Protocol):
    """The parts of the running service that sums are read and stored by."""

    writer: GroupCommit
    intervals: Intervals

    async def look(self, work: Callable[[Reader], T]) -> T:
        """Read one snapshot of the database in a reader thread."""


async def sum_up(service: Running, key: SessionKey) -> None:
    """Take steps of a session's comparison until nothing is left, `MOST_STEPS` at most."""

    def read(reader: Reader) -> Step | None:
        session = reader.session(key)
        if session is None or session.erasing is not None:
            return None
        return next_step(reader, session)

    for _ in range(MOST_STEPS):
        step = await service.look(read)
        if step is None:
            return
        if await service.writer.submit(keep_lift(key, step)):
            log.warning("guard_tripped", tenant=key[0], session=key[1])


class LiftWatch(Recurring):
    """Looks from time to time for sessions with rounds or rewards that are in no sums yet.

    Every server looks; two that take the same step store it once.
    """

    def __init__(self, service: Running) -> None:
        self._service = service
        self._last: SessionKey = ("", "")  # of the last look: each has its turn
        super().__init__("lift", lambda: service.intervals.lift, self._look)

    async def _look(self) -> None:
        """Sum up the sessions that have something new."""
        keys = await self._service.look(lambda one: one.unsummed(self._last, MOST_SESSIONS))
        self._last = keys[-1] if len(keys) == MOST_SESSIONS else ("", "")
        for key in keys:
            try:
                await sum_up(self._service, key)
            except Unavailable:
                raise
            except Exception:  # of this session alone: the others are summed
                log.exception("lift_not_summed", tenant=key[0], session=key[1])
