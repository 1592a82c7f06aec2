"""Entries of the audit log, written in the transaction of the change that they tell of."""

import json
import secrets
from dataclasses import dataclass
from typing import Any

from service.session.records import Actor, AuditRow
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork

MOST_DETAIL = 4096  # characters of an entry's detail
MOST_MEMBER = 512  # of one of its members, where the whole is too long
MOST_FORGOTTEN = 500  # entries deleted by one command


def note(uow: UnitOfWork, tenant: str, by: Actor, action: str, subject: str, **detail: Any) -> None:
    """Add an entry: an action, like "key_revoked", on a key or session, whose id is `subject`.

    `detail` is what else is worth knowing. Where it is too long, long members are left out, and
    named in `left_out`.
    """
    text = json.dumps(detail)
    if len(text) > MOST_DETAIL:
        short = {k: value for k, value in detail.items() if len(json.dumps(value)) < MOST_MEMBER}
        text = json.dumps({**short, "left_out": sorted(detail.keys() - short.keys())})
    # sorts by time, and within a transaction by what was written first
    place = f"{round(uow.now * 1e6):014x}{uow.n_writes % 16**4:04x}"
    entry_id = place + secrets.token_hex(3)[:5]
    uow.pending.audit.append(AuditRow(tenant, entry_id, uow.now, *by, action, subject, text))


@dataclass(frozen=True, slots=True)
class ForgetAudit(Command[int]):
    """Command: delete the oldest entries that are older than `seconds`, of all tenants."""

    seconds: float

    def __call__(self, uow: UnitOfWork) -> int:
        """Return how many were deleted; at `MOST_FORGOTTEN` there may be more."""
        oldest = uow.stored.audit(None, "", MOST_FORGOTTEN)
        old = [entry for entry in oldest if entry.at < uow.now - self.seconds]
        if old:
            uow.pending.audit_gone = old[-1].id
        return len(old)
