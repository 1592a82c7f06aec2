"""What a session has learned, how, and when it learns next."""

import json
from typing import Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from service.agents import build_agent
from service.api.bodies import RANK, parse, refuse_duplicates
from service.api.contexts import read_contexts
from service.api.decisions import refuse_twins
from service.api.documentation import EstimateAnswer, Page, RankAnswer, documented, takes
from service.api.sessions import json_response, timestamp
from service.problems import Problem
from service.records import DueFit, EstimateRecord, OpenWindow, Session, window_to_json
from service.service import service_of, tenant_of
from service.sessions import unknown_session
from service.storage.ports import Reader

router = APIRouter(tags=["estimates"])
LIMIT = Query(100, ge=1, le=1000)
CURSOR = Query(0, ge=0, le=2**63 - 1, description="`next` of the page before")


def found_session(reader: Reader, tenant: str, session_id: str) -> Session:
    """The session, or 404."""
    session = reader.session((tenant, session_id))
    if session is None:
        raise unknown_session(session_id)
    return session


def estimate_answer(record: EstimateRecord) -> dict[str, Any]:
    """A fit as it is answered."""
    estimate = {} if record.estimate is None else json.loads(record.estimate)
    manifest = json.loads(record.manifest)
    return {
        **estimate,
        "status": record.status,
        "reason": record.reason,
        "number": record.number,
        "epoch": record.epoch,
        "due": record.due,
        "model_version": record.model_version,
        "parent": record.parent,
        "window": manifest["window"],
        "attempts": manifest["attempts"],
        "at": timestamp(record.at),
    }


@router.get(
    "/v1/sessions/{session_id}/estimate",
    summary="Theta and lag weights now",
    responses=documented({200: EstimateAnswer}, 404),
)
async def get_estimate(session_id: str, request: Request) -> Response:
    """The estimate that decides; `{"status": "none"}` before the first."""
    service, tenant = service_of(request), tenant_of(request)

    def read() -> dict[str, Any]:
        with service.store.reader() as reader:
            session = found_session(reader, tenant, session_id)
            if session.estimate == 0:
                return {"status": "none"}
            record = reader.estimate(session.key, session.estimate)
            assert record is not None
            return estimate_answer(record)

    return json_response(await service.read(read))


@router.get(
    "/v1/sessions/{session_id}/estimates",
    summary="All fits so far",
    responses=documented({200: Page}, 404, 422),
)
async def get_estimates(
    session_id: str, request: Request, cursor: int = CURSOR, limit: int = LIMIT
) -> Response:
    """In order, with those that failed, found nothing or were overtaken."""
    service, tenant = service_of(request), tenant_of(request)

    def read() -> dict[str, Any]:
        with service.store.reader() as reader:
            session = found_session(reader, tenant, session_id)
            records = reader.estimates(session.key, cursor, limit + 1)
        items = [estimate_answer(record) for record in records[:limit]]
        return {"items": items, "next": str(items[-1]["number"]) if len(records) > limit else None}

    return json_response(await service.read(read))


def _open(session: Session, window: OpenWindow) -> dict[str, Any]:
    is_last = window is session.schedule.open[-1]
    n_complete = session.n_complete if is_last else window.n_complete
    n = window.window.last - window.window.first + 1
    reached = session.n_rounds >= window.window.due
    return {
        "epoch": window.window.epoch,
        "status": "waiting_for_rewards" if reached else "open",
        "window": window_to_json(window.window),
        "n_complete": n_complete,
        "n_missing": n - n_complete,
        "overdue_at": timestamp(window.overdue_at),
    }


def _due(due: DueFit, status: str) -> dict[str, Any]:
    return {
        "epoch": due.window.epoch,
        "status": status,
        "window": window_to_json(due.window),
        "reason": due.reason,
        "due_at": timestamp(due.due_at),
        "attempts": due.attempts,
        "retry_at": timestamp(due.retry_at),
    }


@router.get(
    "/v1/sessions/{session_id}/epochs",
    summary="The schedule, with what is due and why",
    responses=documented({200: Page}, 404, 422),
)
async def get_epochs(
    session_id: str, request: Request, cursor: int = CURSOR, limit: int = LIMIT
) -> Response:
    """Fits that are done, then those that are due, then those to come."""
    service, tenant = service_of(request), tenant_of(request)

    def read() -> dict[str, Any]:
        with service.store.reader() as reader:
            session = found_session(reader, tenant, session_id)
            records = reader.estimates(session.key, cursor, limit + 1)
        items = [
            {
                "epoch": record.epoch,
                "status": record.status,
                "window": json.loads(record.manifest)["window"],
                "reason": record.reason,
                "due_reason": json.loads(record.manifest)["reason"],
                "number": record.number,
                "model_version": record.model_version,
                "at": timestamp(record.at),
            }
            for record in records[:limit]
        ]
        if len(records) > limit:
            return {"items": items, "next": str(items[-1]["number"])}
        schedule = session.schedule
        if schedule.current is not None:
            items.append(_due(schedule.current, "fitting"))
        items += [_due(due, "due") for due in schedule.waiting]
        items += [_open(session, window) for window in schedule.open]
        return {"items": items, "next": None}

    return json_response(await service.read(read))


@router.post(
    "/v1/sessions/{session_id}/rank",
    summary="Scores without a decision",
    responses=documented({200: RankAnswer}, 404, 422),
    openapi_extra=takes(RANK),
)
async def post_rank(session_id: str, request: Request) -> Response:
    """Nothing is written and no round begins."""
    service, tenant = service_of(request), tenant_of(request)
    body = await request.body()
    asked = parse(RANK, body)
    given = asked["contexts"]
    refuse_duplicates(body, len(asked) + (len(given) if isinstance(given, dict) else 0))
    contexts = read_contexts(given)
    arm_ids = asked.get("arm_ids")
    if arm_ids is not None and len(arm_ids) != len(contexts):
        detail = f"{len(arm_ids)} arm_ids for {len(contexts)} contexts"
        raise Problem(422, "wrong_shape", detail, "arm_ids")
    if arm_ids is not None:
        refuse_twins(arm_ids)

    def read() -> dict[str, Any]:
        with service.store.reader() as reader:
            session = found_session(reader, tenant, session_id)
            if contexts.shape[1] != session.dim:
                width = contexts.shape[1]
                detail = f"a context of this session has {session.dim} numbers, not {width}"
                raise Problem(422, "wrong_shape", detail, "contexts")
            agent = build_agent(session, reader.agent_state(session.key))
        scores = agent.scores(contexts)
        ranking = np.argsort(-scores, kind="stable").tolist()
        return {
            "scores": scores.tolist(),
            "ranking": ranking,
            "arm_ids": None if arm_ids is None else [arm_ids[arm] for arm in ranking],
            "model_version": session.model_version,
        }

    return json_response(await service.read(read))
