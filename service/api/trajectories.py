"""Trajectories: their list, the rounds of one, what is known of one, and erasing one."""

from typing import Any

import numpy as np
from fastapi import Query

from clients.sdk.answers import OneTrajectoryAnswer, RoundAnswer, SpanAnswer, TrajectoryAnswer
from lhb_engine.posterior.own_responses import QUANTILE, differing, group_of
from service.api.answer_models import CURSOR, LIMIT, cut, members_of, page, page_of, timestamp
from service.api.routes import SESSION, Call, Routes
from service.api.sessions import features_of_theta
from service.base.field_types import NO_ZERO_BYTE
from service.base.problems import Problem, ProblemCode
from service.commands.erase_trajectory import erase_trajectory
from service.rounds.closing import closing_of
from service.rounds.timeline import timeline_of
from service.rounds.trajectory_theta import closed_rounds, first_of_last, last_rounds
from service.session.covariates import given_covariates
from service.session.records import MeasurementRow, SessionRow, TrajectoryRow
from service.storage.giving_way import giving_way
from service.storage.reader import Reader
from service.writer.agent_cache import build_agent, deciding

router = Routes(SESSION, tags=["rounds"])
MISSING_AMONG = 1000  # a trajectory's last rounds, in which missing rewards are counted
PAGE_ROUNDS = 20_000  # rounds that a page looks at, besides those of its last item
KEY_CURSOR = Query(
    "", max_length=256, pattern=NO_ZERO_BYTE, description="`next` of the previous page: a key"
)
TRAJECTORY = Query(
    None,
    max_length=256,
    pattern=NO_ZERO_BYTE,
    description="needed unless the session's only trajectory is the one with key `''`",
)


def meant_trajectory(reader: Reader, session: SessionRow, key: str | None) -> str:
    """Return the key that a query asks for; without one, the trajectory with key "" is meant.

    Raises 422 trajectory_needed where there is none asked and the session has another key.
    """
    if key is not None:
        return key
    n = session.n_trajectories
    if n > 1 or (n == 1 and reader.trajectory((*session.key, "")) is None):
        trajectories = "one trajectory, which has a key" if n == 1 else f"{n} trajectories"
        detail = f"the session has {trajectories}; say which one is meant (GET .../trajectories)"
        raise Problem(ProblemCode.TRAJECTORY_NEEDED, detail, "trajectory")
    return ""


def cut_by_rounds(rows: list[TrajectoryRow], limit: int) -> tuple[list[TrajectoryRow], str | None]:
    """Cut rows, in order of keys, to a page whose missing rewards are counted in bounded work.

    A page of long trajectories has fewer than `limit` rows, and is empty only if there are none.
    """
    n_rounds = 0
    for i, row in enumerate(rows):
        if i == limit or n_rounds > PAGE_ROUNDS:
            return rows[:i], row.key
        n_rounds += min(row.n_rounds, MISSING_AMONG)
    return rows, None


@router.read("/trajectories", "List trajectories", page_of(TrajectoryAnswer))
def get_trajectories(
    reader: Reader, session: SessionRow, cursor: str = KEY_CURSOR, limit: int = LIMIT
) -> dict[str, Any]:
    """List trajectories in order of their keys.

    `n_missing` is the number of rounds without a reward among the trajectory's last 1000 rounds;
    null where there is a clock, and rewards are of slots.
    """
    rows = reader.trajectories_from(session.key, cursor, limit + 2)
    rows = [row for row in rows if row.n_decisions]  # "" may have totals alone
    shown, following = cut_by_rounds(rows, limit)
    return page(_listed(reader, session, shown), following)


def _listed(
    reader: Reader, session: SessionRow, shown: list[TrajectoryRow]
) -> list[dict[str, Any]]:
    """Return the members of `TrajectoryAnswer` for trajectories that follow each other."""
    if not shown:
        return []
    timeline = timeline_of(session)
    measured = reader.measured_of_last(session.key, shown[0].key, shown[-1].key, MISSING_AMONG)
    return [
        {
            "trajectory": row.key,
            "n_rounds": row.n_rounds,
            "n_missing": timeline.n_missing(min(row.n_rounds, MISSING_AMONG), measured[row.key]),
            "last_decision_at": timestamp(row.last_at),
        }
        for row in shown
    ]


@router.serve("GET /trajectories/{key:text}", "What is known of a trajectory", OneTrajectoryAnswer)
async def get_trajectory(call: Call, session_id: str, key: str) -> dict[str, Any]:
    """Return a trajectory's own theta and level, and everybody's theta beside them.

    `own` is what its next decision goes by, from all of its rewards so far, whether a fit has seen
    them or not. Without rewards it is everybody's, with the intervals of a trajectory of which
    nothing is known. Intervals lack the error of everybody's theta: where the option `own` has a
    list, those of the other features have no width. Where trajectories do not clearly differ,
    everybody's theta decides, and `own` is null.
    """
    now = call.service.writer.clock()
    return await call.look(session_id, lambda reader, session: _one(reader, session, key, now))


