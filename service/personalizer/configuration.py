"""The session behind Personalizer's routes: how it is found and made, and what it is set to.

Its settings are GET and PUT of Personalizer's service configuration.
"""

import secrets
from dataclasses import fields as members
from datetime import timedelta
from typing import Annotated, Any, Literal, Required

from fastapi import Depends
from pydantic import Field, with_config
from starlette.types import Scope
from typing_extensions import TypedDict

from lhb_engine.agents import ALGORITHMS, make_options
from lhb_engine.randomness import SEED_LIMIT
from service.api.body_parsing import BodyParser
from service.api.routes import Call, Routes
from service.api.runtime import Service
from service.api.sessions import creation
from service.base.field_types import STRICT, Dim, Horizon, Number
from service.base.problems import Problem, ProblemCode
from service.commands.sessions import change_session, find_session, remove_session
from service.fits.cost import allowed_cost
from service.rounds.closing import closing_of
from service.session.records import Actor, DecisionRow, SessionKey, SessionRow, TrajectoryKey
from service.session.spec import DEFAULTS as SETTINGS_DEFAULTS
from service.session.spec import PLAIN
from service.writer.command import session_command
from service.writer.unit_of_work import UnitOfWork

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

    The seed is the session's own: without one, the same body would find a renamed session.
    """
    settings = {**body, "seed": secrets.randbelow(SEED_LIMIT)}
    try:
        session, _ = await service.writer.submit(creation(service, tenant, actor, settings))
    except Problem as problem:
        other = await find_loop(service, tenant, body["name"])
        if problem.code != ProblemCode.SESSION_CONFLICT or other is None:
            raise
        return other
    return session


def deferred_name(loop: SessionRow) -> str:
    """Return the name of the session that holds the deferred events of this one."""
    return f"{NAME} deferred {loop.id}"


async def find_decision(service: Service, key: TrajectoryKey, event_id: str) -> DecisionRow | None:
    """Return a decision by its event id, or None."""
    return await service.query(key[0], lambda reader: reader.decision(key, event_id), is_small=True)


def move_version(scope: Scope) -> None:
    """Put the dated version of a request's query into its path, as the others have theirs."""
    version_query = f"api-version={DATED}".encode()
    if scope.get("query_string") == version_query and scope["path"].startswith("/personalizer/"):
        scope["path"] = f"/personalizer/{DATED}/{scope['path'].removeprefix('/personalizer/')}"
        scope["raw_path"], scope["query_string"] = scope["path"].encode(), b""


def refuse_version(version: str) -> None:
    """Raise a 404 for a version that is not served."""
    if version not in VERSIONS:
        detail = f"there is no version {version!r}; served are {', '.join(VERSIONS)}"
        raise Problem(ProblemCode.UNKNOWN_ROUTE, detail)


router = Routes("/personalizer/{version}", dependencies=[Depends(refuse_version)])
CHANGING = {"options", "reward_wait_seconds"}  # of a session that has rounds
# a shadow learns from what the caller plays, in both modes in which Personalizer does not decide
MODES = {"Online": "live", "Apprentice": "shadow", "LoggingOnly": "shadow"}
AGGREGATIONS = {"single": "earliest", "sum": "sum"}  # by reward mode
FIXED = (
    "the session {!r} has {} rounds, and settings that fits have used do not change. "
    "Rename it, and this configuration begins a new one"
)


@with_config(STRICT)
class ServiceConfiguration(TypedDict, total=False):
    """Settings of Personalizer's configuration; `dim`, `horizon` and `algorithm` are ours."""

    rewardWaitTime: Required[Annotated[timedelta, Field(strict=False, ge=timedelta(0))]]
    defaultReward: Required[Number]
    rewardAggregation: Required[Literal["earliest", "sum"]]
    explorationPercentage: Required[Annotated[float, Field(ge=0, le=1)]]
    learningMode: Literal["Online", "Apprentice", "LoggingOnly"]
    dim: Dim
    horizon: Horizon
    # what has no meaning here is taken as it is sent
    modelExportFrequency: Any
    logRetentionDays: Any
    lastConfigurationEditDate: Any
    logMirrorEnabled: Literal[False] | None
    logMirrorSasUri: Literal[""] | None
    isAutoOptimizationEnabled: Literal[False] | None
    autoOptimizationFrequency: Any
    autoOptimizationStartDate: Any


