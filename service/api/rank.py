"""POST /v1/sessions/{id}/rank: scores without taking a decision."""

from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from service.agent_cache import build_agent
from service.api.body_parsing import RANK
from service.api.context_arrays import read_contexts
from service.api.decisions import check_arms
from service.api.response_types import RankAnswer, documented, takes
from service.api.sessions import read_session
from service.commands.sessions import refuse_width
from service.records import SessionRow
from service.storage.ports import Reader

router = APIRouter(tags=["estimates"])


@router.post(
    "/v1/sessions/{session_id}/rank",
    summary="Scores without a decision",
    responses=documented({200: RankAnswer}, 404, 409, 422),
    openapi_extra=takes(RANK),
)
async def post_rank(session_id: str, request: Request) -> Response:
    """Nothing is written and no round begins."""
    asked = RANK.read(await request.body())
    contexts = read_contexts(asked["contexts"])
    arm_ids = asked.get("arm_ids")
    check_arms(len(contexts), arm_ids)

    def answer(reader: Reader, session: SessionRow) -> dict[str, Any]:
        refuse_width(session, contexts)
        agent = build_agent(session, reader.agent_state(session.key))
        scores = agent.scores(contexts)
        ranking = np.argsort(-scores, kind="stable").tolist()
        return {
            "scores": scores.tolist(),
            "ranking": ranking,
            "arm_ids": None if arm_ids is None else [arm_ids[arm] for arm in ranking],
            "model_version": session.model_version,
        }

    return await read_session(request, session_id, answer)
