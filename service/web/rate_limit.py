"""How many requests a caller may make: by key, or by address while there are no keys."""

import time
from collections import OrderedDict
from collections.abc import Callable
from math import ceil

from starlette.types import Scope

from service.problems import Problem, ProblemCode
from service.web.api_keys import presented

N_CALLERS = 65_536  # remembered; who is forgotten starts afresh
LIMITED = "/v1/"


class Rates:
    """`per_second` requests on average, `burst` at once (the generic cell rate algorithm).

    Of each caller one time is kept: when all that was asked would have been asked at the allowed
    rate. Every server process counts for itself.

    Parameters
    ----------
    per_second : float
        Above 0.
    burst : int
        From 1.
    """

    def __init__(
        self, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = 1 / per_second
        self._ahead = burst / per_second
        self._clock = clock
        self._times: OrderedDict[str | bytes, float] = OrderedDict()

    def count(self, scope: Scope, *, is_keyed: bool) -> None:
        """One more request; with `is_keyed` it has a key, which has been checked.

        Raises
        ------
        Problem
            429 too_many_requests, which is not counted.
        """
        if scope["path"].startswith(LIMITED):
            self.count_caller(_caller(scope, is_keyed))

    def count_caller(self, caller: str | bytes) -> None:
        """One more request of this caller; raises as `count` does."""
        now = self._clock()
        at = max(self._times.get(caller, 0.0), now) + self._interval
        wait = at - now - self._ahead
        if wait > 1e-9:
            detail = f"at most {1 / self._interval:g} requests a second"
            raise Problem(ProblemCode.TOO_MANY_REQUESTS, detail, retry_after=ceil(wait))
        self._times[caller] = at
        self._times.move_to_end(caller)
        if len(self._times) > N_CALLERS:
            self._times.popitem(last=False)


def _caller(scope: Scope, is_keyed: bool) -> str | bytes:
    if is_keyed:
        return presented(scope)[1]  # not the whole header: one key may be written in many ways
    client = scope.get("client")
    return "" if client is None else str(client[0])
