"""Tenants that have stored as much as they may: they are refused writes until they delete some."""

import time

from service.api.runtime import Service
from service.base.problems import Problem, ProblemCode
from service.base.recurring import Recurring

MOST_SHARE = 0.05  # of the time is spent looking: a million sessions take a second


class FullTenants:
    """Looks from time to time how much each tenant has stored, by the counters of its sessions.

    The service's `full_tenants` is replaced at every look.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seconds = 0.0  # of the last look
        self._looks = Recurring(
            "full_tenants",
            lambda: max(service.intervals.full_tenants, self._seconds / MOST_SHARE),
        )

    async def start(self) -> None:
        """Look, and go on looking, if there is a limit."""
        if self._service.settings.max_tenant_mb:
            await self._look()
            self._looks.start(self._look)

    async def close(self) -> None:
        """Stop."""
        await self._looks.close()

    async def _look(self) -> None:
        """Look; if that fails, what was seen last still holds."""
        began = time.monotonic()
        most = self._service.settings.max_tenant_mb * 10**6

        def read() -> set[str]:
            with self._service.store.reader() as reader:
                return {tenant for tenant, n_bytes in reader.stored_by_tenant() if n_bytes >= most}

        try:
            self._service.full_tenants = await self._service.read(read)
        finally:
            self._seconds = time.monotonic() - began


def refuse_full(service: Service, tenant: str) -> None:
    """Raise a 409 limit_reached if the tenant has stored as much as it may."""
    if tenant in service.full_tenants:
        most = service.settings.max_tenant_mb
        detail = f"this tenant has stored about {most} MB, which is the limit; delete sessions"
        raise Problem(ProblemCode.LIMIT_REACHED, detail)
