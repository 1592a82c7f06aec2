"""Who asks: API keys of 256 random bits, of which the database keeps the SHA-256."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from starlette.types import Scope

from service.problems import Problem, ProblemCode
from service.records import ApiKey
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork

OPEN = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})  # for anybody who gets here
PREFIX = "lhb_"


class Keyring:
    """The keys of the database as last read.

    Before the first key everybody is let in, as the tenant "". From the first one on nobody is
    without a key: revoking the last does not open the door again.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._tenants: dict[bytes, str] = {}

    def load(self, keys: Iterable[ApiKey]) -> None:
        """Know these keys from now on, and no others."""
        keys = list(keys)
        self.is_closed = self.is_closed or bool(keys)
        self._tenants = {key.digest: key.tenant for key in keys if key.revoked_at is None}

    def tenant_of(self, scope: Scope) -> str:
        """Whose data a request may see.

        Raises
        ------
        Problem
            401 unauthorized.
        """
        if not self.is_closed or scope["path"] in OPEN:
            return ""
        tenant = self._presented_tenant(scope)
        if tenant is None:
            detail = "a request needs the header Authorization: Bearer, with a key of this service"
            raise Problem(ProblemCode.UNAUTHORIZED, detail, "authorization")
        return tenant

    def knows(self, scope: Scope) -> bool:
        """Say whether a request carries a key that opens something."""
        return self._presented_tenant(scope) is not None

    def _presented_tenant(self, scope: Scope) -> str | None:
        scheme, key = presented(scope)
        return self._tenants.get(sha256(key).digest()) if scheme.lower() == b"bearer" else None


def presented(scope: Scope) -> tuple[bytes, bytes]:
    """Scheme and key of a request's Authorization; empty without one."""
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, key = given.partition(b" ")
    return scheme, key.strip()


def new_key(tenant: str, label: str, now: float) -> tuple[str, ApiKey]:
    """Make a key, which nothing keeps, and its row."""
    key = PREFIX + secrets.token_urlsafe(32)
    digest = sha256(key.encode()).digest()
    return key, ApiKey(tenant, digest.hex()[:12], digest, label, now)


def revoked(keys: Iterable[ApiKey], key_id: str, now: float) -> ApiKey:
    """Return the row that revokes the key of this id; one revoked before stays so.

    Raises
    ------
    Problem
        404 unknown_key.
    """
    for key in keys:
        if key.id == key_id:
            return key if key.revoked_at is not None else key._replace(revoked_at=now)
    raise Problem(ProblemCode.UNKNOWN_KEY, f"there is no key {key_id!r}", "key_id")


@dataclass(frozen=True, slots=True)
class SaveKey(Command[None]):
    """Command: store a key, or that it is revoked."""

    row: ApiKey

    def __call__(self, uow: UnitOfWork) -> None:
        """Nothing is checked: ids are random."""
        uow.save_api_key(self.row)
