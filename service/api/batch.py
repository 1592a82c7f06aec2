"""POST /v1/batch: decisions and rewards of many sessions, one transaction, answered one by one."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from service.api.bodies import BATCH, BatchItem, parse, refuse_duplicates
from service.api.decisions import count_keys, decision_answer, read_decision, wait_and_take
from service.api.documentation import BatchAnswer, documented, takes
from service.api.rewards import accepted_answer, read_receive
from service.api.rewards import count_keys as count_reward_keys
from service.decisions import Blocked, Decide, Taken
from service.problems import Problem
from service.rewards import Receive
from service.service import Service, service_of, tenant_of

router = APIRouter(tags=["decisions"])


async def run_batch(service: Service, tenant: str, _session: str, body: bytes) -> tuple[int, bytes]:
    """All that can be done is durable when this returns; each item has a status of its own."""
    items = parse(BATCH, body)["items"]
    refuse_duplicates(body, 1 + sum(map(_count_keys, items)))
    answers: list[Any] = [None] * len(items)
    places, commands = [], []
    for i, item in enumerate(items):
        try:
            commands.append(_command(service, tenant, item))
            places.append(i)
        except Problem as problem:
            answers[i] = _problem(problem)
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
    return 200, to_json({"items": answers})


def _command(service: Service, tenant: str, item: BatchItem) -> Decide | Receive:
    decision, reward = item.get("decision"), item.get("reward")
    if (decision is None) == (reward is None):
        code = "missing" if decision is None else "ambiguous"
        raise Problem(422, code, "an item is a decision or a reward", "decision")
    if decision is not None:
        return read_decision(service, tenant, item["session_id"], decision)
    assert reward is not None
    return read_receive(service, tenant, item["session_id"], reward)


def _answer(result: Any, error: BaseException | None) -> dict[str, Any]:
    if isinstance(error, Problem):
        return _problem(error)
    if error is not None:
        raise error
    if isinstance(result, Taken):
        status = 201 if result.is_new else 200
        return {"status": status, "decision": decision_answer(result.decision)}
    return {"status": 200, "reward": accepted_answer(result)}


async def _wait(service: Service, command: Decide, blocked: Blocked) -> dict[str, Any]:
    try:
        return _answer(await wait_and_take(service, command, blocked), None)
    except Problem as problem:
        return _problem(problem)


def _problem(problem: Problem) -> dict[str, Any]:
    return {"status": problem.status, "problem": problem.to_json()}


def _count_keys(item: BatchItem) -> int:
    n_keys = len(item)
    if "decision" in item:
        n_keys += count_keys(item["decision"])
    if "reward" in item:
        n_keys += count_reward_keys(item["reward"])
    return n_keys


@router.post(
    "/v1/batch",
    summary="Decisions and rewards of many sessions",
    responses=documented({200: BatchAnswer}, 422),
    openapi_extra=takes(BATCH),
)
async def post_batch(request: Request) -> Response:
    """One transaction; every item has the status and the answer it would have had alone."""
    service, body = service_of(request), await request.body()
    status, answer = await run_batch(service, tenant_of(request), "", body)
    return Response(answer, status, media_type="application/json")
