"""Fits beside the schedule: of many new rewards, asked for, and after somebody was erased."""

from dataclasses import replace
from typing import Literal

from service.base.problems import Problem, ProblemCode
from service.commands.sessions import find_session, refuse_archived
from service.fits.warm_start import beginning
from service.fits.when_due import LEAST, fit_now, pending, start_next
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import DueFit
from service.session.records import SessionKey, SessionRow
from service.writer.agent_cache import Agents, build_agent
from service.writer.command import session_command
from service.writer.unit_of_work import UnitOfWork

# What asking for a fit did. begun: a fit is due now. due: one was due already, and no other begins.
# nothing_new: all rewards are in the last fit.
Asked = Literal["begun", "due", "nothing_new"]


def fit_log(uow: UnitOfWork, session: SessionRow, agents: Agents) -> None:
    """Make a fit of all rounds due after a log was appended, in place of one that waits so."""
    schedule, n = session.schedule, session.n_measurements
    if n >= LEAST and n > schedule.seen:
        schedule.waiting = [due for due in schedule.waiting if due.reason != "stale"]
        fit_now(uow, session, agents.get(uow, session), "stale", uow.now)


def fit_anew(uow: UnitOfWork, session: SessionRow) -> None:
    """Make a fit due that replaces the estimate in use: somebody was erased of whom it may know.

    A fit that is due already does so, too. An algorithm that fits only at the ends of its epochs
    makes its last fit again.
    """
    record = uow.stored.installed(session)
    if record is None or pending(session):
        return
    if not fit_now(uow, session, build_agent(session, None), "erased", uow.now):
        last = DueFit.from_json({**record.inputs, "retry_at": None})
        due = replace(last, reason="erased", due_at=uow.now, attempts=0)
        session.schedule.waiting.append(due)
        start_next(uow, session, uow.now)
        uow.save(session)


@session_command
def ask_fit(uow: UnitOfWork, key: SessionKey, agents: Agents) -> tuple[Asked, DueFit | None]:
    """Make a fit of all rounds so far due, unless one is due or nothing is new.

    Returns what was done, and the fit that is due. Raises 409 fits_by_epochs: the algorithm fits
    only at the ends of its epochs.
    """
    session = find_session(uow, key)
    refuse_archived(session)
    due = pending(session)
    if due is not None:
        return "due", due
    agent = agents.get(uow, session)
    n_begun = timeline_of(session).n_begun(session)
    if n_begun and agent.fit_now(n_begun) is None:
        detail = f"{session.algorithm} fits at the ends of its epochs, and at no other time"
        raise Problem(ProblemCode.FITS_BY_EPOCHS, detail)
    if not _is_new(uow, session):
        return "nothing_new", None
    fit_now(uow, session, agent, "asked", uow.now)
    return "begun", pending(session)


def _is_new(uow: UnitOfWork, session: SessionRow) -> bool:
    """Whether a fit would read anything that the last one could not."""
    if timeline_of(session).n_begun(session) == 0 or session.n_measurements == 0:
        return False
    if closing_of(session).is_by_time:
        return True  # time may have closed rounds
    if beginning(uow.stored, session, session.revision).is_new:
        return True
    last = uow.stored.estimate(session.key, session.n_estimates)
    is_done = last is not None and last.status != "failed"
    return not is_done or session.schedule.seen != session.n_measurements
