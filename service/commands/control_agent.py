"""Control may play another session's agent: which session that is, and what its agent plays."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lhb_engine.agents.scores import best_arms
from lhb_engine.history import Floats
from lhb_engine.randomness import Draw
from service.base.problems import Problem, ProblemCode
from service.base.session_ids import has_form_of_id
from service.commands.contexts import numbers_of
from service.session.names import NamedContexts
from service.session.records import SessionKey, SessionRow
from service.session.trial import ControlSession, HoldoutBody
from service.writer.agent_cache import Agents
from service.writer.unit_of_work import UnitOfWork


def located_control(
    uow: UnitOfWork, tenant: str, dim: int, policy: Mapping[str, Any]
) -> ControlSession:
    """Return the session whose agent control is to play, by id and name; its dim must be `dim`.

    The member ``session`` of `policy` is an id or a name; its ``name``, if any, is looked for where
    there is no such id: ids differ from server to server.
    """
    wanted = policy["session"]
    session = uow.session((tenant, wanted)) if has_form_of_id(wanted) else None
    name = policy.get("name", wanted)
    if session is None and name is not None and not has_form_of_id(name):
        session = uow.session_named(tenant, name)
    if session is None:
        detail = f"there is no session {name or wanted!r}, whose agent control is to play"
    elif session.dim != dim:
        detail = f"contexts of session {wanted!r} have {session.dim} numbers, not {dim}"
    else:
        return {"session": session.id, "name": session.name}
    raise Problem(ProblemCode.BAD_OPTION, detail, "holdout.policy.session")


def with_control(
    uow: UnitOfWork, tenant: str, dim: int, body: HoldoutBody | None
) -> dict[str, Any] | None:
    """Return a holdout that is asked for; the session whose agent control plays is located."""
    if body is None or not isinstance(body["policy"], dict):
        return None if body is None else {**body}
    return {**body, "policy": located_control(uow, tenant, dim, body["policy"])}


def with_located_control(uow: UnitOfWork, session: SessionRow) -> SessionRow:
    """Return an imported session with the control that it has here; it must be here before."""
    trial = session.trial
    if trial.control is None:
        return session
    try:
        control = located_control(uow, session.tenant, session.dim, trial.control)
    except Problem as problem:
        detail = f"{problem.detail}: import that session first, under its name"
        raise Problem(ProblemCode.BAD_OPTION, detail, "header.session.trial") from None
    return replace(session, trial=replace(trial, policy=control))


def refuse_if_control(uow: UnitOfWork, key: SessionKey) -> None:
    """Raise a 409 if another session's control plays this session's agent."""
    if users := uow.stored.controlled_by(key):
        detail = (
            f"control of session {users[0]!r} plays this session's agent: delete that one first"
        )
        raise Problem(ProblemCode.IN_USE, detail, "session_id")


def control_arm(
    uow: UnitOfWork, agents: Agents, key: SessionKey, contexts: Floats | NamedContexts, draw: Draw
) -> int:
    """Return the arm that a session's estimate scores best; without an estimate, any arm.

    The session is read, not locked: its rounds do not wait for these. Names in contexts become
    numbers by its columns; `draw` breaks ties. Raises 422: these are no contexts for that session.
    """
    session = uow.unlocked_session(key)
    if session is None:
        detail = f"control plays the agent of session {key[1]!r}, which is gone"
        raise Problem(ProblemCode.UNKNOWN_SESSION, detail, "holdout.policy.session")
    numbers, _ = numbers_of(session, contexts)
    assert numbers is not None
    best = best_arms(agents.get(uow, session).scores(numbers))
    return best[0] if len(best) == 1 else best[draw.below(len(best), "control")]