def _one(reader: Reader, session: SessionRow, key: str, now: float) -> dict[str, Any]:
    row = reader.trajectory((*session.key, key))
    if row is None or not row.n_decisions:
        detail = f"the session has no trajectory {key!r}"
        raise Problem(ProblemCode.UNKNOWN_TRAJECTORY, detail, "key")
    record = reader.installed(session)
    estimate: dict[str, Any] = {} if record is None else record.values
    everybody = None
    if estimate:
        bands = estimate.get("intervals") or {}
        intervals = None if bands.get("drawn") else bands.get("theta")
        everybody = {"values": estimate["theta"], "intervals": intervals}
    return {
        **_listed(reader, session, [row])[0],
        **_known_of(reader, session, row, estimate, now),
        "everybody": everybody,
        "features": features_of_theta(session, estimate),
        "model_version": session.model_version,
        "deciding": deciding(reader, session),
    }


def _known_of(
    reader: Reader, session: SessionRow, row: TrajectoryRow, estimate: dict[str, Any], now: float
) -> dict[str, Any]:
    """Return the members `own`, `level` and `group` of `OneTrajectoryAnswer`."""
    answer: dict[str, Any] = {"own": None, "level": None, "group": None}
    if not (estimate.get("own") or estimate.get("levels")):
        return answer
    agent = build_agent(session, reader.agent_state(session.key))
    tail = None
    is_by_time = closing_of(session).is_by_time
    if row.n_measurements or is_by_time:
        first, (closed, _) = first_of_last(session, row), closed_rounds(reader, session, row, now)
        if not agent.has_responses:
            last = closed if is_by_time else row.measured_through
            first = agent.stretches.of(np.array([max(1, last)]))[0][0]
        tail = last_rounds(reader, session, row.key, first, closed)
    own, levels = agent.response(row.key, tail), estimate.get("levels")
    if own is not None:
        theta, error = own
        ends = np.stack([theta - QUANTILE * error, theta + QUANTILE * error], axis=1).tolist()
        intervals = ends if differing(estimate["own"]) else None
        answer["own"] = {"values": theta.tolist(), "intervals": intervals}
        grouped = estimate["own"].get("groups")
        name = grouped and group_of(row.key, grouped["by"])
        if grouped and name in grouped["means"]:
            theta = np.add(estimate["theta"], grouped["means"][name])
            reaches = np.multiply.outer(grouped["errors"][name], (-QUANTILE, QUANTILE))
            ends = (theta[:, None] + reaches).tolist()
            answer["group"] = {"name": name, "values": theta.tolist(), "intervals": ends}
    if level := levels and agent.level(row.key, tail, levels["spread"]):
        value, reach = level[0], QUANTILE * level[1]
        ends = [value - reach, value + reach]
        answer["level"] = {"value": value, "interval": ends}
    return answer


@router.serve("DELETE /trajectories/{key:text}", "Erase a trajectory", None, 204)
async def delete_trajectory(call: Call, session_id: str, key: str) -> None:
    """Erase all rounds and rewards of a trajectory. This cannot be undone.

    The answer comes when its rows are gone; where it does not come, they are gone soon, and nobody
    sees them meanwhile. A trajectory that is not there is erased already (204, too). Its key may
    begin anew. A fit is due at once that knows nothing of these rows; the estimate in use stays
    until then.
    """
    erase = erase_trajectory((call.tenant, session_id), key, call.actor)
    await call.service.slices.run(erase)


def in_force(rows: list[MeasurementRow]) -> list[MeasurementRow]:
    """Return the rows that no later one of them replaces, in their order."""
    latest: dict[int, int] = {}
    for row in rows:
        latest[row.root] = max(row.position, latest.get(row.root, 0))
    return [row for row in rows if latest[row.root] == row.position]


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
    items = []
    for decision in giving_way(shown):
        values = in_force(measured[decision.round])
        alone = [m for m in values if m.first_round == m.last_round]
        own = [decision.covariates, *(m.covariates for m in alone)]
        context = decision.selected(session.dim).tolist() if decision.context else None
        item = members_of(RoundAnswer, decision) | {
            "context": context,
            "reward": sum(m.value for m in alone) if alone else None,
            "n_rewards": len(alone),
            "n_corrected": len(measured[decision.round]) - len(values),
            "spans": [
                {**members_of(SpanAnswer, m), "covariates": given_covariates([m.covariates])}
                for m in values
                if m.first_round != m.last_round
            ],
            "covariates": given_covariates(own),
            "void": decision.round in void,
        }
        items.append(item)
    return page(items, following)
