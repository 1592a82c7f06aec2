"""Messages to webhooks, written in the transaction of what they tell.

So none is lost and none is invented: a sender (`service.operation.webhooks`) takes them from there.
"""

import json
import secrets
from datetime import UTC, datetime
from typing import Any, Literal

from service.session.records import Message, SessionRow, Webhook
from service.writer.unit_of_work import UnitOfWork

Event = Literal["finding", "alarm", "fit_failed", "guard_tripped"]
MOST_WAITING = 1000  # messages of a webhook; further ones are given up


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
