"""POST and GET of decisions: parse the body, submit the command, answer."""

from typing import Any

from fastapi import Query
from msgspec.json import encode

from clients.sdk.answers import DecisionAnswer, VoidAnswer
from lhb_engine.history import Floats
from service.api.answer_models import members_of, timestamp
from service.api.body_parsing import DECISION
from service.api.context_arrays import read_contexts, read_contexts_at_once
from service.api.request_bodies import DecisionBody
from service.api.rewards import read_rewards
from service.api.routes import SESSION, Call, Routes
from service.api.runtime import READ_AT_ONCE_BYTES, Service
from service.base.field_types import NO_ZERO_BYTE
from service.base.loop_slices import SlicedWork
from service.base.problems import Problem, ProblemCode
from service.commands.decisions import Blocked, Decide, Taken, request_digest, void_decision
from service.session.names import NamedContexts
from service.session.records import SERVER_EVENT, DecisionRow, SessionRow
from service.storage.reader import Reader

router = Routes(SESSION, tags=["decisions"])
DecisionParts = tuple[Any, ...]
TRAJECTORY = Query("", max_length=256, pattern=NO_ZERO_BYTE)
FIT_PENDING = (
    "the fit due after round {} of the session is not done yet. No round was begun; the rewards in "
    "the body are stored. Send the same body again"
)


def read_decision(service: Service, tenant: str, session_id: str, fields: DecisionBody) -> Decide:
    """Make a command from a parsed decision body; raises what `decision_parts` raises.

    Checks that need the session are made by the command.
    """
    context_set = None if fields.get("skip") else fields.get("contexts")
    contexts = None if context_set is None else read_contexts_at_once(context_set)
    return made_decision(service, tenant, session_id, decision_parts(fields, contexts))


def parse_decision(body: bytes) -> SlicedWork[DecisionParts]:
    """Parse a decision body; raises what `BodyParser.read` and `decision_parts` raise."""
    return (yield from sliced_decision(DECISION.read(body)))


def sliced_decision(fields: DecisionBody) -> SlicedWork[DecisionParts]:
    """Check a parsed decision body in slices; raises what `decision_parts` raises."""
    context_set = None if fields.get("skip") else fields.get("contexts")
    contexts = None if context_set is None else (yield from read_contexts(context_set))
    return decision_parts(fields, contexts)


def decision_parts(fields: DecisionBody, contexts: Floats | NamedContexts | None) -> DecisionParts:
    """Check a parsed body and its contexts, None with `skip`; return what `Decide` takes of it."""
    trajectory = fields.get("trajectory") or ""
    arm_ids, forced = fields.get("arm_ids"), fields.get("forced_arm")
    default = fields.get("default_arm")
    if fields.get("skip"):
        for name in ("contexts", "arm_ids", "forced_arm", "default_arm"):
            if fields.get(name) is not None:
                raise Problem(ProblemCode.AMBIGUOUS, f"a round without action has no {name}", name)
    elif contexts is None:
        raise Problem(ProblemCode.MISSING, "a decision needs contexts (or skip: true)", "contexts")
    elif arm_ids is not None or forced is not None or default is not None:
        check_arms(len(contexts), arm_ids, forced, default)
    rewards = read_rewards(fields["rewards"], trajectory) if "rewards" in fields else []
    given_time = fields.get("at")
    at = None if given_time is None else given_time.timestamp()
    event_id, covariates = fields.get("event_id"), fields.get("covariates")
    digest = None
    if event_id is not None:
        if event_id.startswith(SERVER_EVENT):
            detail = f"ids that begin with {SERVER_EVENT} are reserved for the server"
            raise Problem(ProblemCode.INVALID, detail, "event_id")
        in_digest = covariates or None
        digest = request_digest(contexts, arm_ids, forced, rewards, default, in_digest, at)
    return (
        trajectory, contexts, event_id, arm_ids, forced, rewards, digest, default, covariates, at
    )  # fmt: skip


def made_decision(service: Service, tenant: str, session_id: str, parts: DecisionParts) -> Decide:
    """Make the command of a decision; more arms than this server takes are 422 out_of_range."""
    if parts[1] is not None and service.limits.arms:
        service.limits.refuse_arms(len(parts[1]))
    return Decide((tenant, session_id), service.agents, service.limits, *parts)


def check_arms(
    n_arms: int,
    arm_ids: list[str] | None,
    forced: int | str | None = None,
    default: int | str | None = None,
) -> None:
    """Raise 422 unless there is one id an arm, and each arm that is named; 409 for an id twice."""
    if arm_ids is not None:
        if len(arm_ids) != n_arms:
            detail = f"{len(arm_ids)} arm_ids for {n_arms} contexts"
            raise Problem(ProblemCode.WRONG_SHAPE, detail, "arm_ids")
        refuse_repeated(arm_ids, "arm id", "arm_ids[{}]")
    for field, arm in (("forced_arm", forced), ("default_arm", default)):
        if type(arm) is int and not 0 <= arm < n_arms:
            detail = f"there is no arm {arm}; arms go from 0 to {n_arms - 1}"
            raise Problem(ProblemCode.OUT_OF_RANGE, detail, field)


