"""Making and removing webhooks, and the attempts to deliver their messages."""

import json
import random
import secrets
from base64 import b64encode
from collections.abc import Sequence
from typing import Literal

from service.base.problems import Problem, ProblemCode
from service.session.records import Actor, Message, Webhook
from service.writer.command import command
from service.writer.notices import note, write_message
from service.writer.unit_of_work import UnitOfWork

MOST_WEBHOOKS = 20  # of a tenant
SECRET = "whsec_"  # begins a secret, as Standard Webhooks has it; base64 follows
MOST_PAUSE = 6 * 3600.0
GIVEN_UP_AFTER = 3 * 86_400.0  # seconds that a message is tried for
Outcome = Literal["delivered", "failed", "given_up"]


@command
def make_webhook(
    uow: UnitOfWork, tenant: str, url: str, events: Sequence[str], by: Actor
) -> Webhook:
    """Make a webhook of a tenant, and return its row, with the secret; 409 limit_reached."""
    if len(uow.stored.webhooks(tenant)) >= MOST_WEBHOOKS:
        detail = f"there are {MOST_WEBHOOKS} webhooks, which is the limit; remove one"
        raise Problem(ProblemCode.LIMIT_REACHED, detail)
    secret = SECRET + b64encode(secrets.token_bytes(32)).decode()
    row = Webhook(tenant, secrets.token_hex(6), url, json.dumps([*events]), secret, uow.now)
    uow.pending.webhooks.append(row)
    note(uow, tenant, by, "webhook_created", row.id, url=url, events=[*events])
    return row


@command
def remove_webhook(uow: UnitOfWork, tenant: str, webhook: str, by: Actor) -> None:
    """Remove a webhook, with the messages that wait; 404 unknown_webhook."""
    row = found_webhook(uow, tenant, webhook)
    uow.pending.removed_webhooks.append((row.tenant, row.id))
    note(uow, tenant, by, "webhook_removed", row.id, url=row.url)


@command
def try_webhook(uow: UnitOfWork, tenant: str, webhook: str) -> None:
    """Write a message of the type "test" to a webhook; 404 unknown_webhook."""
    write_message(uow, found_webhook(uow, tenant, webhook), "test", {})


@command
def take_message(
    uow: UnitOfWork, tenant: str, webhook: str, seconds: float
) -> tuple[Webhook, Message] | None:
    """Take a webhook's next due message, for an attempt of at most `seconds`.

    Returns the message, with its webhook; None: none is due that no other process has. If the
    sender dies meanwhile, the message is due again after that.
    """
    message = uow.locking.due_message(tenant, webhook, uow.now)
    if message is None:
        return None
    for row in uow.stored.webhooks(tenant):
        if row.id == webhook:
            uow.pending.messages.append(message._replace(next_at=uow.now + seconds))
            return row, message
    uow.pending.forgotten.append(message[:3])  # the webhook was removed meanwhile
    return None


@command
def note_attempt(uow: UnitOfWork, message: Message, error: str | None, pause: float) -> Outcome:
    """Store how an attempt went, and return what became of the message; `error` says why it failed.

    The second attempt follows after about `pause` seconds, and each further pause is four times as
    long, until the message is `GIVEN_UP_AFTER` old.
    """
    owner, now = message[:2], uow.now
    if error is None:
        uow.pending.forgotten.append(message[:3])
        uow.pending.attempts.append((*owner, None, None, now, 0))
        return "delivered"
    # not all at once: many messages may have failed together
    pause = min(pause * 4.0**message.attempts, MOST_PAUSE) * random.uniform(0.8, 1.2)
    if is_over := now + pause > message.at + GIVEN_UP_AFTER:
        uow.pending.forgotten.append(message[:3])
    else:
        later = message._replace(attempts=message.attempts + 1, next_at=now + pause)
        uow.pending.messages.append(later)
    uow.pending.attempts.append((*owner, error, now, None, int(is_over)))
    return "given_up" if is_over else "failed"


def found_webhook(uow: UnitOfWork, tenant: str, webhook: str) -> Webhook:
    """Return a tenant's webhook; 404 unknown_webhook if there is none."""
    for row in uow.stored.webhooks(tenant):
        if row.id == webhook:
            return row
    detail = f"there is no webhook {webhook!r}"
    raise Problem(ProblemCode.UNKNOWN_WEBHOOK, detail, "webhook_id")
