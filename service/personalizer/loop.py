"""The session behind Personalizer's routes: how it is found and made."""

import secrets
from typing import Annotated, Any

from fastapi import Depends
from starlette.types import Scope

from lhb_engine.randomness import SEED_LIMIT
from service.api.runtime import Service
from service.base.problems import Problem, ProblemCode
from service.commands.sessions import CreateSession
from service.fits.cost import allowed_cost
from service.session.records import Actor, DecisionRow, SessionRow, TrajectoryKey
from service.session.spec import DEFAULTS as SETTINGS_DEFAULTS
from service.session.spec import PLAIN

NAME = "personalizer"
# the body of the session that a first call makes: what Personalizer begins with, but for the dim,
# the horizon and the share of uniform decisions. Without these an agent whose rewards are its own
# rounds' alone may stay with what it knows
DEFAULTS: dict[str, Any] = {
    **{name: SETTINGS_DEFAULTS[name] for name in PLAIN},
    "name": NAME,
    "dim": 64,
    "horizon": 1,
    "options": {"epsilon": 0.1},
    "reward_wait_seconds": 600.0,
    "default_reward": 0.0,
}
PATH = "/personalizer/{version}"
DATED = "2022-09-01-preview"  # the version that stands in the query, not in the path
# of its contract; their rank and events are the same
VERSIONS = ("v1.0", "v1.1-preview", *(f"v1.1-preview.{n}" for n in (1, 2, 3)), DATED)


async def find_loop(service: Service, tenant: str, name: str = NAME) -> SessionRow | None:
    """Return the tenant's session of this name, or None."""
    return await service.query(
        tenant, lambda reader: reader.session_named(tenant, name), is_small=True
    )


async def make_session(
    service: Service, tenant: str, actor: Actor, body: dict[str, Any]
) -> SessionRow:
    """Create a session as POST /v1/sessions does, unless another request has just made it.

    It has a seed of its own: the same body without one would find a session that was renamed.
    """
    create = CreateSession(
        tenant,
        {**body, "seed": secrets.randbelow(SEED_LIMIT)},
        service.settings.allow_oracles,
        allowed_cost(service.settings),
        actor,
        service.limits,
    )
    try:
        session, _ = await service.writer.submit(create)
    except Problem as problem:
        other = await find_loop(service, tenant, body["name"])
        if problem.code != ProblemCode.SESSION_CONFLICT or other is None:
            raise
        return other
    return session


async def waiting_room(service: Service, actor: Actor, loop: SessionRow) -> SessionRow:
    """Return the session that holds deferred events until they are activated.

    It gets no rewards and so learns nothing: an event that is never activated stays without effect.
    """
    name = deferred_name(loop)
    room = await find_loop(service, loop.tenant, name)
    body = {"name": name, "algorithm": "uniform", "dim": loop.dim, "horizon": 1}
    return room or await make_session(service, loop.tenant, actor, body)


def deferred_name(loop: SessionRow) -> str:
    """Return the name of the session that holds the deferred events of this one."""
    return f"{NAME} deferred {loop.id}"


async def find_decision(service: Service, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
    """Return a decision by its event id, or None."""
    return await service.query(key[0], lambda reader: reader.decision(key, event_id), is_small=True)


def move_version(scope: Scope) -> None:
    """Put the dated version of a request's query into its path, as the others have theirs."""
    asked = f"api-version={DATED}".encode()
    if scope.get("query_string") == asked and scope["path"].startswith("/personalizer/"):
        scope["path"] = f"/personalizer/{DATED}/{scope['path'].removeprefix('/personalizer/')}"
        scope["raw_path"], scope["query_string"] = scope["path"].encode(), b""


def refuse_version(version: str) -> str:
    """Return a version that is served; raise a 404 for another."""
    if version not in VERSIONS:
        detail = f"there is no version {version!r}; served are {', '.join(VERSIONS)}"
        raise Problem(ProblemCode.UNKNOWN_ROUTE, detail)
    return version


Version = Annotated[str, Depends(refuse_version)]
