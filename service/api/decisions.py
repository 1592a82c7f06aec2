"""POST and GET of decisions."""

from operator import attrgetter
from typing import Any

from fastapi import APIRouter, Query, Request, Response
from msgspec.json import encode

from service.api.body_parsing import DECISION
from service.api.context_arrays import read_contexts
from service.api.documentation import documented, takes
from service.api.request_bodies import DecisionBody
from service.api.response_types import DecisionAnswer
from service.api.rewards import read_rewards
from service.api.sessions import read_session
from service.commands.decisions import Blocked, Decide, Taken, request_digest
from service.problems import Problem, ProblemCode
from service.records import SERVER_EVENT, DecisionRow, SessionRow
from service.runtime import Service, service_of, tenant_of
from service.storage.reader import Reader

router = APIRouter(tags=["decisions"])
PENDING = (
    "the fit due after round {} is not done yet: no round was begun, rewards that came along are "
    "kept; ask again with the same body"
)


def decide_command(service: Service, tenant: str, session_id: str, body: bytes) -> Decide:
    """Make the command of a decision body."""
    return read_decision(service, tenant, session_id, DECISION.read(body))


def read_decision(service: Service, tenant: str, session_id: str, asked: DecisionBody) -> Decide:
    """Make the command of a parsed decision body, checked but for what needs the session."""
    trajectory = asked.get("trajectory") or ""
    arm_ids, forced = asked.get("arm_ids"), asked.get("forced_arm")
    given = asked.get("contexts")
    contexts = None
    if asked.get("skip"):
        for name in ("contexts", "arm_ids", "forced_arm"):
            if asked.get(name) is not None:
                raise Problem(ProblemCode.AMBIGUOUS, f"a round without action has no {name}", name)
    elif given is None:
        raise Problem(ProblemCode.MISSING, "a decision needs contexts (or skip: true)", "contexts")
    else:
        contexts = read_contexts(given)
        check_arms(len(contexts), arm_ids, forced)
    rewards = read_rewards(asked["rewards"], trajectory) if "rewards" in asked else []
    event_id = asked.get("event_id")
    digest = None
    if event_id is not None:
        if event_id.startswith(SERVER_EVENT):
            detail = f"ids that begin with {SERVER_EVENT} are the server's"
            raise Problem(ProblemCode.INVALID, detail, "event_id")
        digest = request_digest(contexts, arm_ids, forced, rewards)
    return Decide(
        (tenant, session_id),
        trajectory,
        contexts,
        service.agents,
        event_id,
        arm_ids,
        forced,
        rewards,
        digest,
    )


def check_arms(n_arms: int, arm_ids: list[str] | None, forced: int | None = None) -> None:
    """422 or 409 where ids or the forced arm do not fit the arms there are."""
    if arm_ids is not None:
        if len(arm_ids) != n_arms:
            detail = f"{len(arm_ids)} arm_ids for {n_arms} contexts"
            raise Problem(ProblemCode.WRONG_SHAPE, detail, "arm_ids")
        refuse_twins(arm_ids)
    if forced is not None and not 0 <= forced < n_arms:
        detail = f"there is no arm {forced}; arms go from 0 to {n_arms - 1}"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "forced_arm")


def refuse_twins(arm_ids: list[str]) -> None:
    """409 naming the first arm id that stands there already."""
    if len(set(arm_ids)) == len(arm_ids):
        return
    seen: set[str] = set()
    for i, name in enumerate(arm_ids):
        if name in seen:
            detail = f"the arm id {name!r} stands twice"
            raise Problem(ProblemCode.DUPLICATE_ARM_IDS, detail, f"arm_ids[{i}]")
        seen.add(name)


ANSWERED = tuple(DecisionAnswer.model_fields)
_answered = attrgetter(*ANSWERED)


def decision_answer(decision: DecisionRow) -> dict[str, Any]:
    """Return the fields of `DecisionAnswer`, as answered the first time and every time after."""
    answer = dict(zip(ANSWERED, _answered(decision), strict=True))
    answer["scores"] = memoryview(decision.scores).cast("d").tolist()
    answer["explored"] = bool(decision.explored)  # SQLite keeps an integer
    return answer


async def decide(service: Service, tenant: str, session_id: str, body: bytes) -> tuple[int, bytes]:
    """Take a decision; durable when this returns.

    In a blocking session it waits for a due fit, holding nothing meanwhile.
    """
    command = decide_command(service, tenant, session_id, body)
    taken = await take(service, command)
    return (201 if taken.is_new else 200), encode(decision_answer(taken.decision))


async def take(service: Service, command: Decide) -> Taken:
    """Submit until no fit is in the way.

    Raises
    ------
    Problem
        503 fit_pending after `fit_wait_seconds`: no round was begun, but the rewards are in.
    """
    taken: Taken | Blocked = await service.writer.submit(command)
    return taken if isinstance(taken, Taken) else await wait_and_take(service, command, taken)


async def wait_and_take(service: Service, command: Decide, taken: Taken | Blocked) -> Taken:
    """Submit again after the fit that was in the way."""
    deadline = service.monotonic() + service.settings.fit_wait_seconds
    command.rewards = []  # they are in
    while isinstance(taken, Blocked):
        seconds = deadline - service.monotonic()
        if seconds <= 0 or not await service.fits.wait(command.key, taken.due, seconds):
            raise Problem(ProblemCode.FIT_PENDING, PENDING.format(taken.due), retry_after=1)
        taken = await service.writer.submit(command)
    return taken


@router.post(
    "/v1/sessions/{session_id}/decisions",
    status_code=201,
    summary="Take a decision",
    responses=documented({201: DecisionAnswer, 200: DecisionAnswer}, 404, 409, 422),
    openapi_extra=takes(DECISION),
)
async def post_decision(session_id: str, request: Request) -> Response:
    """Choose one of K arms. With an `event_id` a repeat gets the first answer again (200).

    `rewards` are stored first, all or nothing. In a session with refit "blocking" a decision then
    waits for a fit that is due; after 30 s it is 503 `fit_pending`. No round was begun then and the
    event id is free, but the rewards stay: the fit may be due by them. The same body again counts
    no reward twice and joins the wait.
    """
    status, answer = await decide(
        service_of(request), tenant_of(request), session_id, await request.body()
    )
    return Response(answer, status, media_type="application/json")


@router.get(
    "/v1/sessions/{session_id}/decisions/{event_id:path}",
    summary="A decision as first answered",
    responses=documented({200: DecisionAnswer}, 404),
)
async def get_decision(
    session_id: str, event_id: str, request: Request, trajectory: str = Query("")
) -> Response:
    """Return the decision as first answered."""

    def answer(reader: Reader, session: SessionRow) -> dict[str, Any]:
        found = reader.decision((*session.key, trajectory), event_id)
        if found is None:
            detail = f"no decision has the event id {event_id!r}"
            raise Problem(ProblemCode.UNKNOWN_EVENT, detail, "event_id")
        return decision_answer(found)

    return await read_session(request, session_id, answer)
