"""Rate limit of each caller's requests: by key, or by address while there are no keys."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address
from math import ceil

from starlette.types import Scope

from service.base.problems import Problem, ProblemCode
from service.session.records import LimitRow
from service.web.connection import is_for_data

N_CALLERS = 65_536  # remembered; the least recent one is dropped and then starts with a full burst


class RateLimit:
    """The generic cell rate algorithm (GCRA): `per_second` on average, `burst` after a pause.

    A key may have a rate of its own, and a tenant one for all of its keys (`set_own`); a rate of 0
    is none. `is_on`: there is some rate.

    One time per caller is kept, its theoretical arrival time: the time at which the next request
    would come if all had come evenly at the allowed rate. A process counts its own requests;
    `SharedRates` adds those that other servers on the same database have let through. `to_tell`
    counts each caller's requests until `SharedRates` has told other servers; None without it.
    """

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._default, self._burst, self._clock = per_second, burst, clock
        self._own: dict[str, float] = {}
        self.is_on = per_second > 0
        self._times: OrderedDict[str, float] = OrderedDict()
        self.to_tell: dict[str, int] | None = None

    def set_own(self, rows: Iterable[LimitRow]) -> None:
        """Take the rates of keys and of tenants in the place of those before."""
        self._own = {
            row.key_id or of_tenant(row.tenant): row.requests_per_second
            for row in rows
            if row.requests_per_second is not None
        }
        self.is_on = self._default > 0 or any(self._own.values())

    def count(self, scope: Scope, *, is_keyed: bool) -> None:
        """Count a request for data, or one that sends something; raise a 429 too_many_requests.

        The caller is the request's checked key if it `is_keyed`, and its tenant if that has a rate;
        else its address. What is refused is not counted.
        """
        if not is_for_data(scope["path"]) and scope["method"] in ("GET", "HEAD"):
            return
        access = scope["lhb.access"]
        self.count_caller(access.key_id if is_keyed else _address(scope))
        tenant = of_tenant(access.tenant)
        if is_keyed and tenant in self._own:
            self.count_caller(tenant)

    def count_stranger(self, scope: Scope) -> None:
        """Count a request without a valid key, by its address; raises what `count` raises."""
        self.count_caller(_address(scope))

    def count_elsewhere(self, caller: str, n: int) -> None:
        """Count requests that another process has let through."""
        rate = self._own.get(caller, self._default)
        if rate:
            self._set(caller, max(self._times.get(caller, 0.0), self._clock()) + n / rate)

    def count_caller(self, caller: str) -> None:
        """Count a request of this caller; raises what `count` raises."""
        rate = self._own.get(caller, self._default)
        if not rate:
            return
        now = self._clock()
        at = self._times.get(caller, 0.0)
        at = (at if at > now else now) + 1 / rate
        wait = at - now - self._burst / rate
        if wait > 1e-9:
            detail = f"at most {rate:g} requests a second"
            raise Problem(ProblemCode.TOO_MANY_REQUESTS, detail, retry_after=ceil(wait))
        self._set(caller, at)
        if self.to_tell is not None and (caller in self.to_tell or len(self.to_tell) < N_CALLERS):
            self.to_tell[caller] = self.to_tell.get(caller, 0) + 1

    def _set(self, caller: str, at: float) -> None:
        self._times[caller] = at
        self._times.move_to_end(caller)
        if len(self._times) > N_CALLERS:
            self._times.popitem(last=False)


def of_tenant(tenant: str) -> str:
    """Return the caller that all keys of a tenant together are; no id and no address is like it."""
    return f"tenant {tenant}"


def _address(scope: Scope) -> str:
    """Return the address of a request, of IPv6 the network: one client has 2^64 addresses there."""
    address = str((scope.get("client") or ("",))[0])
    if ":" not in address:
        return address
    parsed = IPv6Address(address)
    return address if parsed.ipv4_mapped else str(IPv6Address(int(parsed) >> 64 << 64))
