"""Rate limit of each caller's requests: by key, or by address while there are no keys."""

import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address
from math import ceil

from starlette.types import Scope

from service.base.problems import Problem, ProblemCode
from service.web.connection import is_for_data

N_CALLERS = 65_536  # remembered; the least recent one is dropped and then starts with a full burst


class RateLimit:
    """The generic cell rate algorithm (GCRA): `per_second` on average, `burst` after a pause.

    One time per caller is kept, its theoretical arrival time: the time at which the next request
    would come if all had come evenly at the allowed rate. A process counts its own requests;
    `SharedRates` adds those that other servers on the same database have let through. `to_tell`
    counts each caller's requests until `SharedRates` has told other servers; None without it.
    """

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = 1 / per_second
        self._ahead = burst / per_second
        self._clock = clock
        self._times: OrderedDict[str, float] = OrderedDict()
        self.to_tell: dict[str, int] | None = None

    def count(self, scope: Scope, *, is_keyed: bool) -> None:
        """Count a request for data, or one that sends something; raise a 429 too_many_requests.

        The caller is the request's checked key if it `is_keyed`, else its address. What is refused
        is not counted.
        """
        if is_for_data(scope["path"]) or scope["method"] not in ("GET", "HEAD"):
            self.count_caller(scope["lhb.access"].key_id if is_keyed else _address(scope))

    def count_stranger(self, scope: Scope) -> None:
        """Count a request without a valid key, by its address; raises what `count` raises."""
        self.count_caller(_address(scope))

    def count_elsewhere(self, caller: str, n: int) -> None:
        """Count requests that another process has let through."""
        self._set(caller, max(self._times.get(caller, 0.0), self._clock()) + n * self._interval)

    def count_caller(self, caller: str) -> None:
        """Count a request of this caller; raises what `count` raises."""
        now = self._clock()
        at = self._times.get(caller, 0.0)
        at = (at if at > now else now) + self._interval
        wait = at - now - self._ahead
        if wait > 1e-9:
            detail = f"at most {1 / self._interval:g} requests a second"
            raise Problem(ProblemCode.TOO_MANY_REQUESTS, detail, retry_after=ceil(wait))
        self._set(caller, at)
        if self.to_tell is not None and (caller in self.to_tell or len(self.to_tell) < N_CALLERS):
            self.to_tell[caller] = self.to_tell.get(caller, 0) + 1

    def _set(self, caller: str, at: float) -> None:
        self._times[caller] = at
        self._times.move_to_end(caller)
        if len(self._times) > N_CALLERS:
            self._times.popitem(last=False)


def _address(scope: Scope) -> str:
    """Return the address of a request, of IPv6 the network: one client has 2^64 addresses there."""
    address = str((scope.get("client") or ("",))[0])
    if ":" not in address:
        return address
    parsed = IPv6Address(address)
    return address if parsed.ipv4_mapped else str(IPv6Address(int(parsed) >> 64 << 64))
