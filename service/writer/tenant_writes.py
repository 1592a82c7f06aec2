"""Writes about tenants: their keys and the audit log."""

from service.session.records import ApiKey, AuditRow
from service.storage.ports import Changes


class TenantWrites:
    """The part of a `UnitOfWork` that knows tenants."""

    n_writes: int
    _changes: Changes

    def save_api_key(self, key: ApiKey) -> None:
        """Store a new API key, its revocation, or an earlier expiry."""
        self.n_writes += 1
        self._changes.api_keys.append(key)

    def use_api_key(self, tenant: str, key_id: str, at: float) -> None:
        """Store when an API key was last used."""
        self.n_writes += 1
        self._changes.used_keys.append((tenant, key_id, at))

    def add_audit(self, entry: AuditRow) -> None:
        """Store an entry of the audit log."""
        self.n_writes += 1
        self._changes.audit.append(entry)

    def forget_audit(self, last_id: str) -> None:
        """Delete the entries of the audit log up to this id, of all tenants."""
        self.n_writes += 1
        self._changes.audit_gone = last_id
