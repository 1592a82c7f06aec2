"""Rank, reward and activate: Personalizer's events, as decisions and rewards of one session."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Required
from urllib.parse import unquote
from uuid import uuid4

import numpy as np
from fastapi import Request
from pydantic import FailFast, Field, with_config
from typing_extensions import TypeAliasType, TypedDict

from lhb_engine.history import Floats
from lhb_engine.randomness import Draw
from service.api.body_parsing import BodyParser
from service.api.decisions import read_decision, refuse_repeated, take
from service.api.request_bodies import MAX_ARMS, DecisionBody
from service.api.rewards import made_receive, receive_parts
from service.api.routes import Call
from service.api.runtime import READ_AT_ONCE_BYTES, Service
from service.base.field_types import MOST_LETTERS, STRICT, ArmIds, ClientId, Key, Number
from service.base.loop_slices import SlicedWork
from service.base.problems import Problem, ProblemCode
from service.personalizer.configuration import (
    DEFAULTS,
    deferred_name,
    find_decision,
    find_loop,
    make_session,
    router,
)
from service.personalizer.features import Features, hashed_contexts, read_features
from service.rounds.closing import closing_of
from service.session.records import DecisionRow, SessionRow
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent

BASELINE = 0  # the first action: what the caller shows where the agent does not choose
TRAJECTORY = "lhb-trajectory"  # header: whose event it is, in UTF-8 with percent signs
SentFeatures = TypeAliasType("SentFeatures", Annotated[list[dict[str, Any]], FailFast()])


@with_config(STRICT)
class RankableAction(TypedDict):
    """An action that may be chosen."""

    id: Key
    features: SentFeatures


@with_config(STRICT)
class RankRequest(TypedDict, total=False):
    """Actions to choose one of, and the context in which."""

    actions: Required[
        Annotated[list[RankableAction], Field(min_length=1, max_length=MAX_ARMS), FailFast()]
    ]
    contextFeatures: SentFeatures | None
    excludedActions: ArmIds | None
    eventId: Annotated[ClientId, Field(min_length=1)] | None
    deferActivation: bool | None


RANK = BodyParser(RankRequest)


class RankQuery(NamedTuple):
    """A rank request as checked: the ids of all actions, of those to choose from, and so on."""

    ids: list[str]
    open_ids: list[str]
    contexts: Floats
    event_id: str
    is_deferred: bool


def read_rank(body: bytes, dim: int) -> SlicedWork[RankQuery]:
    """Parse and check a rank request, and hash its features into `dim` numbers an arm."""
    fields = RANK.read(body)
    ids = [action["id"] for action in fields["actions"]]
    refuse_repeated(ids, "id", "actions[{}].id")
    excluded = set(fields.get("excludedActions") or ())
    open_ids = [name for name in ids if name not in excluded]
    if not open_ids:
        raise Problem(ProblemCode.NO_ARMS, "every action is excluded", "excludedActions")
    actions, context, arm = Features("action"), Features("context"), 0
    for i, action in enumerate(fields["actions"]):
        if ids[i] not in excluded:
            features = read_features(action["features"], f"actions[{i}].features")
            if not (yield from actions.add(features, arm)):
                yield from actions.add([(f"id={ids[i]}", 1.0)], arm)
            arm += 1
    shared = fields.get("contextFeatures") or []
    yield from context.add(read_features(shared, "contextFeatures"))
    contexts = hashed_contexts(actions, context, arm, dim)
    event_id = fields.get("eventId") or uuid4().hex
    return RankQuery(ids, open_ids, contexts, event_id, fields.get("deferActivation") is True)


@with_config(STRICT)
class RewardRequest(TypedDict):
    """The reward of an event."""

    value: Number


REWARD = BodyParser(RewardRequest)


@router.serve("POST /rank")
async def post_rank(call: Call) -> tuple[dict[str, Any], int]:
    """Take a decision; the same event id gets the first answer again.

    The chosen action is the first, the others follow by score. An excluded action keeps its place
    in the request, with probability 0. Probabilities are those of the agent; where it did not play,
    the others keep their order and none has a probability.
    """
    request, service, tenant, actor = call
    content, trajectory = await request.body(), trajectory_of(request)
    loop = await find_loop(service, tenant)
    dim = DEFAULTS["dim"] if loop is None else loop.dim
    query = await service.parsed(tenant, read_rank, content, dim, here=READ_AT_ONCE_BYTES)
    session = loop or await make_session(service, tenant, actor, DEFAULTS)
    if query.is_deferred:
        # gets no rewards and so learns nothing: what is never activated stays without effect
        name = deferred_name(session)
        body = {"name": name, "algorithm": "uniform", "dim": session.dim, "horizon": 1}
        room = await find_loop(service, tenant, name)
        room = room or await make_session(service, tenant, actor, body)
        decision = await defer(service, session, room, query, trajectory)
    else:
        decision = await decide(service, session, query, trajectory)
    assert decision.arm is not None
    scores = np.frombuffer(decision.scores)
    chances: Sequence[float | None] = [None] * len(scores)
    others: list[int] = list(range(len(scores)))
    if decision.propensity is not None and decision.played_by in (None, "agent"):
        then = session.at_revision(session.changes.revision_of(decision.position))
        chances = build_agent(then, None).probabilities(scores).tolist()
        others = np.argsort(-scores, kind="stable").tolist()
    order = dict.fromkeys([decision.arm, *others])
    ranked = ({"id": query.open_ids[arm], "probability": chances[arm]} for arm in order)
    is_open = set(query.open_ids)
    ranking = [
        next(ranked) if name in is_open else {"id": name, "probability": 0.0} for name in query.ids
    ]
    chosen = query.open_ids[decision.arm]
    return {"ranking": ranking, "eventId": query.event_id, "rewardActionId": chosen}, 201


async def decide(
    service: Service, session: SessionRow, query: RankQuery, trajectory: str
) -> DecisionRow:
    """Take the decision; the first action is the caller's own.

    In mode "shadow" it is played, and a control group plays it too. An event may have been asked
    with other arms before the mode changed: its repeat is not another body.
    """
    trial, ways = session.trial, list[tuple[int | None, int | None]]()  # the forced, the default
    if trial.is_on:
        live, shadow = (None, BASELINE), (BASELINE, BASELINE)
        ways += [shadow, live] if trial.mode == "shadow" else [live, shadow]
    for n, arms in enumerate(ways := [*ways, (None, None)]):
        try:
            return await taken(service, session, query, trajectory, *arms)
        except Problem as problem:
            if problem.code != ProblemCode.EVENT_CONFLICT or n == len(ways) - 1:
                raise
    raise AssertionError("a decision is taken or refused")


async def taken(
    service: Service,
    session: SessionRow,
    query: RankQuery,
    trajectory: str,
    forced: int | None = None,
    default: int | None = None,
) -> DecisionRow:
    """Take the decision that a request asks for, as POST .../decisions does."""
    contexts: Any = {"dtype": "float64", "shape": list(query.contexts.shape)}
    contexts["data"] = query.contexts.astype("<f8").tobytes()  # decoded already
    body: DecisionBody = {
        "contexts": contexts,
        "arm_ids": query.open_ids,
        "event_id": query.event_id,
        "trajectory": trajectory,
        "forced_arm": forced,
        "default_arm": default,
    }
    command = read_decision(service, session.tenant, session.id, body)
    return (await take(service, command)).decision


@router.serve("POST /events/{event_id:text}/reward", "", None, 204, body=REWARD)
async def post_reward(call: Call, event_id: str, fields: RewardRequest) -> None:
    """Store the reward of an event.

    As in Personalizer, a reward of an unknown event, and with aggregation "earliest" a second one,
    is answered 204 and has no effect.
    """
    request, service, tenant, _ = call
    body: Any = {**fields, "event_id": event_id, "trajectory": trajectory_of(request)}
    session = await find_loop(service, tenant)
    if session is not None:
        if closing_of(session).adds_up:
            body["reward_id"] = uuid4().hex
        try:
            parts = receive_parts(body)
            await service.writer.submit(made_receive(service, tenant, session.id, parts))
        except Problem as problem:
            if problem.code not in (ProblemCode.UNKNOWN_EVENT, ProblemCode.REWARD_CONFLICT):
                raise


@router.serve("POST /events/{event_id:text}/activate", "", None, 204)
async def post_activate(call: Call, event_id: str) -> None:
    """Begin the round of a deferred event: what was answered then is shown now."""
    request, service, tenant, _ = call
    trajectory = trajectory_of(request)
    session = await find_loop(service, tenant)
    waiting = None
    if session is not None:
        room = await find_loop(service, tenant, deferred_name(session))
        if room is not None:
            waiting = await find_decision(service, (*room.key, trajectory), event_id)
        if waiting is not None:
            assert waiting.client_event_id is not None
            assert waiting.arm_id is not None
            ids, contexts = [waiting.arm_id], waiting.selected(session.dim)[np.newaxis]
            shown = RankQuery(ids, ids, contexts, waiting.client_event_id, False)
            await taken(service, session, shown, trajectory, BASELINE)
        elif await find_decision(service, (*session.key, trajectory), event_id) is not None:
            return  # its rank did not defer it
    if waiting is None:
        detail = f"no event has the id {event_id!r}"
        raise Problem(ProblemCode.UNKNOWN_EVENT, detail, "eventId")


def trajectory_of(request: Request) -> str:
    """Return the trajectory of an event: that of the header, or the one without a key."""
    trajectory = unquote(request.headers.get(TRAJECTORY, ""))
    if len(trajectory) > MOST_LETTERS or "\0" in trajectory or trajectory in (".", ".."):
        detail = f"the key of a trajectory has at most {MOST_LETTERS} characters, and is no . or .."
        raise Problem(ProblemCode.INVALID, detail, TRAJECTORY)
    return trajectory


async def defer(
    service: Service, session: SessionRow, room: SessionRow, query: RankQuery, trajectory: str
) -> DecisionRow:
    """Choose as the session would now, and keep the choice apart from it.

    The choice is drawn by the event's id: nothing of the session's own rounds is used up.
    """
    key = (*room.key, trajectory)
    for _ in range(2):
        earlier = await find_decision(service, key, query.event_id)
        arm = await _arm_now(service, session, query) if earlier is None else earlier.arm
        if arm is None or arm >= len(query.open_ids):
            detail = f"event {query.event_id!r} was used before, with another body"
            raise Problem(ProblemCode.EVENT_CONFLICT, detail, "eventId")
        try:
            return await taken(service, room, query, trajectory, arm)
        except Problem as problem:
            if problem.code != ProblemCode.EVENT_CONFLICT or earlier is not None:
                raise  # else the same request was answered meanwhile
    raise AssertionError("a known event is answered or refused")


async def _arm_now(service: Service, session: SessionRow, query: RankQuery) -> int:
    if session.trial.mode == "shadow":
        return BASELINE

    def choose(reader: Reader) -> int:
        agent = build_agent(session, reader.agent_state(session.key))
        draw = Draw(session.seed, f"deferred {query.event_id}", 1, session.n_rounds + 1)
        return agent.choose(query.contexts, draw).arm

    return await service.query(session.tenant, choose)
