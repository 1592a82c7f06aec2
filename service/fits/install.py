"""The command that records a fit's result: it installs the estimate or schedules a retry."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from lhb_engine.agents import OptionError, make_options
from lhb_engine.estimate import Estimate
from service.base.problems import Problem
from service.fits.fit_answer import Fitted
from service.fits.fit_row import record_fit
from service.fits.warm_start import beginning
from service.fits.when_due import fit_anew_by_options, fit_unread, start_next, take_options
from service.rounds.slot_sums import keep_settled
from service.session.fit_schedule import DueFit
from service.session.records import MOST_CHANGES, Actor, SessionKey, SessionRow
from service.session.rules import check_rules, model_of
from service.writer.agent_cache import Agents, build_agent
from service.writer.command import SessionCommand
from service.writer.large_writes import refuse_appending
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork

FIT = Actor("fit", None)


@dataclass(frozen=True, slots=True)
class FinishFit(SessionCommand[str | None]):
    """Command: record the result of the running fit, and install its estimate if it has one.

    A fit has at most so many `attempts`. Every pause but the first is twice the one before.
    """

    key: SessionKey
    due: int
    fitted: Fitted
    agents: Agents
    attempts: int = 5
    retry_seconds: float = 1.0  # before the second attempt

    def __call__(self, uow: UnitOfWork) -> str | None:
        """Return the recorded status; None if the session's running fit is another one by now.

        Somebody may have been erased while the fit ran. Then the fit runs again. Or options changed
        that mean another model. Then one with them does.
        """
        session = uow.session(self.key)
        if session is None or session.fit_due != self.due:
            return None
        refuse_appending(session)
        due = session.schedule.current
        assert due is not None
        session.schedule.current, status = None, None
        if model_of(session, due.known.revision) != model_of(session):
            fit_anew_by_options(uow, session, [due])
        elif self.fitted.n_erased not in (None, session.n_erased_rows):
            session.schedule.waiting.append(due)
        elif self.fitted.estimate is None:
            status = self._fail(uow, session, due)
        else:
            status = self._install(uow, session, due)
            _take_advice(uow, session, self.fitted.estimate)
            if session.refit != "blocking":  # else a decision that waited goes on
                fit_unread(uow, session, self.agents, uow.now)
        start_next(uow, session, uow.now)
        uow.save(session)
        uow.effects.installed.add(session.key)
        return status

    def _fail(self, uow: UnitOfWork, session: SessionRow, due: DueFit) -> str:
        due.attempts += 1
        if due.attempts < self.attempts and not self.fitted.is_final:
            due.retry_at = uow.now + self.retry_seconds * 2 ** (due.attempts - 1)
            session.schedule.waiting.append(due)
        self.agents.get(uow, session)
        record_fit(uow, session, due, "failed", self.fitted.reason)
        return "failed"

    def _install(self, uow: UnitOfWork, session: SessionRow, due: DueFit) -> str:
        assert self.fitted.estimate is not None
        estimate = Estimate.from_json(self.fitted.estimate)
        begun = beginning(uow.stored, session, due.known.revision)
        agent = (self.agents.anew if begun.is_new else self.agents.get)(uow, session)
        agent.install(estimate)
        has_direction, in_use = estimate.theta is not None, None
        if has_direction or begun.is_new:
            in_use = session.n_estimates + 1 if has_direction else 0
        notes = {"n_erased": begun.n_erased}
        if self.fitted.sums is not None:
            notes["anew"] = self.fitted.sums.row.anew
        record_fit(uow, session, due, estimate.status, estimate.message, self.fitted, notes, in_use)
        if self.fitted.sums is not None:
            diagnostics = (estimate.diagnostics or {}) if has_direction else None
            row = self.fitted.sums.kept(session, diagnostics)
            uow.pending.kept_sums += [] if row is None else [row]
        if self.fitted.settled is not None:
            keep_settled(uow, session, self.fitted.settled)
        _skip_before(uow, session, due)
        uow.save_agent(session.key)
        return estimate.status


def _take_advice(uow: UnitOfWork, session: SessionRow, estimate: Mapping[str, Any]) -> None:
    """Add what a fit found to the options, as a change of options does.

    A finding stays where its option is told false, rows were dropped, or the agent cannot take it.
    """
    options, taken = make_options(session.algorithm, session.options), dict[str, Any]()
    for name, one in options.advised(estimate.get("findings", ())).items():
        changed = replace(session, options=session.options | taken | {name: one})
        with suppress(OptionError, Problem):
            build_agent(changed, None)
            check_rules(changed, before=session)
            taken |= {} if session.options.get(name) is False else {name: one}
    if taken and session.revision < MOST_CHANGES:
        changed = replace(session, options=session.options | taken)
        take_options(uow, session, changed.options, build_agent(changed, None))
        note(uow, session.tenant, FIT, "session_changed", session.id, options=taken)


def _skip_before(uow: UnitOfWork, session: SessionRow, done: DueFit) -> None:
    """Record older fits as skipped, in order: these know less than the one that is done."""
    schedule = session.schedule
    reason = f"overtaken by the fit of epoch {done.window.epoch}"
    waiting = [due for due in schedule.waiting if due.key < done.key]
    open_ones = [one for one in schedule.open if one.window.due < done.key]
    never = [DueFit.never(one.window, uow.now) for one in open_ones]
    schedule.waiting = [due for due in schedule.waiting if due not in waiting]
    schedule.open = [one for one in schedule.open if one not in open_ones]
    for due in sorted([*waiting, *never], key=lambda due: due.key):
        record_fit(uow, session, due, "skipped", reason)
