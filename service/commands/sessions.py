"""Commands that create, change and delete a session."""

import json
import secrets
from collections.abc import Callable, Container
from dataclasses import fields, replace
from typing import Any

from lhb_engine.agents import ALGORITHMS, Agent, OptionError
from lhb_engine.agents.fit_cost import FitCost
from lhb_engine.randomness import SEED_LIMIT
from service.base.problems import Problem, ProblemCode
from service.base.session_ids import has_form_of_id, new_id
from service.commands.control_agent import refuse_if_control, with_control
from service.commands.limits import NO_LIMITS, Limits
from service.fits.cost import refuse_costly
from service.fits.when_due import take_options, wait_longer
from service.rounds.timeline import timeline_of
from service.session.fit_schedule import OpenWindow
from service.session.names import NO_NAMES, Names, check_names, computed_labels
from service.session.records import COMMAND_LINE, MOST_CHANGES, Actor, SessionKey, SessionRow
from service.session.rules import CHANGES, Step, check_rules
from service.session.slot_clock import new_clock
from service.session.spec import PLAIN, SessionSpec, canonical
from service.session.trial import new_trial
from service.storage.ports import Changes
from service.writer.agent_cache import build_agent
from service.writer.command import command, session_command
from service.writer.large_writes import refuse_appending
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork


def find_session(uow: UnitOfWork, key: SessionKey) -> SessionRow:
    """Return the session.

    Raises 404 unknown_session, or 503 history_pending.
    """
    session = uow.session(key)
    if session is None:
        raise unknown_session(key[1])
    refuse_appending(session)
    return session


def unknown_session(session_id: str) -> Problem:
    """Build a 404: there is no such session."""
    return Problem(ProblemCode.UNKNOWN_SESSION, f"there is no session {session_id!r}", "session_id")


def refuse_id_as_name(name: str) -> None:
    """Raise a 422 if a name has the form of an id: routes would not find the session by it."""
    if has_form_of_id(name):
        detail = "23 hexadecimal digits are the form of an id, and no name"
        raise Problem(ProblemCode.INVALID, detail, "name")


def refuse_archived(session: SessionRow) -> None:
    """Raise a 409 if the session is archived."""
    if session.archived_at is not None:
        raise Problem(ProblemCode.ARCHIVED, "the session is archived: it can be read, not changed")


@command
def create_session(
    uow: UnitOfWork,
    tenant: str,
    request: dict[str, Any],
    allow_oracles: bool,
    allowed: FitCost | None = None,
    by: Actor = COMMAND_LINE,
    limits: Limits = NO_LIMITS,
) -> tuple[SessionRow, bool]:
    """Make a session, or find the one that the same name and body created before.

    A fit may cost what is `allowed`; None: anything. Returns it, and whether it is new.
    """
    name = request.get("name")
    spec = SessionSpec.of({k: value for k, value in request.items() if k != "name"})
    canonical_text = canonical({"name": name, **spec.given})
    if name is not None:
        conflict = f"a session {name!r} exists already and was created with another body"
        session_before = made_before(
            uow, tenant, name, lambda _, text: _canonical(text) == canonical_text, conflict
        )
        if session_before is not None:
            return session_before, False
        refuse_id_as_name(name)
    session = _session(uow, tenant, name, spec, canonical_text)
    limits.refuse_session(uow, session)
    agent = checked_agent(session, allow_oracles, spec.given)
    if allowed is not None:
        refuse_costly(session, allowed)
    window = agent.next_fit(0)
    if window is not None:
        session.schedule.open.append(OpenWindow(window))
    uow.add_session(session)
    about = {"name": session.name, "algorithm": session.algorithm, "options": session.options}
    note(uow, session.tenant, by, "session_created", session.id, **about)
    return session, True


