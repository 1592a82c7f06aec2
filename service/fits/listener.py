"""Fits that workers run, on PostgreSQL: the server listens and wakes the decisions that wait."""

import asyncio

from service.base.recurring import Recurring
from service.session.records import FitQueue, SessionKey
from service.storage.postgres.connection import ANSWER_SECONDS
from service.storage.postgres.fit_claims import changes, listening
from service.storage.postgres.store import PostgresStore
from service.storage.transactions import Store
from service.writer.after_commit import Effects
from service.writer.group_commit import GroupCommit

POLL_SECONDS = 2.0  # between looks at the due mark: a notification may be lost with its connection
AGAIN_SECONDS = 1.0  # from a lost connection to the next


class FitSignals:
    """Listens for PostgreSQL's notifications: one per committed change of a due mark."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._waiters: dict[SessionKey, asyncio.Future[int | None]] = {}
        self._listening = Recurring("listen_for_fits", lambda: AGAIN_SECONDS, self._listen)

    def queue(self) -> FitQueue:
        """Return the number of due fits, since when the oldest is due, and connected workers."""
        with self._store.reader() as reader:
            return reader.fit_queue()

    def start(self, writer: GroupCommit, store: Store) -> None:
        """Start listening."""
        self._listening.start()
        self._listening.wake()

    def after_commit(self, effects: Effects) -> None:
        """Do nothing: PostgreSQL notifies this process of its own commits too."""

    async def wait(self, key: SessionKey, due: int, seconds: float) -> bool:
        """Wait until the fit due after round `due` is done; return False on timeout."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            # wait for notifications before reading the due mark, so that none is missed in between
            heard = self._waiters.get(key)
            if heard is None:
                heard = self._waiters[key] = loop.create_future()
            if await loop.run_in_executor(None, self._due, key) != due:
                return True
            remaining = deadline - loop.time()
            if remaining <= 0:
                return False
            done, _ = await asyncio.wait([heard], timeout=min(remaining, POLL_SECONDS))
            if done and heard.result() != due:
                return True

    async def close(self) -> None:
        """Stop listening."""
        await self._listening.close()

    def _due(self, key: SessionKey) -> int | None:
        with self._store.reader() as reader:
            session = reader.session(key)
        return None if session is None else session.fit_due

    async def _listen(self) -> None:
        """Wake who waits, for as long as the connection stands."""
        async with listening(self._store.url, "signals") as connection:
            while True:
                async for key, due in changes(connection, POLL_SECONDS):
                    waiter = self._waiters.pop(key, None)
                    if waiter is not None:
                        waiter.set_result(due)
                async with asyncio.timeout(ANSWER_SECONDS):
                    await connection.execute("select 1")
