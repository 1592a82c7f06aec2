"""Whose fit is next: tenants get equal time, so do a tenant's sessions, and short fits come first.

Each tenant has a count of the seconds that its fits have had. The next fit is the one whose tenant
would have had least after it; within a tenant it is the one whose session would. So a short fit
comes before a long one, and a long one waits for as many short ones as are worth it, not for ever.
Who was away does not save up time: on return, its count is at least the least of those present.
"""

from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

from service.session.records import SessionKey

K = TypeVar("K")


class Shares(Generic[K]):
    """Seconds that each of several parties has had."""

    def __init__(self) -> None:
        self._had: dict[K, float] = {}
        self._least = 0.0

    def present(self, parties: Collection[K]) -> None:
        """Take note of those who have a fit that runs or waits; forget those who lag behind."""
        known = [self._had[party] for party in parties if party in self._had]
        self._least = max(self._least, min(known, default=0.0))
        had = {party: self._had.get(party, self._least) for party in parties}
        if parties:
            ahead = {party: n for party, n in self._had.items() if n > self._least}
            had = {**ahead, **had}
        self._had = had

    def after(self, party: K, seconds: float) -> float:
        """Return what a party will have had after `seconds` more."""
        return self._had[party] + seconds

    def charge(self, party: K, seconds: float) -> None:
        """Add to what a party has had, if it is known."""
        if party in self._had:
            self._had[party] += seconds


class Turns:
    """The order of fits over tenants and sessions."""

    def __init__(self) -> None:
        self._tenants: Shares[str] = Shares()
        self._sessions: dict[str, Shares[SessionKey]] = {}

    def next(
        self, waiting: Mapping[SessionKey, float], running: Collection[SessionKey]
    ) -> SessionKey | None:
        """Return the session whose fit is next, or None if none waits.

        `waiting` are sessions with the CPU seconds that each fit is expected to take.
        """
        by_tenant: dict[str, list[SessionKey]] = {}
        for key in [*waiting, *running]:
            by_tenant.setdefault(key[0], []).append(key)
        self._tenants.present(by_tenant.keys())
        self._sessions = {t: self._sessions.get(t, Shares()) for t in by_tenant}
        best: list[tuple[float, SessionKey]] = []
        for tenant, keys in by_tenant.items():
            sessions = self._sessions[tenant]
            sessions.present(keys)
            theirs = [key for key in keys if key in waiting]
            if theirs:
                key = min(theirs, key=lambda key: sessions.after(key, waiting[key]))
                best.append((self._tenants.after(tenant, waiting[key]), key))
        return min(best, default=(0.0, None), key=lambda item: item[0])[1]

    def charge(self, key: SessionKey, seconds: float) -> None:
        """Count seconds that a session's fit has had, or (negative) has not had after all."""
        self._tenants.charge(key[0], seconds)
        if key[0] in self._sessions:
            self._sessions[key[0]].charge(key, seconds)