def refuse_repeated(ids: list[str], noun: str, field: str) -> None:
    """Raise a 409 naming the first id that repeats an earlier one; its number goes into `field`."""
    if len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    for i, name in enumerate(ids):
        if name in seen:
            detail = f"the {noun} {name!r} occurs twice"
            raise Problem(ProblemCode.DUPLICATE_ARM_IDS, detail, field.format(i))
        seen.add(name)


def decision_answer(decision: DecisionRow) -> dict[str, Any]:
    """Return the members of `DecisionAnswer`; they depend on the stored row only."""
    answer = {
        "event_id": decision.event_id,
        "round": decision.round,
        "arm": decision.arm,
        "arm_id": decision.arm_id,
        "scores": memoryview(decision.scores).cast("d").tolist(),
        "propensity": decision.propensity,
        "epoch": decision.epoch,
        "model_version": decision.model_version,
        "next_fit_round": decision.next_fit_round,
        "explored": bool(decision.explored),  # SQLite stores an integer
    }
    if decision.played_by is not None:
        answer["played_by"], answer["agent_arm"] = decision.played_by, decision.agent_arm
    return answer


@router.hot("POST /decisions", "Take a decision", DecisionAnswer, 201, 200, 409, body=DECISION)
async def post_decision(
    service: Service, tenant: str, session_id: str, body: bytes
) -> tuple[int, bytes]:
    """Choose one of K arms. With an `event_id`, a repeat gets the first answer again (200).

    `rewards` are stored first, all or nothing. In a session with refit "blocking", the decision
    then waits for a fit that is due. After 30 s the answer is 503 `fit_pending`: no round was begun
    and the event id is free, but the rewards are stored, since they may be what made the fit due.
    Sending the same body again counts no reward twice and waits for the same fit.
    """
    if len(body) <= READ_AT_ONCE_BYTES:
        command = read_decision(service, tenant, session_id, DECISION.read(body))
    else:
        parts = await service.parsed(tenant, parse_decision, body)
        command = made_decision(service, tenant, session_id, parts)
    taken = await take(service, command)
    return (201 if taken.is_new else 200), encode(decision_answer(taken.decision))


async def take(
    service: Service,
    command: Decide,
    taken: Taken | Blocked | None = None,
    deadline: float | None = None,
) -> Taken:
    """Submit the command, again after each fit that blocks it; `taken` is what came of it so far.

    Raises 503 fit_pending at the `deadline` by the service's monotonic clock, by default after
    `fit_wait_seconds`: no round was begun, but the rewards are stored.
    """
    if taken is None:
        taken = await service.writer.submit(command)
    if isinstance(taken, Taken):
        return taken
    deadline = deadline or service.monotonic() + service.settings.fit_wait_seconds
    command.rewards = []  # the first submission has stored them
    while isinstance(taken, Blocked):
        seconds = deadline - service.monotonic()
        if seconds <= 0 or not await service.fits.wait(command.key, taken.due, seconds):
            raise Problem(ProblemCode.FIT_PENDING, FIT_PENDING.format(taken.due), retry_after=1)
        taken = await service.writer.submit(command)
    return taken


@router.read(
    "/decisions/{event_id:text}", "Read a decision as it was first answered", DecisionAnswer
)
def get_decision(
    reader: Reader, session: SessionRow, event_id: str, trajectory: str = TRAJECTORY
) -> dict[str, Any]:
    """Return the decision as first answered."""
    decision = reader.decision((*session.key, trajectory), event_id)
    if decision is None:
        detail = f"trajectory {trajectory!r} has no decision with the event id {event_id!r}"
        raise Problem(ProblemCode.UNKNOWN_EVENT, detail, "event_id")
    return decision_answer(decision)


@router.serve(
    "POST /decisions/{event_id:text}/void", "Void a decision that was never shown", VoidAnswer, 409
)
async def post_void(
    call: Call, session_id: str, event_id: str, trajectory: str = TRAJECTORY
) -> dict[str, Any]:
    """Take the decision out of what the next fits read: its round counts as one without action.

    The round stays, and so do its rewards: they are of earlier decisions. A repeat gets the first
    answer. This cannot be undone.
    """
    await call.refuse_body("voiding")
    command = void_decision((call.tenant, session_id), trajectory, event_id, call.service.agents)
    decision, void = await call.submit(command)
    return {**members_of(VoidAnswer, decision), "voided_at": timestamp(void.at)}
