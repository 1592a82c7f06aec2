"""Which fits run: one a process, whose turn it is, and short fits alone in a spare process.

A fit cannot be put aside once it runs. Where long fits hold every process, a short one still gets
the spare one, which is started when it is first needed.

Tenants get equal time, and so do a tenant's sessions: the next fit is the one whose tenant, and in
it whose session, would have had least seconds of fits after it. So a long one waits for as many
short ones as are worth it. Who was away does not save up time: on return, its count is at least the
least of those present.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from service.fits.cost import SHORT_SECONDS
from service.session.records import SessionKey

K = TypeVar("K")


class Shares(Generic[K]):
    """Seconds that each of several parties has had."""

    def __init__(self) -> None:
        self._had: dict[K, float] = {}
        self._least = 0.0

    def present(self, parties: Collection[K]) -> None:
        """Take note of those who have a fit that runs or waits; forget those who lag behind."""
        shares = [self._had[party] for party in parties if party in self._had]
        self._least = max(self._least, min(shares, default=0.0))
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
            if theirs := [key for key in keys if key in waiting]:
                key = min(theirs, key=lambda key: sessions.after(key, waiting[key]))
                best.append((self._tenants.after(tenant, waiting[key]), key))
        return min(best, default=(0.0, None), key=lambda item: item[0])[1]

    def charge(self, key: SessionKey, seconds: float) -> None:
        """Count seconds that a session's fit has had, or (negative) has not had after all."""
        self._tenants.charge(key[0], seconds)
        if key[0] in self._sessions:
            self._sessions[key[0]].charge(key, seconds)


@dataclass(frozen=True, eq=False)
class Place:
    """The place of one running fit, which is expected to take `seconds` of CPU time."""

    key: SessionKey
    seconds: float
    is_spare: bool


class Places:
    """The running fits, and which one is next; `n_processes` without the spare one."""

    def __init__(self, n_processes: int) -> None:
        self._n_processes = n_processes
        self._taken: list[Place] = []
        self._turns = Turns()
        self.has_spare = True

    @property
    def room(self) -> float:
        """The most seconds that a fit may be expected to take to begin now; -1 if none may."""
        n_used = sum(not place.is_spare for place in self._taken)
        if n_used < self._n_processes:
            return inf
        has_long = any(place.seconds > SHORT_SECONDS for place in self._taken)
        is_free = self.has_spare and len(self._taken) == n_used
        return SHORT_SECONDS if has_long and is_free else -1.0

    def take(self, waiting: Mapping[SessionKey, float]) -> Place | None:
        """Take a place for the fit whose turn it is; None if none waits or there is no process."""
        room = self.room
        if room < inf:
            waiting = {key: seconds for key, seconds in waiting.items() if seconds <= room}
        key = self._turns.next(waiting, [place.key for place in self._taken])
        if key is None:
            return None
        place = Place(key, waiting[key], is_spare=room < inf)
        self._taken.append(place)
        self._turns.charge(key, place.seconds)
        return place

    def release(self, place: Place, seconds: float) -> None:
        """Give a place back whose fit took so many seconds: 0 if it was not begun."""
        self._taken.remove(place)
        self._turns.charge(place.key, seconds - place.seconds)
