"""Trajectories: their list, erasing one, and the one that a listing of rounds means."""

from typing import Any

from fastapi import Query, Request, Response

from clients.sdk.answers import TrajectoryAnswer
from service.api.answer_models import page_of, timestamp
from service.api.paging import LIMIT, page
from service.api.routes import SESSION, Routes
from service.api.runtime import actor_of, service_of, tenant_of
from service.base.field_types import NO_ZERO_BYTE
from service.base.problems import Problem, ProblemCode
from service.commands.erase_trajectory import erase_trajectory
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow, TrajectoryRow
from service.storage.reader import Reader

router = Routes(SESSION, tags=["rounds"])
MISSING_AMONG = 1000  # a trajectory's last rounds, in which missing rewards are counted
PAGE_ROUNDS = 20_000  # rounds that a page looks at, besides those of its last item
CURSOR = Query(
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
    reader: Reader, session: SessionRow, cursor: str = CURSOR, limit: int = LIMIT
) -> dict[str, Any]:
    """List trajectories in order of their keys.

    `n_missing` is the number of rounds without a reward among the trajectory's last 1000 rounds;
    null where there is a clock, and rewards are of slots.
    """
    rows = reader.trajectories_from(session.key, cursor, limit + 2)
    rows = [row for row in rows if row.n_decisions]  # "" may have totals alone
    shown, following = cut_by_rounds(rows, limit)
    measured: dict[str, int] = {}
    timeline = timeline_of(session)
    if shown:
        measured = reader.measured_of_last(session.key, shown[0].key, shown[-1].key, MISSING_AMONG)
    items = [
        {
            "trajectory": row.key,
            "n_rounds": row.n_rounds,
            "n_missing": timeline.n_missing(min(row.n_rounds, MISSING_AMONG), measured[row.key]),
            "last_decision_at": timestamp(row.last_at),
        }
        for row in shown
    ]
    return page(items, following)


@router.serve("DELETE /trajectories/{key:text}", "Erase a trajectory", None, 204)
async def delete_trajectory(session_id: str, key: str, request: Request) -> Response:
    """Erase all rounds and rewards of a trajectory. This cannot be undone.

    The answer comes when its rows are gone; where it does not come, they are gone soon, and nobody
    sees them meanwhile. A trajectory that is not there is erased already (204, too). Its key may
    begin anew. A fit is due at once that knows nothing of these rows; the estimate in use stays
    until then.
    """
    service, session = service_of(request), (tenant_of(request), session_id)
    await service.slices.run(erase_trajectory(session, key, actor_of(request)))
    return Response(status_code=204)
