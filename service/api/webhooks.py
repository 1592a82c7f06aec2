"""Endpoints that make, list, try and remove webhooks."""

import json
from typing import Annotated, Any, Required

from pydantic import Field, with_config
from typing_extensions import TypedDict

from clients.sdk.answers import NewWebhookAnswer, WebhookAnswer
from service.api.access import ADMIN
from service.api.answer_models import members_of, page, page_of, timestamp
from service.api.body_parsing import BodyParser
from service.api.request_bodies import strict
from service.api.routes import Call, Routes
from service.base.field_types import NO_ZERO_BYTE
from service.base.outgoing import NotAllowed
from service.base.problems import Problem, ProblemCode
from service.commands.webhooks import make_webhook, remove_webhook, try_webhook
from service.session.records import Webhook
from service.storage.reader import Reader
from service.writer.notices import Event

router = Routes("/v1", tags=["webhooks"], role=ADMIN)
EVENTS: tuple[Event, ...] = ("finding", "alarm", "fit_failed", "guard_tripped")


@with_config(strict({"url": "https://example.com/hooks/bandits", "events": ["guard_tripped"]}))
class WebhookBody(TypedDict, total=False):
    """A URL to tell, and of what."""

    url: Required[Annotated[str, Field(max_length=2048, pattern=NO_ZERO_BYTE)]]
    events: Annotated[
        list[Event],
        Field(
            min_length=1,
            max_length=len(EVENTS),
            description="finding: a fit finds what the fit before did not; alarm: later rounds fit "
            "the estimate badly; fit_failed; guard_tripped: control's policy plays; default: all",
        ),
    ]


WEBHOOK = BodyParser(WebhookBody)


def webhook_answer(row: Webhook, n_waiting: int = 0, next_at: float | None = None) -> Any:
    """Return the members of `WebhookAnswer`."""
    events, next_try_at = json.loads(row.events), timestamp(next_at)
    more = {"events": events, "n_waiting": n_waiting, "next_try_at": next_try_at}
    return {**members_of(WebhookAnswer, row), **more}


@router.read("/webhooks", "List webhooks", page_of(WebhookAnswer))
def get_webhooks(reader: Reader, tenant: str) -> dict[str, Any]:
    """List the tenant's webhooks, with what waits for each and why its last attempt failed."""
    waiting, rows = reader.waiting_messages(tenant), reader.webhooks(tenant)
    return page([webhook_answer(row, *waiting.get(row[:2], ())) for row in rows], None)


@router.serve("POST /webhooks", "Make a webhook", NewWebhookAnswer, 201, 409, body=WEBHOOK)
async def post_webhook(call: Call, fields: WebhookBody) -> dict[str, Any]:
    """Make a webhook, and show the secret that signs its messages: it is not shown again.

    Its URL is https, of a host with a public address, or one of LHB_WEBHOOK_NETWORKS. Messages are
    those of Standard Webhooks. A request that is repeated makes another webhook.
    """
    try:
        call.service.outgoing.check(fields["url"])
    except NotAllowed as refusal:
        raise Problem(ProblemCode.INVALID, f"url: {refusal}", "url") from None
    events = list(dict.fromkeys(fields.get("events", EVENTS)))
    row = await call.submit(make_webhook(call.tenant, fields["url"], events, call.actor))
    return {"secret": row.secret, **webhook_answer(row)}


@router.serve("POST /webhooks/{webhook_id}/test", "Try a webhook", None, 204)
async def post_test(call: Call, webhook_id: str) -> None:
    """Send a message of the type "test"; the webhook's answer soon says how that went."""
    await call.submit(try_webhook(call.tenant, webhook_id))


@router.serve("DELETE /webhooks/{webhook_id}", "Remove a webhook", None, 204)
async def delete_webhook(call: Call, webhook_id: str) -> None:
    """Remove a webhook, with the messages that wait for it."""
    await call.submit(remove_webhook(call.tenant, webhook_id, call.actor))
