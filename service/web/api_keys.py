"""API keys: 256 random bits, of which the database stores only the SHA-256."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from starlette.types import Scope

from service.dashboard.assets import ASSET_PATHS
from service.problems import Problem, ProblemCode
from service.records import ApiKey
from service.writer.command import Command
from service.writer.unit_of_work import UnitOfWork

# served without a key: they show no data of a session
OPEN_PATHS = frozenset({"/", *ASSET_PATHS, "/healthz", "/readyz", "/openapi.json", "/docs"})
PREFIX = "lhb_"


class Keyring:
    """The keys of the database as last read.

    While the database has never had a key, every request is served, for the tenant "". After that
    every request needs a key, also when all keys are revoked.

    Attributes
    ----------
    is_closed : bool
        Whether requests need a key.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._tenants: dict[bytes, str] = {}
        self._ids: dict[bytes, str] = {}

    def load(self, keys: Iterable[ApiKey]) -> None:
        """Replace the known keys by these."""
        keys = list(keys)
        self.is_closed = self.is_closed or bool(keys)
        self._tenants = {key.digest: key.tenant for key in keys if key.revoked_at is None}
        self._ids = {key.digest: key.id for key in keys}

    def tenant_of(self, scope: Scope) -> str:
        """Return the tenant whose data a request may see; "" where no key is needed.

        Raises
        ------
        Problem
            401 unauthorized: the request needs a key and carries none that is known.
        """
        if not self.is_closed or scope["path"] in OPEN_PATHS:
            return ""
        tenant = self._presented_tenant(scope)
        if tenant is None:
            detail = 'a request needs the header "Authorization: Bearer KEY" with a valid key'
            raise Problem(ProblemCode.UNAUTHORIZED, detail, "authorization")
        return tenant

    def knows(self, scope: Scope) -> bool:
        """Return whether a request carries a valid key."""
        return self._presented_tenant(scope) is not None

    def id_of(self, scope: Scope) -> str | None:
        """Return the id of a request's key, also of a revoked one; None if it is not known."""
        return self._ids.get(sha256(read_authorization(scope)[1]).digest())

    def _presented_tenant(self, scope: Scope) -> str | None:
        scheme, key = read_authorization(scope)
        return self._tenants.get(sha256(key).digest()) if scheme.lower() == b"bearer" else None


def read_authorization(scope: Scope) -> tuple[bytes, bytes]:
    """Return scheme and key of the Authorization header; both are empty without that header."""
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    scheme, _, key = given.partition(b" ")
    return scheme, key.strip()


def new_key(tenant: str, label: str, now: float) -> tuple[str, ApiKey]:
    """Make a key.

    Parameters
    ----------
    tenant, label : str
        The tenant that the key gives access to, and a note for people.
    now : float
        Unix seconds.

    Returns
    -------
    key : str
        The key itself; it is stored nowhere.
    row : ApiKey
        The row to store, with the key's digest.
    """
    key = PREFIX + secrets.token_urlsafe(32)
    digest = sha256(key.encode()).digest()
    return key, ApiKey(tenant, digest.hex()[:12], digest, label, now)


def revoked(keys: Iterable[ApiKey], key_id: str, now: float) -> ApiKey:
    """Return the row of a key, revoked at `now` or, if it was revoked before, unchanged.

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
    """Command: store a key, or its revocation."""

    row: ApiKey

    def __call__(self, uow: UnitOfWork) -> None:
        """Store the row. Nothing is checked, since ids are random."""
        uow.save_api_key(self.row)
