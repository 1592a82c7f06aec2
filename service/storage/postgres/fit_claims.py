"""Due fits across processes: claims by workers, and notifications of changes.

A claim is a session-level advisory lock of the worker's connection. It ends with the connection:
at once if the worker is killed, after the server's timeouts if its machine or network fails. No row
is locked while a fit runs.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.rows import TupleRow

from service.base.problems import ProblemCode, Unavailable
from service.session.records import SessionKey
from service.storage.postgres.connection import ANSWER_SECONDS, settings_of, translated
from service.storage.postgres.statements import SQL

CHANNEL = "lhb_fits"
CLAIMS = "claims"  # role of a worker's connection; the statement `queue` counts these
SILENCE_SECONDS = 30  # the server ends a worker's connection, and so its claims, after this silence
N_OVERDUE = 256
Connection = AsyncConnection[TupleRow]


class ClaimableFit(NamedTuple):
    """A due fit, by its due round, with what its session says of its size."""

    key: SessionKey
    due: int
    algorithm: str
    dim: int
    horizon: int
    options: dict[str, Any]


@asynccontextmanager
async def listening(
    url: str, role: str, channel: str = CHANNEL, **options: str
) -> AsyncIterator[Connection]:
    """Open a connection that is notified of every change of a due fit or wake-up time.

    Another `channel` is notified of something else. `role` is part of the connection's application
    name; `options` are its settings on the server. Raises `Unavailable`, also when the connection
    is lost.
    """
    settings = settings_of(url, role)
    extra = " ".join(f"-c {name}={value}" for name, value in options.items())
    settings["options"] = f"{settings.get('options', '')} {extra}".strip()
    with translated():
        connection = await psycopg.AsyncConnection.connect(
            **settings, cursor_factory=AsyncRawCursor, autocommit=True
        )
    async with connection:
        with translated():
            await connection.execute(f"listen {channel}")
            yield connection


async def changes(
    connection: Connection, seconds: float
) -> AsyncIterator[tuple[SessionKey, int | None]]:
    """Iterate over sessions whose due fit or wake-up time changes within `seconds`.

    Each comes with the due round of its fit, None if none is due.
    """
    with translated():
        async for heard in connection.notifies(timeout=seconds):
            tenant, session, due = json.loads(heard.payload)
            yield (tenant, session), due


class Claims:
    """The claims of one worker on due fits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_stalled = False

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[Self]:
        """Open a connection for claims; the claims end when the context does."""
        silence = f"{SILENCE_SECONDS}s"
        async with listening(url, f"worker {CLAIMS}", idle_session_timeout=silence) as connection:
            yield cls(connection)

    async def _all(self, name: str, *values: Any) -> list[Any]:
        try:
            with translated():
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await (await self._connection.execute(SQL[name], values)).fetchall()
        except TimeoutError:
            detail = "the database does not answer"
            raise Unavailable(ProblemCode.STORAGE_UNREACHABLE, detail) from None

    async def show(self, is_stalled: bool) -> None:
        """Let readiness count this worker, or not while its processes do not begin fits."""
        if is_stalled != self._is_stalled:
            await self._all("name_connection", f"lhb worker {'stalled' if is_stalled else CLAIMS}")
            self._is_stalled = is_stalled

    async def due(self) -> list[ClaimableFit]:
        """Return due fits, claimed or not: at most 1024, the oldest of every tenant first."""
        rows = [(*row, json.loads(spec)) for *row, spec in await self._all("due_fits")]
        return [
            ClaimableFit((tenant, id), due, spec["algorithm"], dim, horizon, spec["options"])
            for tenant, id, due, dim, horizon, spec in rows
        ]

    async def claim(self, key: SessionKey) -> bool:
        """Claim a session's fit, which this worker must not hold; False if another worker does."""
        [(is_claimed,)] = await self._all("claim_fit", *key)
        return bool(is_claimed)

    async def release(self, key: SessionKey) -> None:
        """Release the claim on a session."""
        await self._all("release_fit", *key)

    async def overdue(self, now: float) -> tuple[list[tuple[SessionKey, float]], float | None]:
        """Return sessions whose wake-up time has come, with that time, and the next wake-up time.

        At most N_OVERDUE sessions are returned; the next time is None if there is none.
        """
        rows = await self._all("overdue", now, N_OVERDUE)
        [(following,)] = await self._all("next_wake", now)
        return [((tenant, id), at) for tenant, id, at in rows], following

    async def wait(self, seconds: float) -> None:
        """Wait for a notification, at most `seconds`."""
        with translated():
            async for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                pass