CONFIGURATION = BodyParser(ServiceConfiguration)


@session_command
def remove_unused(uow: UnitOfWork, key: SessionKey, by: Actor) -> None:
    """Delete the session; 409 session_conflict if it has rounds, also since just now."""
    session = find_session(uow, key)
    if session.n_rounds:
        detail = FIXED.format(session.name, session.n_rounds)
        raise Problem(ProblemCode.SESSION_CONFLICT, detail)
    remove_session(key, by)(uow)


@router.serve("GET /configurations/service")
async def get_configuration(call: Call) -> dict[str, Any]:
    """Return the configuration; before the first call, what that call would begin with."""
    return configuration_of(await find_loop(call.service, call.tenant))


@router.serve("PUT /configurations/service", body=CONFIGURATION)
async def put_configuration(call: Call, fields: ServiceConfiguration) -> dict[str, Any]:
    """Make the session by a configuration, or again while it has no rounds.

    The learning mode, the wait and the exploration may change at any time.
    """
    _, service, tenant, actor = call
    session = await find_loop(service, tenant)
    before = settings_of(session)
    algorithm, options = before["algorithm"], dict(before["options"])
    if fields["explorationPercentage"] != _epsilon(algorithm, options):
        if "epsilon" not in {one.name for one in members(ALGORITHMS[algorithm].options_type)}:
            detail = f"{algorithm} explores as it needs, and takes no share of decisions"
            raise Problem(ProblemCode.BAD_OPTION, detail, "explorationPercentage")
        options["epsilon"] = fields["explorationPercentage"]
    body = {
        **before,
        "dim": fields.get("dim", before["dim"]),
        "horizon": fields.get("horizon", before["horizon"]),
        "options": options,
        "reward_mode": "sum" if fields["rewardAggregation"] == "sum" else "single",
        "reward_wait_seconds": fields["rewardWaitTime"].total_seconds(),
        "default_reward": fields["defaultReward"] + 0.0,
    }
    is_another = any(body[name] != before[name] for name in body.keys() - CHANGING)
    if session is not None and is_another:
        await service.writer.submit(remove_unused(session.key, actor))
        room = await find_loop(service, tenant, deferred_name(session))
        if room is not None:
            await service.writer.submit(remove_session(room.key, actor))
        session = None
    if session is None:
        session = await make_session(service, tenant, actor, body)
    changes = {name: body[name] for name in CHANGING if body[name] != getattr(session, name)}
    mode = MODES.get(fields.get("learningMode", ""))
    if mode is not None and mode != session.trial.mode:
        changes["mode"] = mode
    if changes:
        change = change_session(session.key, changes, actor, allowed_cost(service.settings))
        session = await service.writer.submit(change)
    return configuration_of(session)


def settings_of(session: SessionRow | None) -> dict[str, Any]:
    """Return a session's settings under the names of the body that creates one.

    `default_reward` is what a round without rewards counts: 0 in a sum, unless it was asked.
    """
    if session is None:
        return DEFAULTS
    settings = {name: getattr(session, name) for name in DEFAULTS}
    return settings | {"seed": None, "default_reward": closing_of(session).default}


def configuration_of(session: SessionRow | None) -> dict[str, Any]:
    """Return what Personalizer's configuration says of a session's settings."""
    body, is_live = settings_of(session), session is None or session.trial.mode == "live"
    return {
        "rewardWaitTime": timedelta(seconds=body["reward_wait_seconds"]),
        "defaultReward": body["default_reward"] or 0.0,
        "rewardAggregation": AGGREGATIONS[body["reward_mode"]],
        "explorationPercentage": _epsilon(body["algorithm"], body["options"]),
        "logRetentionDays": -1,  # Personalizer's word for: no log is deleted
        "learningMode": "Online" if is_live else "Apprentice",
        "dim": body["dim"],
        "horizon": body["horizon"],
    }


def _epsilon(algorithm: str, options: dict[str, Any]) -> float:
    return float(getattr(make_options(algorithm, options), "epsilon", 0.0))
