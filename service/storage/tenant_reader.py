"""Reads about tenants: their keys, the audit log, and what they have stored."""

from abc import ABC, abstractmethod
from typing import Any

from service.session.records import ApiKey, AuditRow


class TenantReader(ABC):
    """The part of a `Reader` that knows tenants; an adapter runs the statements."""

    @abstractmethod
    def _all(self, name: str, *values: Any) -> list[Any]:
        """Return all rows of a named statement."""

    def n_bytes(self) -> int:
        """Return the size of the database."""
        return int(self._all("n_bytes")[0][0])

    def count_sessions(self, tenant: str, most: int) -> int:
        """Count a tenant's sessions, up to `most`."""
        return int(self._all("n_sessions", tenant, most)[0][0])

    def stored_by_tenant(self) -> list[tuple[str, float]]:
        """Return of each tenant about how many bytes its sessions' rows and kept sums take."""
        return self._all("stored_by_tenant")

    def due_by_tenant(self) -> list[tuple[str, int, int, float]]:
        """Return of each tenant with due fits their number, the most rounds since one, and when.

        The last is since when the oldest is due, in Unix seconds.
        """
        return self._all("due_by_tenant")

    def guards_tripped(self) -> list[tuple[str, int]]:
        """Return of each tenant with trials how many of its sessions' guards have tripped."""
        return [(tenant, int(n)) for tenant, n in self._all("guards_tripped")]

    def api_keys(self) -> list[ApiKey]:
        """Return the API keys of all tenants, revoked ones too."""
        return [ApiKey(*row) for row in self._all("api_keys")]

    def audit(self, tenant: str | None, after: str, limit: int) -> list[AuditRow]:
        """Return a page of the audit log, in order of time.

        Parameters
        ----------
        tenant : str or None
            None: of all tenants.
        after : str
            Only entries with greater ids.
        limit : int
            Number of entries at most.
        """
        rows = self._all("audit", tenant is None, tenant or "", after, limit)
        return [AuditRow(*row) for row in rows]
