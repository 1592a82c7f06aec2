"""Commands that make, rotate and revoke API keys. Of a key itself only the SHA-256 is stored."""

import secrets
from hashlib import sha256
from typing import Any

from service.base.problems import Problem, ProblemCode
from service.session.records import COMMAND_LINE, Actor, ApiKey, LimitRow
from service.writer.command import command
from service.writer.notices import note
from service.writer.unit_of_work import UnitOfWork

PREFIX = "lhb_"


def new_key(
    tenant: str, label: str, now: float, role: str = "writer", expires_at: float | None = None
) -> tuple[str, ApiKey]:
    """Make a key, and the row to store, with its digest; the key itself is stored nowhere.

    It gives access to a tenant, by a role of `service.web.middleware`, until `expires_at`.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    digest = sha256(key.encode()).digest()
    row = ApiKey(tenant, digest.hex()[:12], digest, label, now, None, role, expires_at)
    return key, row


def may_manage(manager: str, tenant: str) -> bool:
    """Return whether an admin of the tenant `manager` manages the keys of `tenant`.

    Admins of the default tenant manage the keys of all tenants.
    """
    return manager in ("", tenant)


@command
def save_key(uow: UnitOfWork, row: ApiKey, by: Actor = COMMAND_LINE) -> None:
    """Store a new key. Nothing is checked, since ids are random."""
    uow.pending.api_keys.append(row)
    note_key(uow, by, "key_created", row)


@command
def revoke_key(uow: UnitOfWork, key_id: str, manager: str = "", by: Actor = COMMAND_LINE) -> ApiKey:
    """Revoke a key of a tenant that `manager` manages.

    Returns the key, revoked now or, if it was revoked before, unchanged; 404 unknown_key.
    """
    key = find_key(uow, manager, key_id)
    if key.revoked_at is None:
        key = key._replace(revoked_at=uow.now)
        uow.pending.api_keys.append(key)
        note_key(uow, by, "key_revoked", key)
    return key


@command
def rotate_key(
    uow: UnitOfWork, key_id: str, overlap: float, manager: str = "", by: Actor = COMMAND_LINE
) -> tuple[str, ApiKey]:
    """Make a key that takes the place of another, which expires `overlap` seconds later.

    The new key, which is returned with its row, has the tenant, the role and the label of the old
    one, and lasts as long as that was made to last. Raises 404 unknown_key; 409 key_not_in_use: it
    is revoked, or has expired.
    """
    old = find_key(uow, manager, key_id)
    if not old.is_in_use(uow.now):
        detail = f"the key {old.id!r} is revoked or has expired; make a new one"
        raise Problem(ProblemCode.KEY_NOT_IN_USE, detail, "key_id")
    lasts = None if old.expires_at is None else uow.now + old.expires_at - old.created_at
    key, row = new_key(old.tenant, old.label, uow.now, old.role, lasts)
    until = uow.now + overlap
    until = until if old.expires_at is None else min(until, old.expires_at)
    uow.pending.api_keys += [row, old._replace(expires_at=until)]
    note_key(uow, by, "key_rotated", row, replaces=old.id, old_expires_at=until)
    return key, row


@command
def note_use(uow: UnitOfWork, keys_used: list[tuple[str, str]]) -> None:
    """Store that keys, each given as tenant and id, were in use just now.

    Keys are stored in order: two processes must not lock crosswise.
    """
    uow.pending.used_keys += [(*key, uow.now) for key in keys_used]


@command
def set_limit(
    uow: UnitOfWork, tenant: str, key_id: str, changed: dict[str, Any], by: Actor = COMMAND_LINE
) -> LimitRow:
    """Change limits of a tenant or, with a `key_id`, of a key; the others stay.

    Returns the row; a key's has its tenant. Raises 404 unknown_key.
    """
    if key_id:
        tenant = find_key(uow, "", key_id).tenant
    row = uow.stored.limit_of(tenant, key_id) or LimitRow(tenant, key_id)
    row = row._replace(**changed)
    uow.pending.limits.append(row)
    note(uow, tenant, by, "limit_set", key_id or tenant, **changed)
    return row


def find_key(uow: UnitOfWork, manager: str, key_id: str) -> ApiKey:
    """Return a key of a tenant that `manager` manages; 404 unknown_key if there is none."""
    for key in uow.stored.api_keys():
        if key.id == key_id and may_manage(manager, key.tenant):
            return key
    raise Problem(ProblemCode.UNKNOWN_KEY, f"there is no key {key_id!r}", "key_id")


def note_key(uow: UnitOfWork, by: Actor, action: str, key: ApiKey, **more: object) -> None:
    """Add an entry about a key to the audit log."""
    about = {"role": key.role, "label": key.label, "expires_at": key.expires_at, **more}
    note(uow, key.tenant, by, action, key.id, **about)
