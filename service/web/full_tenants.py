"""Tenants that have stored as much as they may: they are refused writes until they delete some."""

import asyncio
import contextlib
import time

from service.problems import Problem, ProblemCode, Unavailable
from service.runtime import Service

LOOK_SECONDS = 30.0
MOST_SHARE = 0.05  # of the time is spent looking: a million sessions take a second


class FullTenants:
    """Looks from time to time how much each tenant has stored, by the counters of its sessions.

    Parameters
    ----------
    service : Service
        Its `full_tenants` is replaced at every look.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look, and go on looking, if there is a limit."""
        if self._service.settings.max_tenant_mb:
            await self._look()
            self._task = asyncio.create_task(self._go_on())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _go_on(self) -> None:
        seconds = 0.0
        while True:
            await asyncio.sleep(max(LOOK_SECONDS, seconds / MOST_SHARE))
            began = time.monotonic()
            with contextlib.suppress(Unavailable):  # what was seen last still holds
                await self._look()
            seconds = time.monotonic() - began

    async def _look(self) -> None:
        most = self._service.settings.max_tenant_mb * 10**6

        def read() -> set[str]:
            with self._service.store.reader() as reader:
                return {tenant for tenant, n_bytes in reader.stored_by_tenant() if n_bytes >= most}

        self._service.full_tenants = await self._service.read(read)


def refuse_full(service: Service, tenant: str) -> None:
    """Raise a 409 limit_reached if the tenant has stored as much as it may."""
    if tenant in service.full_tenants:
        most = service.settings.max_tenant_mb
        detail = f"this tenant has stored about {most} MB, which is the limit; delete sessions"
        raise Problem(ProblemCode.LIMIT_REACHED, detail)
