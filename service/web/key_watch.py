"""Keeps the keyring as the database has it, and stores when keys were last used."""

import contextlib

from starlette.types import Scope

from service.api.runtime import Service
from service.base.problems import Problem
from service.base.recurring import Recurring
from service.commands.keys import NoteUse
from service.storage.database_url import is_sqlite
from service.web.api_keys import Keyring

MOST_NOTED = 1000  # keys in one such write; the others wait for the next


class KeyWatch:
    """The tasks of one server process.

    Parameters
    ----------
    keys : Keyring
        The keyring of this server's middleware.
    service : Service
        Its store and its writer.
    """

    def __init__(self, keys: Keyring, service: Service) -> None:
        self._keys = keys
        self._service = service
        self._reloads = Recurring("reload_keys", lambda: service.intervals.keys)
        self._notes = Recurring("note_use_of_keys", lambda: service.intervals.use_of_keys)

    @property
    def is_closed(self) -> bool:
        """Whether requests need a key."""
        return self._keys.is_closed

    def still_allows(self, scope: Scope) -> bool:
        """Return whether the key of a request that is under way is valid now."""
        try:
            return bool(self._keys.access_of(scope) == scope["lhb.access"])
        except Problem:
            return False

    async def start(self) -> None:
        """Load the keys, and begin to watch."""
        await self.reload()
        if not is_sqlite(self._service.settings.database_url):  # there nobody else writes
            self._reloads.start(self.reload)
        self._notes.start(self._note_use)

    async def close(self) -> None:
        """Stop, and store what is not stored yet of the keys' last use."""
        await self._reloads.close()
        await self._notes.close()
        with contextlib.suppress(Problem):
            await self._note_use()

    async def reload(self) -> None:
        """Read the keys. A server that has changed one does so before it answers."""

        def read() -> None:
            with self._service.store.reader() as reader:
                self._keys.load(reader.api_keys())

        await self._service.read(read)

    async def _note_use(self) -> None:
        """Store when keys were last used. What cannot be stored is stored with the next use."""
        used = [self._keys.used.popitem()[1] for _ in range(min(MOST_NOTED, len(self._keys.used)))]
        if used:
            note = NoteUse(tuple(sorted((one.tenant, str(one.key_id)) for one in used)))
            await self._service.writer.submit(note)
