"""API keys as requests present them: 256 random bits, of which only the SHA-256 is known here.

A `KeyWatch` keeps them as the database has them, and stores when they were last used.
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from hashlib import sha256
from hmac import compare_digest
from math import inf

from starlette.types import Scope

from service.api.access import EVERYBODY, ROLES, STRANGER, Access
from service.api.runtime import Service
from service.base.problems import Problem, ProblemCode
from service.base.recurring import Recurring
from service.commands.keys import note_use
from service.dashboard.pages import ASSET_PATHS
from service.personalizer.errors import is_personalizer
from service.session.records import ApiKey, LimitRow
from service.storage.database_url import is_sqlite
from service.storage.reader import Reader

SUBSCRIPTION_KEY = b"ocp-apim-subscription-key"  # the header of Personalizer's callers
# served without a key: they show no data of a session
OPEN_PATHS = frozenset({"/", *ASSET_PATHS, "/healthz", "/readyz", "/openapi.json", "/docs"})
MOST_NOTED = 1000  # keys in one such write; the others wait for the next


class KeyWatch:
    """The keys of the database as last read, and the tasks that keep them so.

    While the database has never had a key, every request is served, for the tenant "". After that
    every request needs a key, also when all keys are revoked.

    `is_closed` says whether requests need a key. `clock` tells seconds since 1970; from `start` on,
    the service's clock does, by which keys are made. `on_limits` takes limits that have changed.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.is_closed = False
        self.used: dict[str | None, Access] = {}  # by id, since it was stored last
        self._clock = clock
        self.on_limits: Callable[[list[LimitRow]], None] = lambda rows: None
        self._limits: list[LimitRow] = []
        self._known: dict[bytes, Access] = {}
        self._ids: dict[bytes, str] = {}

    def load(self, keys: Iterable[ApiKey]) -> None:
        """Replace the known keys by these."""
        keys = list(keys)
        self.is_closed = self.is_closed or bool(keys)
        self._known = {key.digest: access(key) for key in keys if key.revoked_at is None}
        self._ids = {key.digest: key.id for key in keys}

    def access_of(self, scope: Scope) -> Access:
        """Return what a request may do; its key counts as used.

        Raises 401 unauthorized where the request needs a key and carries none that is valid.
        """
        if not self.is_closed:
            return EVERYBODY
        key_access = self._known.get(digest_of(scope))
        if key_access is None or key_access.expires_at <= self._clock():
            if scope["path"] in OPEN_PATHS:
                return STRANGER
            detail = 'a request needs the header "Authorization: Bearer KEY" with a valid key'
            raise Problem(ProblemCode.UNAUTHORIZED, detail, "authorization")
        self.used[key_access.key_id] = key_access
        return key_access

    def id_of(self, scope: Scope) -> str | None:
        """Return the id of a request's key, also of a revoked one; None if it is not known."""
        return self._ids.get(digest_of(scope))

    def still_allows(self, scope: Scope) -> bool:
        """Return whether the key of a request that is under way is valid now."""
        try:
            return bool(self.access_of(scope) == scope["lhb.access"])
        except Problem:
            return False

    async def start(self, service: Service) -> None:
        """Load the keys of a service's database, and begin to watch them."""
        self._service, self._clock = service, service.writer.clock
        seconds = service.intervals
        self._reloads = Recurring("reload_keys", lambda: seconds.keys, self.reload)
        self._notes = Recurring("note_use_of_keys", lambda: seconds.use_of_keys, self._note_use)
        await self.reload()
        if not is_sqlite(service.settings.database_url):  # there nobody else writes
            self._reloads.start()
        self._notes.start()

    async def close(self) -> None:
        """Stop, and store what is not stored yet of the keys' last use."""
        await self._reloads.close()
        await self._notes.close()
        with contextlib.suppress(Problem):
            await self._note_use()

    async def reload(self) -> None:
        """Read the keys, and limits. A server that has changed one does so before it answers."""

        def read(reader: Reader) -> list[LimitRow]:
            self.load(reader.api_keys())
            return reader.limits()

        limits = await self._service.look(read)
        if limits != self._limits:
            self._limits = limits
            self.on_limits(limits)

    async def _note_use(self) -> None:
        """Store when keys were last used. What cannot be stored is stored with the next use."""
        used = [self.used.popitem()[1] for _ in range(min(MOST_NOTED, len(self.used)))]
        if used:
            noted = note_use(sorted((one.tenant, str(one.key_id)) for one in used))
            await self._service.writer.submit(noted)


def access(key: ApiKey) -> Access:
    """Return what a key allows."""
    until = inf if key.expires_at is None else key.expires_at
    return Access(key.tenant, ROLES.index(key.role), key.id, until)


def digest_of(scope: Scope) -> bytes:
    """Return the SHA-256 of the key that a request presents, no bytes if it presents none.

    A connection keeps its last digest, and what was presented; what it allows is looked up anew.
    """
    header = _header(scope, b"authorization")
    if not header and is_personalizer(scope["path"]):  # its callers use a header of their own
        return sha256(_header(scope, SUBSCRIPTION_KEY).strip()).digest()
    connection = scope.get("lhb.connection")
    if connection is not None and compare_digest(header, connection.presented[0]):
        digest: bytes = connection.presented[1]
        return digest
    scheme, _, key = header.partition(b" ")
    digest = sha256(key.strip()).digest() if scheme.lower() == b"bearer" else b""
    if connection is not None:
        connection.presented = header, digest
    return digest


def _header(scope: Scope, wanted: bytes) -> bytes:
    for name, value in scope["headers"]:
        if name == wanted:
            return bytes(value)
    return b""
