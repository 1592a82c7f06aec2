"""Connections to one service: retries, and the two ways to run an operation's steps."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

import httpx

from .delivery import Delivery
from .errors import NotFound
from .reward_buffer import RewardBuffer
from .steps import Listing, Pause, Request, Steps, Work
from .wire import RETRY_STATUS, answer_of, authorization, backoff

T = TypeVar("T")


class Connection:
    """What both connections share. `ClientOperations` has the parameters."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        timeout: float,
        n_retries: int,
        buffer: RewardBuffer | None,
    ) -> None:
        self._options: dict[str, Any] = {
            "base_url": url,
            "headers": authorization(api_key),
            "timeout": timeout,
        }
        self._n_retries = n_retries
        self.delivery = Delivery(self.call, buffer)

    def call(
        self, method: str, path: str, *, n_retries: int | None = None, **options: Any
    ) -> Steps[Any]:
        """Make one call, with retries after lost connections and refusals that pass.

        Returns
        -------
        object
            The parsed JSON answer; None where it is empty.

        Raises
        ------
        ApiError
            The service refused the request.
        httpx.TransportError
            The service was not reached by any attempt.
        """
        left = self._n_retries if n_retries is None else n_retries
        request = Request(method, path, options)
        for attempt in range(left + 1):
            last = attempt == left
            try:
                response: httpx.Response = yield request
            except httpx.TransportError:
                if last:
                    raise
                yield Pause(backoff(attempt, None))
                continue
            if response.status_code in RETRY_STATUS and not last:
                yield Pause(backoff(attempt, response.headers.get("Retry-After")))
                continue
            try:
                return answer_of(response)
            except NotFound:
                if method == "DELETE" and attempt > 0:
                    return None  # an attempt whose answer was lost has done it
                raise
        raise AssertionError("unreachable")

    def last_steps(self) -> Steps[None]:
        """Send what is kept once more, and close its file."""
        buffer = self.delivery.buffer
        if buffer is not None:
            try:
                yield from self.delivery.send_once()
            finally:
                buffer.close()

    def page(self, listing: Listing[T], cursor: str | None) -> Steps[tuple[list[T], str | None]]:
        """Read one page: its items, and the cursor of the next."""
        params = listing.params if cursor is None else {**listing.params, "cursor": cursor}
        page = yield from self.call("GET", listing.path, params=params)
        return [listing.item(one) for one in page["items"]], page.get("next")


class SyncConnection(Connection):
    """Connections whose calls return when they are answered."""

    def __init__(self, *settings: Any) -> None:
        *shared, transport = settings
        super().__init__(*shared)
        self.http = httpx.Client(**self._options, transport=transport)

    def run(self, steps: Steps[T]) -> T:
        """Run an operation."""
        result: Any = None
        try:
            asked = next(steps)
            while True:
                try:
                    result = self._do(asked)
                except Exception as error:
                    asked = steps.throw(error)
                else:
                    asked = steps.send(result)
        except StopIteration as done:
            answer: T = done.value
            return answer

    def _do(self, asked: Request | Pause | Work) -> Any:
        if isinstance(asked, Request):
            return self.http.request(asked.method, asked.path, **asked.options)
        if isinstance(asked, Pause):
            return time.sleep(asked.seconds)
        return asked.call()

    def close(self) -> None:
        """Close them."""
        try:
            self.run(self.last_steps())
        finally:
            self.http.close()

    def iterate(self, listing: Listing[T]) -> Iterator[T]:
        """Read a listing."""
        items, cursor = self.run(self.page(listing, None))
        yield from items
        while cursor is not None:
            items, cursor = self.run(self.page(listing, cursor))
            yield from items


class AsyncConnection(Connection):
    """Connections whose calls are awaited."""

    def __init__(self, *settings: Any) -> None:
        *shared, transport = settings
        super().__init__(*shared)
        self.http = httpx.AsyncClient(**self._options, transport=transport)

    async def run(self, steps: Steps[T]) -> T:
        """Run an operation."""
        result: Any = None
        try:
            asked = next(steps)
            while True:
                try:
                    result = await self._do(asked)
                except Exception as error:
                    asked = steps.throw(error)
                else:
                    asked = steps.send(result)
        except StopIteration as done:
            answer: T = done.value
            return answer

    async def _do(self, asked: Request | Pause | Work) -> Any:
        if isinstance(asked, Request):
            return await self.http.request(asked.method, asked.path, **asked.options)
        if isinstance(asked, Pause):
            return await asyncio.sleep(asked.seconds)
        return await asyncio.to_thread(asked.call)

    async def close(self) -> None:
        """Close them."""
        try:
            await self.run(self.last_steps())
        finally:
            await self.http.aclose()

    async def iterate(self, listing: Listing[T]) -> AsyncIterator[T]:
        """Read a listing."""
        items, cursor = await self.run(self.page(listing, None))
        for item in items:
            yield item
        while cursor is not None:
            items, cursor = await self.run(self.page(listing, cursor))
            for item in items:
                yield item
