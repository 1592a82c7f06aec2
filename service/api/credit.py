"""GET /v1/sessions/{id}/credit: what past decisions earned and will earn, each, and by feature."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import Query

from clients.sdk.answers import CreditAnswer, CreditByFeatureAnswer, Deciding
from lhb_engine.estimate import Estimate, first_lags
from lhb_engine.evaluation.credit import credit, credit_by_feature, why_no_credit
from lhb_engine.history import Floats, Ints
from service.api.answer_models import members_of, page_of
from service.api.paging import CURSOR, LIMIT, cut, page
from service.api.routes import SESSION, Routes
from service.api.trajectories import TRAJECTORY, meant_trajectory
from service.rounds.deciding import deciding
from service.rounds.stored_rows import last_decisions
from service.rounds.timeline import timeline_of
from service.session.records import DecisionRow, SessionRow
from service.storage.giving_way import giving_way
from service.storage.reader import Reader

router = Routes(SESSION, tags=["estimates"])


def feature_answers(
    session: SessionRow, estimate: dict[str, Any], contexts: Floats, passed: Ints
) -> list[dict[str, Any]]:
    """Return the members of `FeatureCreditAnswer` for each feature, of decisions' contexts."""
    pays, names = Estimate.from_json(estimate).pays, session.names.columns
    profiles = np.outer(pays, estimate["theta"]) if pays.ndim == 1 else pays
    found = credit_by_feature(contexts, passed, profiles)
    bands, total = (estimate.get("intervals") or {}).get("lag_sums"), contexts.sum(axis=0)
    items: list[dict[str, Any]] = []
    for i, n_first in enumerate(first_lags(profiles).tolist()):
        item = {"feature": i, "name": names[i] if i < len(names) else None, "first_lags": n_first}
        intervals = None
        if bands is not None:
            shown = np.sort(np.multiply(bands[i], total[i])).tolist()
            intervals = dict(zip(("at_once", "later", "in_all"), shown, strict=True))
        split = {name: float(values[i]) for name, values in found.items()}
        items.append(item | split | {"intervals": intervals})
    return items


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
        shares = credit(np.array(contexts), passed, theta, fitted.pays)
        earned, to_come = shares.earned.tolist(), shares.to_come.tolist()
    return [
        {
            **members_of(CreditAnswer, decision),
            "earned": earned[i],
            "to_come": to_come[i],
            "reason": reason or None,
            "n_lags_passed": int(passed[i]),
        }
        for i, decision in enumerate(giving_way(decisions))
    ]


@router.read(
    "/credit",
    "List each decision's share in past and future rewards",
    page_of(CreditAnswer, model_version=int, deciding=Deciding),
)
def get_credit(
    reader: Reader,
    session: SessionRow,
    trajectory: str | None = TRAJECTORY,
    cursor: str = CURSOR,
    limit: int = LIMIT,
) -> dict[str, Any]:
    """List each decision's expected share in past and future rewards, by the estimate in use.

    `earned` is the decision's context times theta times the sum of the lag weights up to the
    current round; `to_come` is the same with the sum of the remaining lag weights. Where features
    have lag profiles of their own, these take the place of theta times the lag weights. Both are
    null if no estimate is in use, or if the estimate does not identify the lags that pay; `reason`
    says why.
    """
    key = (*session.key, meant_trajectory(reader, session, trajectory))
    decisions = reader.decisions(key, int(cursor), limit + 1)
    row = reader.trajectory(key)
    n_rounds = 0 if row is None else row.n_rounds
    estimate, reason = _estimate_in_use(reader, session)
    shown, following = cut(decisions, limit, lambda decision: decision.round)
    if shown:
        ends = shown[0].round, shown[-1].round
        void = {one.round for one in reader.voids_of(key, *ends)}
        shown = [one._replace(context=b"") if one.round in void else one for one in shown]
    rounds, times = np.array([(one.round, one.at) for one in shown]).reshape(-1, 2).T
    passed = timeline_of(session).lags_passed(session, rounds.astype(int), times, n_rounds)
    items = credit_answers(shown, estimate, reason, passed)
    decides, version = deciding(reader, session), session.model_version
    return {**page(items, following), "model_version": version, "deciding": decides}


@router.read(
    "/credit/features", "What each feature earned at once and later", CreditByFeatureAnswer
)
def get_earnings(
    reader: Reader,
    session: SessionRow,
    rounds: int = Query(2000, ge=1, le=100_000, description="decisions of the session, the last"),
) -> dict[str, Any]:
    """Say what each feature of the session's last decisions earned, all trajectories together.

    A feature's share is what its values paid beside decisions that have 0 in its place, by the
    estimate in use. `at_once` is paid within its `first_lags`, `later` after them; `earned` so far,
    `to_come` still. The first lags are those up to which what it pays adds up most to the other
    side of its total, at least the decision's own round. `intervals` need lag profiles of features'
    own, and intervals of these.
    """
    estimate, reason = _estimate_in_use(reader, session)
    items: list[dict[str, Any]] = []
    if estimate is not None and not reason:
        timeline, parts = timeline_of(session), [np.zeros((0, session.dim + 1))]
        for numbers, times, contexts in last_decisions(reader, session, rounds):
            passed = timeline.lags_passed(session, numbers, times, int(numbers[-1]))
            parts.append(np.column_stack([contexts, passed]))
        decisions = np.concatenate(parts)
        contexts, n_passed = decisions[:, :-1], decisions[:, -1].astype(int)
        items = feature_answers(session, estimate, contexts, n_passed)
    return {
        "first_round": max(1, session.n_rounds - rounds + 1),
        "last_round": session.n_rounds,
        "items": items,
        "reason": reason or None,
        "form": (estimate or {}).get("form"),
        "model_version": session.model_version,
        "deciding": deciding(reader, session),
    }


def _estimate_in_use(reader: Reader, session: SessionRow) -> tuple[dict[str, Any] | None, str]:
    """Return the estimate in use, if there is one, and why it gives no credit, if it does not."""
    record = reader.installed(session)
    if record is None:
        return None, "No estimate is in use."
    estimate = record.values
    fitted, active = len(estimate["lag_weights"]), len(estimate["active_lags"])
    return estimate, why_no_credit(fitted, active, session.horizon)
