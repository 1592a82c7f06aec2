"""Sends what waits for webhooks: signed, again until it is received, one sender a message.

Every server looks; a message is one sender's until its attempt is noted or its claim is over. So a
message may arrive twice, with one id, and messages in any order.
"""

import asyncio
import base64
import hmac
from hashlib import sha256

import structlog

from service.api.runtime import Service
from service.base.outgoing import NotAllowed, NotReached
from service.base.problems import Problem
from service.base.recurring import Recurring
from service.commands.webhooks import SECRET, note_attempt, take_message

log = structlog.get_logger()
AT_ONCE = 16  # webhooks that are sent to
IN_A_ROW = 20  # messages to one of them, before another one's turn
MOST_LETTERS = 200  # of an error


class WebhookSender(Recurring):
    """Looks for due messages from time to time, and sends each webhook's one after the other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}
        super().__init__("webhooks", lambda: service.intervals.webhooks, self._look)

    async def close(self) -> None:
        """Stop; what is being sent is sent again once its claim is over."""
        await super().close()
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)

    async def _look(self) -> None:
        now, most = self._service.writer.clock(), AT_ONCE + len(self._sending)
        for key in await self._service.look(lambda reader: reader.due_webhooks(now, most)):
            if key not in self._sending and len(self._sending) < AT_ONCE:
                self._sending[key] = asyncio.create_task(self._send_all(key))

    async def _send_all(self, key: tuple[str, str]) -> None:
        """Send a webhook's due messages, until one fails: then others have their turn."""
        try:
            outcome = "delivered"
            for _ in range(IN_A_ROW):
                if outcome == "delivered":
                    outcome = await self._send_one(key)
        except Problem as problem:  # the database: the message is sent again
            log.warning("webhook_not_noted", tenant=key[0], webhook=key[1], reason=problem.detail)
        except Exception:
            log.exception("webhook_not_sent", tenant=key[0], webhook=key[1])
        finally:
            del self._sending[key]

    async def _send_one(self, key: tuple[str, str]) -> str:
        intervals, writer = self._service.intervals, self._service.writer
        taken = await writer.submit(take_message(*key, intervals.claim))
        if taken is None:
            return "none"
        (webhook, message), error = taken, None
        body = message.body.encode()
        headers = signed(webhook.secret, message.id, int(writer.clock()), body)
        try:
            status = await self._service.outgoing.post(webhook.url, body, headers)
            if not 200 <= status < 300:
                error = f"the answer was {status}"
        except (NotAllowed, NotReached) as failure:
            error = str(failure)[:MOST_LETTERS]
        outcome = await writer.submit(note_attempt(message, error, intervals.attempts))
        self._service.metrics.count_message(key[0], outcome)
        if error is not None:
            about = {"tenant": key[0], "webhook": key[1], "message": message.id, "reason": error}
            log.warning(f"webhook_{outcome}", **about)
        return outcome


def signed(secret: str, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message, with its signature by Standard Webhooks, version 1."""
    key = base64.b64decode(secret.removeprefix(SECRET))
    signature = hmac.digest(key, f"{message_id}.{at}.".encode() + body, sha256)
    return {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{base64.b64encode(signature).decode()}",
    }