def made_before(
    uow: UnitOfWork, tenant: str, name: str, is_it: Callable[[str, str], bool], conflict: str
) -> SessionRow | None:
    """Find what was made as `name`, whatever its name is now; `is_it` is asked of its id and body.

    409 session_conflict, in these words: there is none, and another session bears the name.
    """
    bearer = uow.session_named(tenant, name)
    if bearer is not None and is_it(bearer.id, bearer.request):
        return bearer
    for session_id, text in uow.stored.created_as(tenant, name):
        if is_it(session_id, text):
            return find_session(uow, (tenant, session_id))
    if bearer is None:
        return None
    raise Problem(ProblemCode.SESSION_CONFLICT, conflict, "name")


def _session(
    uow: UnitOfWork, tenant: str, name: str | None, spec: SessionSpec, request: str
) -> SessionRow:
    seed = secrets.randbelow(SEED_LIMIT) if spec.seed is None else spec.seed
    holdout = with_control(uow, tenant, spec.dim, spec.holdout)
    return SessionRow(
        tenant=tenant,
        id=new_id(uow.now),
        name=name,
        **{**spec.plain, "seed": seed},
        request=request,
        created_at=uow.now,
        created_as=name,
        names=first_names(spec),
        trial=new_trial(spec.mode, holdout),
        clock=new_clock(spec.clock, uow.now, spec.horizon),
    )


@session_command
def remove_session(uow: UnitOfWork, key: SessionKey, by: Actor = COMMAND_LINE) -> None:
    """Delete the session and all its rows.

    404 where there is none, 409 where control of another plays its agent.
    """
    session = uow.session(key)
    if session is None:
        raise unknown_session(key[1])
    refuse_if_control(uow, key)
    uow.delete_session(session)
    note(uow, session.tenant, by, "session_deleted", session.id, name=session.name)


def first_names(spec: SessionSpec) -> Names:
    """Return the names that a new session is given, which are checked."""
    products, repetition = spec.products or (), spec.repetition or 0
    columns = (*(spec.features or ()), *computed_labels(products, repetition))
    parts: Any = {"columns": columns, "categories": spec.categories, "arms": spec.arms}
    parts |= {"products": products, "repetition": repetition}
    check_names(parts, spec.dim)
    names = Names(**parts)
    return names if names.are_given else NO_NAMES


def checked_agent(
    session: SessionRow,
    allow_oracles: bool,
    asked: Container[str] = (),
    before: SessionRow | None = None,
    steps: tuple[Step, ...] = CHANGES,
) -> Agent:
    """Check a session that will be stored, and build its agent before any fit.

    Raises what `check_rules`, which has the same arguments, raises; 422 for an unknown algorithm or
    option, and for an algorithm that must be told the truth.
    """
    algorithm = session.algorithm
    kind = ALGORITHMS.get(algorithm)
    if kind is None:
        listed = ", ".join(
            sorted(n for n, a in ALGORITHMS.items() if allow_oracles or not a.needs_truth)
        )
        detail = f"there is no algorithm {algorithm!r}; choose one of {listed}"
        raise Problem(ProblemCode.UNKNOWN_ALGORITHM, detail, "algorithm")
    if kind.needs_truth and not allow_oracles:
        detail = f"{algorithm} must be given the true parameters, which this server does not allow"
        raise Problem(ProblemCode.ORACLE_REFUSED, detail, "algorithm")
    try:
        agent = build_agent(session, None)
        agent.next_fit(0)  # a schedule that cannot begin is an option's fault too
    except OptionError as error:
        of_dim = error.option == "dim" and "dim" not in session.options  # no option: too large
        field = "dim" if of_dim else f"options.{error.option}"
        raise Problem(ProblemCode.BAD_OPTION, f"{field}: {error.message}", field) from None
    except TypeError as error:
        detail = f"an option has the wrong type: {error}"
        raise Problem(ProblemCode.BAD_OPTION, detail, "options") from None
    except (OverflowError, MemoryError):
        raise Problem(ProblemCode.BAD_OPTION, "an option is too large", "options") from None
    check_rules(session, asked, before, steps)
    return agent


