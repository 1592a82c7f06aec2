"""Tenants that have stored as much as they may: they are refused writes until they delete some."""

import time

from service.api.runtime import Service
from service.base.problems import Problem, ProblemCode
from service.base.recurring import Recurring
from service.storage.reader import Reader

MOST_SHARE = 0.05  # of the time is spent looking: a million sessions take a second


class FullTenants(Recurring):
    """Sets the service's `full_tenants` from time to time, by the counters of sessions."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seconds = 0.0  # of the last look
        least = service.intervals.full_tenants
        super().__init__("full_tenants", lambda: max(least, self._seconds / MOST_SHARE), self.look)

    async def look(self) -> None:
        """Look; if that fails, what was seen last still holds."""
        began = time.monotonic()
        of_all = self._service.settings.max_tenant_mb

        def read(reader: Reader) -> dict[str, int]:
            own = {
                row.tenant: row.max_tenant_mb
                for row in reader.limits()
                if not row.key_id and row.max_tenant_mb is not None
            }
            if not of_all and not any(own.values()):
                return {}
            most = ((t, n, own.get(t, of_all)) for t, n in reader.stored_by_tenant())
            return {tenant: mb for tenant, n, mb in most if mb and n >= mb * 10**6}

        try:
            self._service.full_tenants = await self._service.look(read)
        finally:
            self._seconds = time.monotonic() - began


def refuse_full(service: Service, tenant: str) -> None:
    """Raise a 409 limit_reached if the tenant has stored as much as it may."""
    most = service.full_tenants.get(tenant)
    if most is not None:
        detail = f"this tenant has stored about {most} MB, which is the limit; delete sessions"
        raise Problem(ProblemCode.LIMIT_REACHED, detail)
