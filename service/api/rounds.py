"""GET of a session's rounds: selected contexts, and rewards."""

from typing import Any

from clients.sdk.answers import RoundAnswer, SpanAnswer
from service.api.answer_models import CURSOR, LIMIT, cut, members_of, page, page_of
from service.api.routes import SESSION, Routes
from service.api.trajectories import TRAJECTORY, meant_trajectory
from service.rounds.timeline import timeline_of
from service.session.covariates import given_covariates
from service.session.records import DecisionRow, MeasurementRow, SessionRow
from service.storage.giving_way import giving_way
from service.storage.reader import Reader

router = Routes(SESSION, tags=["rounds"])


def in_force(rows: list[MeasurementRow]) -> list[MeasurementRow]:
    """Return the rows that no later one of them replaces, in their order."""
    latest: dict[int, int] = {}
    for row in rows:
        latest[row.root] = max(row.position, latest.get(row.root, 0))
    return [row for row in rows if latest[row.root] == row.position]


def round_answer(
    decision: DecisionRow, dim: int, measured: list[MeasurementRow], is_void: bool = False
) -> dict[str, Any]:
    """Return the members of `RoundAnswer`.

    `measured` are the measurements whose first round is this one, with those that were corrected
    since.
    """
    n_corrected = len(measured)
    measured = in_force(measured)
    n_corrected -= len(measured)
    values = [m.value for m in measured if m.first_round == m.last_round]
    spans = [
        {**members_of(SpanAnswer, m), "covariates": given_covariates([m.covariates])}
        for m in measured
        if m.first_round != m.last_round
    ]
    covariates = [decision.covariates]
    if any(m.covariates for m in measured):
        covariates += [m.covariates for m in measured if m.first_round == m.last_round]
    return {
        **members_of(RoundAnswer, decision),
        "context": decision.selected(dim).tolist() if decision.context else None,
        "reward": sum(values) if values else None,
        "n_rewards": len(values),
        "n_corrected": n_corrected,
        "spans": spans,
        "covariates": given_covariates(covariates),
        "void": is_void,
    }


@router.read("/rounds", "List rounds with their rewards", page_of(RoundAnswer))
def get_rounds(
    reader: Reader,
    session: SessionRow,
    trajectory: str | None = TRAJECTORY,
    cursor: str = CURSOR,
    limit: int = LIMIT,
) -> dict[str, Any]:
    """List rounds in order. A value over several rounds is listed with the first of them."""
    key = (*session.key, meant_trajectory(reader, session, trajectory))
    decisions = reader.decisions(key, int(cursor), limit + 1)
    shown, following = cut(decisions, limit, lambda decision: decision.round)
    measured: dict[int, list[MeasurementRow]] = {d.round: [] for d in shown}
    void: set[int] = set()
    if shown:
        ends = shown[0].round, shown[-1].round
        void = {one.round for one in reader.voids_of(key, *ends)}
        for one in timeline_of(session).values_of(reader, key, *ends):
            measured[one.first_round].append(one)
    items = [
        round_answer(d, session.dim, measured[d.round], d.round in void) for d in giving_way(shown)
    ]
    return page(items, following)
