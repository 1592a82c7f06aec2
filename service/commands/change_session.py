"""The command that changes a session: its name, its archive, its mode, and options of its agent.

All rounds stay. What was learned does, too, where an option means no new model; one that means
another has all rounds fitted anew, and the estimate in use decides until then. The session keeps
the options that it had before, for replay (`service.session.option_changes`).
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from lhb_engine.agents import ALGORITHMS
from lhb_engine.agents.fit_cost import FitCost
from service.base.problems import Problem, ProblemCode
from service.commands.sessions import checked_agent, find_session, refuse_id_as_name
from service.fits.cost import refuse_costly
from service.fits.when_due import take_options, wait_longer
from service.rounds.timeline import timeline_of
from service.session.covariates import refuse_unmeasured
from service.session.option_changes import MOST_CHANGES
from service.session.records import COMMAND_LINE, Actor, SessionKey, SessionRow
from service.session.rules import check_dropped
from service.session.spec import PLAIN
from service.writer.command import SessionCommand
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class ChangeSession(SessionCommand[SessionRow]):
    """Command: rename, archive or take out of the archive, change mode, guard or options."""

    key: SessionKey
    changes: dict[str, Any]
    by: Actor = COMMAND_LINE
    allowed: FitCost | None = None  # what a fit may cost; None: anything

    def __call__(self, uow: UnitOfWork) -> SessionRow:
        """Change the session and return it."""
        session = find_session(uow, self.key)
        changed = self._with_options(session)
        names = {*self.changes, *(f"options.{name}" for name in self.changes.get("options", {}))}
        agent = checked_agent(changed, allow_oracles=True, asked=names)
        check_dropped(session, changed)
        if self.allowed is not None and changed.options != session.options:
            refuse_costly(changed, self.allowed)
        name = self.changes.get("name")
        if name is not None and name != session.name:
            refuse_id_as_name(name)
            if uow.session_named(session.tenant, name) is not None:
                raise Problem(ProblemCode.SESSION_CONFLICT, f"the name {name!r} is taken", "name")
            session.name = name
        archived = self.changes.get("archived")
        if archived is True and session.archived_at is None:
            session.archived_at = uow.now
        elif archived is False and session.archived_at is not None:
            session.archived_at = None
            uow.effects.timed[session.key] = uow.now
        session.trial = changed.trial
        more_wait = changed.reward_wait_seconds - session.reward_wait_seconds
        for setting in self.changes.keys() & {*PLAIN} - {"options"}:
            setattr(session, setting, getattr(changed, setting))
        take_options(uow, session, changed.options, agent)
        if more_wait:
            wait_longer(uow, session, more_wait)
        uow.save(session)
        note(uow, session.tenant, self.by, "session_changed", session.id, **self.changes)
        return session

    def _with_options(self, session: SessionRow) -> SessionRow:
        """Return the session with the options that it will have, which are checked.

        Raises 422 bad_option for an option that may not change, or has no such value; 409
        limit_reached after too many changes.
        """
        new_options = self.changes.get("options", {})
        kind = ALGORITHMS[session.algorithm].options_type
        may = {f.name for f in fields(kind) if f.metadata.get("changeable")}
        refuse_unmeasured(session, new_options)
        for option in new_options:
            if option not in may and new_options[option] != session.options.get(option):
                which = ", ".join(sorted(may)) or "none"
                detail = f"options that may change are {which}; a copy can have others (.../copy)"
                raise Problem(ProblemCode.BAD_OPTION, detail, f"options.{option}")
        options = {**session.options, **new_options}
        settings = {name: value for name, value in self.changes.items() if name in PLAIN}
        asked_trial = self.changes.get("mode"), self.changes.get("guard")
        n_slots = timeline_of(session).n_slots(session)
        begun = session.n_rounds, session.n_measurements
        trial = session.trial.changed(*asked_trial, *begun, n_slots)
        changed = replace(session, **{**settings, "options": options, "trial": trial})
        if session.revision == MOST_CHANGES and options != session.options:
            detail = f"its options changed {MOST_CHANGES} times already; a copy can have others"
            raise Problem(ProblemCode.LIMIT_REACHED, detail, "options")
        return changed


@dataclass(frozen=True, slots=True)
class EraseFeature(SessionCommand[None]):
    """Command: forget what a category is called, like ``user=bob``.

    Its column stays, and what was learned of it. If the category comes again, it is a new one.
    """

    key: SessionKey
    name: str
    by: Actor = COMMAND_LINE

    def __call__(self, uow: UnitOfWork) -> None:
        """Replace the name in the session.

        Raises 404 unknown_session or unknown_feature; 422 as `Names.without`; 503 history_pending.
        """
        session = find_session(uow, self.key)
        before = session.names
        session.names = before.without(self.name)
        uow.save(session)
        column = before.columns.index(self.name)  # the entry does not hold the name
        note(uow, session.tenant, self.by, "feature_erased", session.id, column=column)
