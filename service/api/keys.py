"""Endpoints that list, make, rotate and revoke API keys, limit them, and show the audit log."""

import json
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field, with_config
from typing_extensions import TypedDict

from clients.sdk.answers import AuditAnswer, KeyAnswer, LimitAnswer, NewKeyAnswer
from service.api.access import ADMIN
from service.api.answer_models import LIMIT, cut, members_of, page, page_of, timestamp
from service.api.body_parsing import BodyParser
from service.api.request_bodies import strict
from service.api.routes import Call, Routes
from service.base.field_types import Key
from service.base.problems import Problem, ProblemCode
from service.commands.keys import may_manage, new_key, revoke_key, rotate_key, save_key, set_limit
from service.session.records import ApiKey
from service.storage.reader import Reader

router = Routes("/v1", tags=["keys"], role=ADMIN)
MOST_SECONDS = 1e9  # some thirty years
DAY = 86_400.0
PLACE = Query("", max_length=64, description="`next` of the previous page")


@with_config(strict({"label": "the shop", "role": "writer", "expires_in_seconds": 7_776_000}))
class KeyBody(TypedDict, total=False):
    """A new API key."""

    label: Annotated[Key, Field(description="note for people")]
    role: Annotated[
        Literal["reader", "writer", "admin"],
        Field(
            description="reader: reads; writer: also creates, changes and deletes sessions, "
            "decides and rewards; admin: also manages keys, and reads the audit log; "
            'default "writer"'
        ),
    ]
    tenant: Annotated[
        Key,
        Field(
            description="whose data it opens; default: that of the key which asks, and another one "
            "only for admins of the default tenant"
        ),
    ]
    expires_in_seconds: Annotated[
        float | None, Field(gt=0, le=MOST_SECONDS, description="default: it does not expire")
    ]


@with_config(strict({"overlap_seconds": 3600}))
class RotationBody(TypedDict, total=False):
    """How long the old key stays valid."""

    overlap_seconds: Annotated[
        float, Field(ge=0, le=MOST_SECONDS, description="default: a day, 86400")
    ]


@with_config(strict({"tenant": "north", "requests_per_second": 50.0, "max_sessions": 100}))
class LimitBody(TypedDict, total=False):
    """What a tenant may use, or a key; null: as the setting of that name says."""

    tenant: Annotated[Key, Field(description="whose they are, unless a key's")]
    key_id: Annotated[Key, Field(description="a key has a limit of requests alone", min_length=1)]
    requests_per_second: Annotated[
        float | None, Field(ge=0, description="of all keys of the tenant together, or of the key")
    ]
    max_sessions: Annotated[int | None, Field(ge=0, le=2**53)]
    max_tenant_mb: Annotated[int | None, Field(ge=0, le=2**40)]


KEY, ROTATION, LIMIT_BODY = BodyParser(KeyBody), BodyParser(RotationBody), BodyParser(LimitBody)


@router.read("/keys", "List API keys", page_of(KeyAnswer))
def get_keys(
    reader: Reader, tenant: str, cursor: str = PLACE, limit: int = LIMIT
) -> dict[str, Any]:
    """List the keys of the tenant; an admin of the default tenant sees those of all tenants.

    Revoked and expired keys are listed too. Of a key, only its id is known. `last_used_at` is
    stored once a minute.
    """
    rows = [key for key in reader.api_keys() if may_manage(tenant, key.tenant)]
    later = sorted((key for key in rows if _place(key) > cursor), key=_place)
    shown, following = cut(later[: limit + 1], limit, _place)
    return page([members_of(KeyAnswer, key) for key in shown], following)


def _place(key: ApiKey) -> str:
    """Return where a key stands in the listing: by creation."""
    return f"{round(key.created_at * 1e6):016d}{key.id}"


