"""POST /v1/batch: decisions and rewards of many sessions in one transaction.

Every item of the answer has its own status.
"""

import asyncio
import contextlib
from typing import Annotated, Any, Required

import structlog
from fastapi import APIRouter, Request, Response
from msgspec.json import encode
from pydantic import Field, ValidationError, with_config
from pydantic_core import to_json
from typing_extensions import TypedDict

from service.api.body_parsing import (
    BATCH,
    DECISION,
    REWARDS,
    BodyParser,
    count_keys,
    refuse_duplicates,
)
from service.api.decisions import decision_answer, read_decision, wait_and_take
from service.api.documentation import documented, takes
from service.api.request_bodies import BatchItem
from service.api.response_types import BatchAnswer
from service.api.rewards import accepted_answer, read_receive
from service.api.runtime import Service, service_of, tenant_of
from service.api.session_names import find_ids
from service.base.field_types import STRICT, Key
from service.base.logs import REQUEST_ID, log_failure
from service.base.problems import Problem, ProblemCode, defect
from service.commands.decisions import Blocked, Decide, Taken
from service.commands.rewards import ReceiveRewards

router = APIRouter(tags=["decisions"])
log = structlog.get_logger()


@with_config(STRICT)
class _Envelope(TypedDict):
    items: Annotated[list[Any], Field(min_length=1, max_length=1000)]


@with_config(STRICT)
class _Item(TypedDict, total=False):
    session_id: Required[Key]
    decision: dict[str, Any]
    reward: dict[str, Any]


ENVELOPE, ITEM = BodyParser(_Envelope), BodyParser(_Item)


async def run_batch(service: Service, tenant: str, _session: str, body: bytes) -> tuple[int, bytes]:
    """Serve a batch body. Accepted items are durable on return.

    Parameters
    ----------
    service : Service
    tenant : str
        Tenant of all sessions in the batch.
    _session : str
        Unused: hot handlers share one signature.
    body : bytes
        JSON of a `BatchBody`.

    Returns
    -------
    status : int
        200, also when items are refused: each item has its own status.
    answer : bytes
        JSON of a `BatchAnswer`.

    Raises
    ------
    Problem
        The body as a whole is not a batch.
    """
    items = _read_items(body)
    given = [item["session_id"] for item in items if not isinstance(item, Problem)]
    ids = await find_ids(service, tenant, given)
    answers: list[Any] = [None] * len(items)
    places, commands = [], []
    for i, item in enumerate(items):
        if isinstance(item, Problem):
            answers[i] = _problem(item)
            continue
        try:
            session_id = ids.get(item["session_id"], item["session_id"])
            commands.append(_command(service, tenant, session_id, item))
            places.append(i)
        except Exception as broken:
            answers[i] = _answer(None, broken)
    if commands:
        outcomes = await service.writer.submit_all(list(commands))
        blocked: list[tuple[int, Decide, Blocked]] = []
        for i, command, (result, error) in zip(places, commands, outcomes, strict=True):
            if isinstance(result, Blocked) and isinstance(command, Decide):
                blocked.append((i, command, result))
            else:
                answers[i] = _answer(result, error)
        waits = (_wait(service, one[1], one[2]) for one in blocked)
        for (i, *_), answer in zip(blocked, await asyncio.gather(*waits), strict=True):
            answers[i] = answer
    service.metrics.observe_items(answers, tenant)
    return 200, encode({"items": answers})


def _read_items(body: bytes) -> list[BatchItem | Problem]:
    """Parse the items. An invalid item becomes the Problem that its own route would answer."""
    batch = BATCH.read_quickly(body)
    if batch is not None:
        return [*batch["items"]]
    try:
        batch = BATCH.adapter.validate_json(body)
    except ValidationError:
        given = ENVELOPE.parse(body)["items"]
        with contextlib.suppress(ValueError, RecursionError):  # pydantic has parsed it already
            refuse_duplicates(body, -1)
        return [_read_item(item) for item in given]
    refuse_duplicates(body, count_keys(batch))
    return [*batch["items"]]


def _read_item(given: Any) -> BatchItem | Problem:
    try:
        asked = ITEM.parse(_json(given))
        item: BatchItem = {"session_id": asked["session_id"]}
        if "decision" in asked:
            item["decision"] = DECISION.parse(_json(asked["decision"]))
        if "reward" in asked:
            item["reward"] = REWARDS.parse(_json(asked["reward"]))
        return item
    except Problem as problem:
        return problem


def _json(value: Any) -> bytes:
    """Encode a parsed value again. NaN and infinity stay as they are: the parser refuses them."""
    return to_json(value, inf_nan_mode="constants")


def _command(
    service: Service, tenant: str, session_id: str, item: BatchItem
) -> Decide | ReceiveRewards:
    decision, reward = item.get("decision"), item.get("reward")
    if (decision is None) == (reward is None):
        code = ProblemCode.MISSING if decision is None else ProblemCode.AMBIGUOUS
        raise Problem(code, "an item has either a decision or a reward", "decision")
    if decision is not None:
        return read_decision(service, tenant, session_id, decision)
    assert reward is not None
    return read_receive(service, tenant, session_id, reward)


def _answer(result: Any, error: BaseException | None) -> dict[str, Any]:
    """Answer one item. A defect fails its own item only: the other items are durable."""
    if isinstance(error, Problem):
        if error.status >= 500:
            log_failure(error, REQUEST_ID.get(), "/v1/batch")
        return _problem(error)
    if error is not None:
        request_id = REQUEST_ID.get()
        log.error("defect", request_id=request_id, path="/v1/batch", exc_info=error)
        return _problem(defect(request_id))
    if isinstance(result, Taken):
        status = 201 if result.is_new else 200
        return {"status": status, "decision": decision_answer(result.decision)}
    return {"status": 200, "reward": accepted_answer(result)}


async def _wait(service: Service, command: Decide, blocked: Blocked) -> dict[str, Any]:
    try:
        return _answer(await wait_and_take(service, command, blocked), None)
    except Exception as error:
        return _answer(None, error)


def _problem(problem: Problem) -> dict[str, Any]:
    return {"status": problem.status, "problem": problem.to_json()}


@router.post(
    "/v1/batch",
    summary="Send decisions and rewards of many sessions",
    responses=documented({200: BatchAnswer}),
    openapi_extra=takes(BATCH),
)
async def post_batch(request: Request) -> Response:
    """Run all items in one transaction.

    Every item has the status and the answer that its own route would give.
    """
    service, body = service_of(request), await request.body()
    status, answer = await run_batch(service, tenant_of(request), "", body)
    return Response(answer, status, media_type="application/json")