def _canonical(request: str) -> str:
    """Return a stored request in today's form: an imported one may differ in order and numbers."""
    try:
        return canonical(json.loads(request))
    except (ValueError, RecursionError):
        return ""


@session_command
def change_session(
    uow: UnitOfWork,
    key: SessionKey,
    changes: dict[str, Any],
    by: Actor = COMMAND_LINE,
    allowed: FitCost | None = None,
) -> SessionRow:
    """Rename, archive or take out of the archive, change mode, guard or options.

    A fit may cost what is `allowed`; None: anything. All rounds stay. What was learned does, too,
    where an option means no new model; one that means another has all rounds fitted anew, and the
    estimate in use decides until then. The session keeps the options that it had before, for replay
    (`OptionChanges`).
    """
    session = find_session(uow, key)
    changed = _changed(session, changes)
    names = {*changes, *(f"options.{name}" for name in changes.get("options", {}))}
    agent = checked_agent(changed, True, names, session)
    _refuse_other_options(session, changed)
    if allowed is not None and changed.options != session.options:
        refuse_costly(changed, allowed)
    name = changes.get("name")
    if name is not None and name != session.name:
        refuse_id_as_name(name)
        if uow.session_named(session.tenant, name) is not None:
            raise Problem(ProblemCode.SESSION_CONFLICT, f"the name {name!r} is taken", "name")
        session.name = name
    archived = changes.get("archived")
    if archived is True and session.archived_at is None:
        session.archived_at = uow.now
    elif archived is False and session.archived_at is not None:
        session.archived_at = None
        uow.effects.timed[session.key] = uow.now
    if changed.drops_rows and not session.drops_rows:  # the next fit sums all slots anew
        uow.write_rows(Changes(dropped_slots=[(key, 1)]))
    session.trial = changed.trial
    more_wait = changed.reward_wait_seconds - session.reward_wait_seconds
    for setting in changes.keys() & {*PLAIN} - {"options"}:
        setattr(session, setting, getattr(changed, setting))
    take_options(uow, session, changed.options, agent)
    if more_wait:
        wait_longer(uow, session, more_wait)
    uow.save(session)
    note(uow, session.tenant, by, "session_changed", session.id, **changes)
    return session


def _refuse_other_options(session: SessionRow, changed: SessionRow) -> None:
    """Raise a 422 bad_option for an option that may not change, a 409 after too many changes."""
    may = {f.name for f in fields(session.kind.options_type) if f.metadata.get("changeable")}
    for option, value in changed.options.items():
        if option not in may and value != session.options.get(option):
            which = ", ".join(sorted(may)) or "none"
            detail = f"options that may change are {which}; a copy can have others (.../copy)"
            raise Problem(ProblemCode.BAD_OPTION, detail, f"options.{option}")
    if session.revision == MOST_CHANGES and changed.options != session.options:
        detail = f"its options changed {MOST_CHANGES} times already; a copy can have others"
        raise Problem(ProblemCode.LIMIT_REACHED, detail, "options")


def _changed(session: SessionRow, changes: dict[str, Any]) -> SessionRow:
    """Return the session as it will be."""
    options = {**session.options, **changes.get("options", {})}
    settings = {name: value for name, value in changes.items() if name in PLAIN}
    asked_trial = changes.get("mode"), changes.get("guard")
    trial = session.trial.changed(*asked_trial, timeline_of(session).begun(session))
    return replace(session, **{**settings, "options": options, "trial": trial})


@session_command
def erase_feature(uow: UnitOfWork, key: SessionKey, name: str, by: Actor = COMMAND_LINE) -> None:
    """Forget what a category is called, like ``user=bob``: replace the name in the session.

    Its column stays, and what was learned of it. If the category comes again, it is a new one.
    Raises 404 unknown_session or unknown_feature; 422 as `Names.without`; 503 history_pending.
    """
    session = find_session(uow, key)
    before = session.names
    session.names = before.without(name)
    uow.save(session)
    column = before.columns.index(name)  # the entry does not hold the name
    note(uow, session.tenant, by, "feature_erased", session.id, column=column)