@router.serve("POST /keys", "Make an API key", NewKeyAnswer, 201, body=KEY)
async def post_key(call: Call, fields: KeyBody) -> dict[str, Any]:
    """Make a key, and show it: it is stored nowhere, and cannot be shown again.

    With the first key, requests without a key are refused. So the first one has the role `admin`.
    A request that is repeated makes another key.
    """
    owner = fields.get("tenant", call.tenant)
    if not may_manage(call.tenant, owner):
        detail = "only admins of the default tenant make keys of other tenants"
        raise Problem(ProblemCode.FORBIDDEN, detail, "tenant")
    role = fields.get("role", "writer")
    if role != "admin" and not call.request.app.state.key_watch.is_closed:
        detail = "role: the first key is an admin's; without one, nobody could make others here"
        raise Problem(ProblemCode.BAD_OPTION, detail, "role")
    now, lasts = call.service.writer.clock(), fields.get("expires_in_seconds")
    expires_at = None if lasts is None else now + lasts
    key, row = new_key(owner, fields.get("label", ""), now, role, expires_at)
    await call.submit(save_key(row, call.actor))
    await call.request.app.state.key_watch.reload()
    return {"key": key, **members_of(KeyAnswer, row)}


@router.serve(
    "POST /keys/{key_id}/rotation", "Replace an API key", NewKeyAnswer, 201, 409, body=ROTATION
)
async def post_rotation(call: Call, key_id: str, fields: RotationBody) -> dict[str, Any]:
    """Make a key of the same tenant, role and label, and show it; the old one soon expires.

    Both are valid for `overlap_seconds`. The new one lasts as long as the old one was made to last.
    """
    overlap = fields.get("overlap_seconds", DAY)
    key, row = await call.submit(rotate_key(key_id, overlap, call.tenant, call.actor))
    await call.request.app.state.key_watch.reload()
    return {"key": key, **members_of(KeyAnswer, row)}


@router.serve("DELETE /keys/{key_id}", "Revoke an API key", None, 204)
async def delete_key(call: Call, key_id: str) -> None:
    """Revoke a key; it stays listed.

    Once this is answered, this server refuses the key, and other servers on the same database do
    within two seconds.
    """
    await call.submit(revoke_key(key_id, call.tenant, call.actor))
    await call.request.app.state.key_watch.reload()


@router.read("/limits", "List limits", page_of(LimitAnswer))
def get_limits(reader: Reader, tenant: str) -> dict[str, Any]:
    """List limits that tenants and keys have of their own; of other tenants for the default one."""
    return page([row._asdict() for row in reader.limits() if may_manage(tenant, row.tenant)], None)


@router.serve("PATCH /limits", "Limit a tenant or a key", LimitAnswer, body=LIMIT_BODY)
async def patch_limits(call: Call, fields: dict[str, Any]) -> dict[str, Any]:
    """Change limits of a tenant or of a key; those that are not named stay; 0: unlimited.

    Only admins of the default tenant do. This server obeys once it answers, others on the same
    database within two seconds.
    """
    if call.tenant:
        detail = "only admins of the default tenant set limits"
        raise Problem(ProblemCode.FORBIDDEN, detail, "authorization")
    if ("tenant" in fields) == ("key_id" in fields):
        raise Problem(ProblemCode.AMBIGUOUS, "limits are either a tenant's or a key's", "tenant")
    tenant, key_id = fields.pop("tenant", ""), fields.pop("key_id", "")
    if key_id and fields.keys() - {"requests_per_second"}:
        detail = "key_id: a key has a limit of requests alone"
        raise Problem(ProblemCode.AMBIGUOUS, detail, "key_id")
    row = await call.submit(set_limit(tenant, key_id, fields, call.actor))
    await call.request.app.state.key_watch.reload()
    return row._asdict()


@router.read("/audit", "Read the audit log", page_of(AuditAnswer))
def get_audit(
    reader: Reader, tenant: str, cursor: str = PLACE, limit: int = LIMIT
) -> dict[str, Any]:
    """List who changed keys and sessions, in order of time.

    An admin of the default tenant sees all tenants' entries. Of several servers on one database,
    another one's entry may come into its place some seconds late.
    """
    rows = reader.audit(tenant or None, cursor, limit + 1)
    shown, following = cut(rows, limit, lambda entry: entry.id)
    items = []
    for entry in shown:
        stored: dict[str, Any] = json.loads(entry.detail)
        detail = {
            name: timestamp(value) if name.endswith("_at") and isinstance(value, float) else value
            for name, value in stored.items()
        }
        items.append({**members_of(AuditAnswer, entry), "detail": detail})
    return page(items, following)
