"""The types of the answers about API keys and the audit log (`response_types.py`)."""

from typing import Any, Literal

from pydantic import BaseModel

from service.api.response_types import Page


class KeyAnswer(BaseModel):
    """An API key, without the key itself."""

    id: str
    tenant: str
    role: Literal["reader", "writer", "admin"]
    label: str
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class NewKeyAnswer(KeyAnswer):
    """A new API key. This is the only time that `key` is shown."""

    key: str


class AuditAnswer(BaseModel):
    """A change of a key or a session: whose, when, by which key and request, and what."""

    tenant: str
    id: str
    at: str
    actor: str | None
    request_id: str | None
    action: str
    subject: str
    detail: dict[str, Any]


class KeyPage(Page[KeyAnswer]):
    """A page of API keys."""


class AuditPage(Page[AuditAnswer]):
    """A page of the audit log."""
