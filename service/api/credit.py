"""GET /v1/sessions/{id}/credit: each past decision's expected share in past and future rewards."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import Request, Response

from clients.sdk.answers import CreditAnswer, Deciding
from lhb_engine.estimate import Estimate
from lhb_engine.evaluation.credit import credit, why_no_credit
from lhb_engine.history import Ints
from service.api.answer_models import page_of
from service.api.documentation import SESSION, Routes
from service.api.paging import CURSOR, LIMIT, cut, page
from service.api.sessions import read_session
from service.api.trajectories import TRAJECTORY, meant_trajectory
from service.rounds.deciding import deciding
from service.rounds.timeline import timeline_of
from service.session.records import DecisionRow, SessionRow
from service.storage.giving_way import giving_way
from service.storage.reader import Reader

router = Routes(SESSION, tags=["estimates"])


def credit_answers(
    decisions: Sequence[DecisionRow],
    estimate: dict[str, Any] | None,
    reason: str,
    passed: Ints,
) -> list[dict[str, Any]]:
    """Return the members of `CreditAnswer` for each decision of one trajectory.

    The shares are computed from a stored `estimate`, and are None where there is a `reason`;
    `passed` (n_decisions,) counts the lags since each decision, its own included.
    """
    earned: list[float | None] = [None] * len(decisions)
    to_come = list(earned)
    if estimate is not None and decisions and not reason:
        fitted = Estimate.from_json(estimate)
        theta = np.array(estimate["theta"])
        nothing = np.zeros(len(theta))  # a round without action
        contexts = [np.frombuffer(d.context) if d.context else nothing for d in decisions]
        found = credit(np.array(contexts), passed, theta, fitted.pays)
        earned, to_come = found.earned.tolist(), found.to_come.tolist()
    return [
        {
            "round": decision.round,
            "event_id": decision.event_id,
            "arm": decision.arm,
            "arm_id": decision.arm_id,
            "earned": earned[i],
            "to_come": to_come[i],
            "reason": reason or None,
            "n_lags_passed": int(passed[i]),
        }
        for i, decision in enumerate(giving_way(decisions))
    ]


@router.serve(
    "GET /credit",
    "List each decision's share in past and future rewards",
    page_of(CreditAnswer, model_version=int, deciding=Deciding),
)
async def get_credit(
    session_id: str,
    request: Request,
    trajectory: str | None = TRAJECTORY,
    cursor: str = CURSOR,
    limit: int = LIMIT,
) -> Response:
    """List each decision's expected share in past and future rewards, by the estimate in use.

    `earned` is the decision's context times theta times the sum of the lag weights up to the
    current round; `to_come` is the same with the sum of the remaining lag weights. Where features
    have lag profiles of their own, these take the place of theta times the lag weights. Both are
    null if no estimate is in use, or if the estimate does not identify the lags that pay; `reason`
    says why.
    """

    def answer(reader: Reader, session: SessionRow) -> dict[str, Any]:
        key = (*session.key, meant_trajectory(reader, session, trajectory))
        decisions = reader.decisions(key, int(cursor), limit + 1)
        found = reader.trajectory(key)
        n_rounds = 0 if found is None else found.n_rounds
        record = reader.installed(session)
        estimate, reason = None, "No estimate is in use."
        if record is not None:
            estimate = record.values
            fitted, active = len(estimate["lag_weights"]), len(estimate["active_lags"])
            reason = why_no_credit(fitted, active, session.horizon)
        shown, following = cut(decisions, limit, lambda decision: decision.round)
        if shown:
            ends = shown[0].round, shown[-1].round
            void = {one.round for one in reader.voids_of(key, *ends)}
            shown = [one._replace(context=b"") if one.round in void else one for one in shown]
        passed = timeline_of(session).lags_passed(session, shown, n_rounds)
        items = credit_answers(shown, estimate, reason, passed)
        decides, version = deciding(reader, session), session.model_version
        return {**page(items, following), "model_version": version, "deciding": decides}

    return await read_session(request, session_id, answer)
