"""Shares of what a server has few of: no tenant takes all of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from service.base.problems import Problem, ProblemCode


class Places:
    """`n` places; a tenant may take one more while as many stay free as it then has, less one.

    So of eight places one tenant gets four, the next two, and two more one each. A refusal has this
    `code` and `detail`.
    """

    def __init__(self, n: int, code: ProblemCode, detail: str = "") -> None:
        self._n, self._code, self._detail = n, code, detail
        self._taken: Counter[str] = Counter()

    @property
    def n_taken(self) -> int:
        """Number of places that are held."""
        return self._taken.total()

    @contextmanager
    def take(self, tenant: str) -> Iterator[None]:
        """Hold a place; a Problem says that the tenant has its share, or that none is free."""
        if self._taken[tenant] + 1 > self._n - self.n_taken:
            raise Problem(self._code, self._detail, retry_after=5)
        self._taken[tenant] += 1
        try:
            yield
        finally:
            self._taken[tenant] -= 1
            self._taken += Counter()  # forgets tenants without a place


class TenantLimit:
    """Work of which each tenant may do `n` at a time; the rest of it waits."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._queues: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def hold(self, tenant: str) -> AsyncIterator[None]:
        """Wait until fewer than `n` of the tenant run, then count as one."""
        queue, n = self._queues.get(tenant) or (asyncio.Semaphore(self._n), 0)
        self._queues[tenant] = queue, n + 1
        try:
            async with queue:
                yield
        finally:
            queue, n = self._queues.pop(tenant)
            if n > 1:
                self._queues[tenant] = queue, n - 1
