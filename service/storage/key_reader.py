"""Reads of API keys and of the audit log, the same for every SQL database."""

from abc import ABC, abstractmethod
from typing import Any

from service.records import ApiKey, AuditRow


class KeyReader(ABC):
    """The part of a `Reader` that knows keys; an adapter runs the statements."""

    @abstractmethod
    def _all(self, name: str, *values: Any) -> list[Any]:
        """Return all rows of a named statement."""

    def n_bytes(self) -> int:
        """Return the size of the database."""
        return int(self._all("n_bytes")[0][0])

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
