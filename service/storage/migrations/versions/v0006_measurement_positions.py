"""Number measurements in their session, and make the manifests of fits watermarks."""

import json
from collections.abc import Iterator
from typing import Any

from alembic import op
from sqlalchemy import Connection, text

from service.storage.migrate import run_script
from service.storage.watermarks import arrival_order, as_watermark, is_old

revision = "0006"
down_revision = "0005"

OF_SESSION = "where tenant = :tenant and session_id = :id"


def upgrade() -> None:
    """Run the script of this revision, then convert the manifests."""
    run_script(revision)
    bind = op.get_bind()
    sessions = bind.execute(text("select tenant, id, schedule, reward_wait_seconds from sessions"))
    for tenant, id, schedule, wait in sessions.all():
        _convert(bind, {"tenant": tenant, "id": id}, json.loads(schedule), wait)


def _convert(bind: Connection, key: dict[str, str], schedule: Any, wait: float) -> None:
    """Convert the manifests of a session, and renumber what came at the same time if need be."""
    pending = [due for due in (schedule["current"], *schedule["waiting"]) if due is not None]
    estimates = dict(_manifests(bind, key))
    old = [manifest for manifest in (*estimates.values(), *pending) if is_old(manifest)]
    if not old:
        return
    _renumber(bind, key, [manifest["measured"] for manifest in old])

    def position_of(trajectory: str, round: int) -> int:
        place = {**key, "trajectory": trajectory, "round": round}
        return int(bind.execute(text(ROUND), place).scalar() or 0)

    for number, manifest in estimates.items():
        if is_old(manifest):
            dumped = json.dumps(as_watermark(manifest, wait, position_of))
            bind.execute(text(SAVE_MANIFEST), {**key, "number": number, "manifest": dumped})
    for due in pending:
        if is_old(due):
            new = as_watermark(due, wait, position_of)
            due.clear()
            due.update(new)
    dumped = json.dumps(schedule, separators=(",", ":"))
    bind.execute(text(SAVE_SCHEDULE), {**key, "schedule": dumped})


ROUND = f"""select max(position) from decisions {OF_SESSION}
    and trajectory = :trajectory and round = :round"""
SAVE_MANIFEST = f"update estimates set manifest = :manifest {OF_SESSION} and number = :number"
SAVE_SCHEDULE = "update sessions set schedule = :schedule where tenant = :tenant and id = :id"
MEASURED = f"select trajectory, number, at, position from measurements {OF_SESSION}"
# positions are unique, so they change by way of negative ones
MOVE = f"""update measurements set position = -cast(:position as bigint) {OF_SESSION}
    and trajectory = :trajectory and number = :number"""
MOVED = f"update measurements set position = -position {OF_SESSION} and position < 0"


def _manifests(bind: Connection, key: dict[str, str]) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = bind.execute(text(f"select number, manifest from estimates {OF_SESSION}"), key)
    for number, manifest in rows.all():
        yield number, json.loads(manifest)


def _renumber(bind: Connection, key: dict[str, str], manifests: list[dict[str, int]]) -> None:
    """Order measurements of one time such that every manifest holds the first ones of all."""
    rows = sorted(bind.execute(text(MEASURED), key).all())
    times: dict[str, list[float]] = {}
    for trajectory, _, at, _ in rows:
        times.setdefault(trajectory, []).append(at)
    if len(times) < 2:
        return
    order = arrival_order(times, manifests)
    moved = [
        {**key, "trajectory": trajectory, "number": number, "position": new}
        for (trajectory, number, _, old), new in zip(
            rows, (int(n) for name in times for n in order[name]), strict=True
        )
        if old != new
    ]
    if moved:
        bind.execute(text(MOVE), moved)
        bind.execute(text(MOVED), key)
