"""GET /v1/sessions/{id}/credit: what each past decision has earned, and is still to earn."""

import json
from typing import Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response

from service.agent_cache import deciding
from service.api.documentation import documented
from service.api.paging import CURSOR, LIMIT, cut, page
from service.api.response_types import CreditPage
from service.api.sessions import read_session
from service.records import DecisionRow, SessionRow
from service.storage.ports import Reader

router = APIRouter(tags=["estimates"])


def credit_answer(decision: DecisionRow, per_lag: Any, n_rounds: int, theta: Any) -> dict[str, Any]:
    """A decision's expected share in the rewards, before now and from now on.

    Parameters
    ----------
    per_lag : (n_lags,) cumulative sums of the lag weights
    n_rounds : the trajectory's rounds so far
    """
    answer: dict[str, Any] = {
        "round": decision.round,
        "event_id": decision.event_id,
        "arm": decision.arm,
        "arm_id": decision.arm_id,
        "earned": None,
        "to_come": None,
        "n_lags_passed": n_rounds - decision.round + 1,
    }
    if theta is not None:
        value = float(np.frombuffer(decision.context) @ theta) if decision.context else 0.0
        passed = min(len(per_lag), n_rounds - decision.round + 1)
        answer["earned"] = value * float(per_lag[passed - 1])
        answer["to_come"] = value * float(per_lag[-1] - per_lag[passed - 1])
    return answer


@router.get(
    "/v1/sessions/{session_id}/credit",
    summary="What each past decision has earned and is still to earn",
    responses=documented({200: CreditPage}, 404, 422),
)
async def get_credit(
    session_id: str,
    request: Request,
    trajectory: str = Query(""),
    cursor: str = CURSOR,
    limit: int = LIMIT,
) -> Response:
    """By the estimate in use: a decision's context times theta, times the lag weights that have
    passed (earned) and those still ahead (to_come). Null where no estimate is in use."""

    def answer(reader: Reader, session: SessionRow) -> dict[str, Any]:
        key = (*session.key, trajectory)
        decisions = reader.decisions(key, int(cursor), limit + 1)
        found = reader.trajectory(key)
        n_rounds = 0 if found is None else found.n_rounds
        decides = deciding(reader, session)
        is_in_use = decides == "in_use" and session.estimate > 0
        record = reader.estimate(session.key, session.estimate) if is_in_use else None
        theta = per_lag = None
        if record is not None and record.estimate is not None:
            estimate = json.loads(record.estimate)
            theta, per_lag = np.array(estimate["theta"]), np.cumsum(estimate["lag_weights"])
        shown, following = cut(decisions, limit, lambda decision: decision.round)
        items = [credit_answer(d, per_lag, n_rounds, theta) for d in shown]
        version = session.model_version
        return {**page(items, following), "model_version": version, "deciding": decides}

    return await read_session(request, session_id, answer)
