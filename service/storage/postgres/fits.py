"""Due fits across processes: who claims which, and the wake-ups that PostgreSQL sends.

A claim is an advisory lock of the worker's connection, so it ends with the connection: at once if
the worker is killed, by the server's timeouts if its machine or network is gone. No row is held
locked while a fit runs, and no clock but the server's is asked.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.rows import TupleRow

from service.records import SessionKey
from service.storage.postgres.reader import translated
from service.storage.postgres.statements import SQL
from service.storage.postgres.store import settings_of

CHANNEL = "lhb_fits"
CLAIMS = "claims"  # role of a worker's connection: counting these counts workers
SILENCE_SECONDS = 30  # after which the server takes a worker for frozen and frees its claims
N_OVERDUE = 256
Connection = AsyncConnection[TupleRow]


class FitChange:
    """A session's due mark, or its wake-up time, has changed; `due` is the mark now."""

    def __init__(self, payload: str) -> None:
        tenant, session, self.due = json.loads(payload)
        self.key: SessionKey = (tenant, session)


@asynccontextmanager
async def listening(url: str, role: str, **options: str) -> AsyncIterator[Connection]:
    """A connection that hears of every change of a due mark."""
    settings = settings_of(url, role)
    extra = " ".join(f"-c {name}={value}" for name, value in options.items())
    settings["options"] = f"{settings.get('options', '')} {extra}".strip()
    with translated():
        connection = await psycopg.AsyncConnection.connect(
            **settings, cursor_factory=AsyncRawCursor, autocommit=True
        )
    async with connection:
        with translated():
            await connection.execute(f"listen {CHANNEL}")
            yield connection


async def changes(connection: Connection, seconds: float) -> AsyncIterator[FitChange]:
    """What is heard until so much time has passed."""
    with translated():
        async for heard in connection.notifies(timeout=seconds):
            yield FitChange(heard.payload)


class Claims:
    """A worker's view: what is due and free, what it holds, what time has brought."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[Self]:
        """Claims live as long as this."""
        silence = f"{SILENCE_SECONDS}s"
        async with listening(url, f"worker {CLAIMS}", idle_session_timeout=silence) as connection:
            yield cls(connection)

    async def _all(self, name: str, *values: Any) -> list[Any]:
        with translated():
            return await (await self._connection.execute(SQL[name], values)).fetchall()

    async def claim(self, held: Sequence[SessionKey], n: int) -> list[tuple[SessionKey, int]]:
        """Take up to `n` due fits that nobody holds, oldest first; with their due rounds."""
        tenants, ids = [key[0] for key in held], [key[1] for key in held]
        rows = await self._all("claim_fits", tenants, ids, n)
        return [((tenant, id), due) for tenant, id, due in rows]

    async def release(self, key: SessionKey) -> None:
        """Give a session up."""
        await self._all("release_fit", *key)

    async def overdue(self, now: float) -> tuple[list[tuple[SessionKey, float]], float | None]:
        """Sessions whose time has come, with that time, and when the next one's will."""
        rows = await self._all("overdue", now, N_OVERDUE)
        [(following,)] = await self._all("next_wake", now)
        return [((tenant, id), at) for tenant, id, at in rows], following

    async def wait(self, seconds: float) -> None:
        """Until something changes, or so much time has passed."""
        with translated():
            async for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                pass
