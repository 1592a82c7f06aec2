"""What is told of a change, in its transaction: an entry of the audit log, messages to webhooks.

So none is lost and none is invented: a sender (`service.operation.webhooks`) takes messages away.
"""

import json
import secrets
from datetime import UTC, datetime
from itertools import count
from typing import Any, Literal

from service.session.records import Actor, AuditRow, Message, SessionRow, Webhook
from service.writer.command import command
from service.writer.unit_of_work import UnitOfWork

Event = Literal["finding", "alarm", "fit_failed", "guard_tripped"]
MOST_WAITING = 1000  # messages of a webhook; further ones are given up
MOST_DETAIL = 4096  # characters of an entry's detail
MOST_MEMBER = 512  # of one of its members, where the whole is too long
MOST_FORGOTTEN = 500  # entries deleted by one command
_number = count(secrets.randbits(20))  # of this process's entries


def note(uow: UnitOfWork, tenant: str, by: Actor, action: str, subject: str, **detail: Any) -> None:
    """Add an entry: an action, like "key_revoked", on a key or session, whose id is `subject`.

    `detail` is what else is worth knowing. Where it is too long, long members are left out, and
    named in `left_out`.
    """
    text = json.dumps(detail)
    if len(text) > MOST_DETAIL:
        short = {k: value for k, value in detail.items() if len(json.dumps(value)) < MOST_MEMBER}
        text = json.dumps({**short, "left_out": sorted(detail.keys() - short.keys())})
    # sorts by time, and in a process by what was written first; other processes draw other ends
    entry_id = f"{round(uow.now * 1e6):013x}{next(_number) % 16**6:06x}{secrets.token_hex(2)}"
    uow.pending.audit.append(AuditRow(tenant, entry_id, uow.now, *by, action, subject, text))


@command
def forget_audit(uow: UnitOfWork, seconds: float) -> int:
    """Delete the oldest entries that are older than `seconds`, of all tenants.

    Returns how many were deleted; at `MOST_FORGOTTEN` there may be more.
    """
    oldest = uow.stored.audit(None, "", MOST_FORGOTTEN)
    old = [entry for entry in oldest if entry.at < uow.now - seconds]
    if old:
        uow.pending.audit_gone.append((old[-1].id,))
    return len(old)


def announce(uow: UnitOfWork, session: SessionRow, event: Event, **data: Any) -> None:
    """Write a message about a session to those of its tenant's webhooks that want such events."""
    data = {"session_id": session.id, "name": session.name, **data}
    for webhook in uow.stored.webhooks(session.tenant):
        if event in json.loads(webhook.events):
            write_message(uow, webhook, event, data)


def write_message(uow: UnitOfWork, webhook: Webhook, event: str, data: dict[str, Any]) -> None:
    """Write a message, unless too many wait already; its body is that of Standard Webhooks."""
    owner = webhook.tenant, webhook.id
    n_waiting, _ = uow.stored.waiting_messages(webhook.tenant).get(owner, (0, 0.0))
    if n_waiting >= MOST_WAITING:
        error = f"{n_waiting} messages wait already: further ones are given up"
        uow.pending.attempts.append((*owner, error, uow.now, None, 1))
        return
    at = datetime.fromtimestamp(uow.now, UTC).isoformat()
    body = json.dumps({"type": event, "timestamp": at, "data": data})
    message_id = f"msg_{secrets.token_hex(12)}"
    uow.pending.messages.append(Message(*owner, message_id, body, uow.now, 0, uow.now))
