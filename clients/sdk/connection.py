"""Connections to one service: retries, and operations that are written once for both of them.

An operation is a coroutine of a connection's calls. A connection is blocking when it belongs to a
`Client` or a `Session`: then nothing in the coroutine waits, and its first step is all of it. It is
awaited for their asynchronous namesakes. Type checkers see which of the two an `operation` is.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, overload

import httpx

from .delivery import Delivery, RewardBuffer
from .errors import NotFound, Unavailable
from .wire import RETRY_STATUS, answer_of, backoff, dumps

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
T = TypeVar("T")
C = TypeVar("C", bound="Connection")
Call = Coroutine[Any, Any, T]


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The items of a listing, read page by page."""

    path: str
    params: dict[str, Any]  # of the query
    item: Callable[[Any], T]  # makes an item of its JSON


class Connection:
    """What both connections share; `how` are options of httpx's client."""

    _kind: ClassVar[type[Any]]  # of httpx's clients
    http: Any

    def __init__(self, how: dict[str, Any], n_retries: int, buffer: RewardBuffer | None) -> None:
        self.url, self._n_retries = how["base_url"], n_retries
        self.http = self._kind(**how)
        self.delivery = Delivery(self.call, self._work, buffer)

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one HTTP request once; `options` are those of httpx: content, params."""
        raise NotImplementedError

    async def _pause(self, seconds: float) -> None:
        """Do nothing for some seconds."""
        raise NotImplementedError

    async def _work(self, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call that may block, such as one that writes a file."""
        raise NotImplementedError

    async def _close(self) -> None:
        """Close the connections."""
        raise NotImplementedError

    async def call(
        self, method: str, path: str, *, n_retries: int | None = None, **options: Any
    ) -> Any:
        """Make one call, with retries after lost connections and refusals that pass.

        Returns the parsed JSON answer, None where it is empty; raises what `Client.request` does.
        """
        if "json" in options:
            body = dumps(options.pop("json"))
            options |= {"content": body, "headers": {"Content-Type": "application/json"}}
        left = self._n_retries if n_retries is None else n_retries
        for attempt in range(left + 1):
            last = attempt == left
            try:
                response = await self._send(method, path, **options)
            except httpx.TransportError as error:
                if last:
                    reason = f"there is no server to talk to at {self.url}: {error}"
                    problem = {"code": "unreachable", "detail": reason}
                    raise Unavailable(0, problem) from error
                await self._pause(backoff(attempt, None))
                continue
            if response.status_code in RETRY_STATUS and not last:
                await self._pause(backoff(attempt, response.headers.get("Retry-After")))
                continue
            try:
                return answer_of(response)
            except NotFound:
                if method == "DELETE" and attempt > 0:
                    return None  # an attempt whose answer was lost has done it
                raise
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Send what is kept once more, and close its file and the connections."""
        buffer = self.delivery.buffer
        try:
            if buffer is not None:
                await self.delivery.send_once()
        finally:
            if buffer is not None:
                buffer.close()
            await self._close()

    async def page(self, listing: Listing[T], cursor: str | None) -> tuple[list[T], str | None]:
        """Read one page: its items, and the cursor of the next."""
        params = listing.params if cursor is None else {**listing.params, "cursor": cursor}
        page = await self.call("GET", listing.path, params=params)
        return [listing.item(one) for one in page["items"]], page.get("next")


class SyncConnection(Connection):
    """Connections whose calls return when they are answered."""

    _kind = httpx.Client
    http: httpx.Client

    def run(self, call: Call[T]) -> T:
        """Run an operation."""
        try:
            call.send(None)
        except StopIteration as done:
            answer: T = done.value
            return answer
        raise AssertionError("unreachable")

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.http.request(method, path, **options)

    async def _pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _work(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    async def _close(self) -> None:
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

    _kind = httpx.AsyncClient
    http: httpx.AsyncClient

    async def run(self, call: Call[T]) -> T:
        """Run an operation."""
        return await call

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.http.request(method, path, **options)

    async def _pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _work(self, call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.to_thread(call, *args)

    async def _close(self) -> None:
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


class Connected(Generic[C]):
    """An object whose operations answer when they return, or are awaited, as its connection's."""

    _connection: C


class operation(Generic[P, R]):  # a decorator
    """A method that returns a coroutine or a `Listing`, and answers or is awaited as its object."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._method = method

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., R]: ...
    @overload
    def __get__(
        self: "operation[P, Listing[T]]", instance: Connected[SyncConnection], owner: type
    ) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self: "operation[P, Listing[T]]", instance: Connected[AsyncConnection], owner: type
    ) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(
        self: "operation[P, Call[T]]", instance: Connected[SyncConnection], owner: type
    ) -> Callable[P, T]: ...
    @overload
    def __get__(
        self: "operation[P, Call[T]]", instance: Connected[AsyncConnection], owner: type
    ) -> Callable[P, Call[T]]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self._method  # as it is written, for its documentation

        @wraps(self._method)
        def call(*args: Any, **kwargs: Any) -> Any:
            made, connection = self._method(instance, *args, **kwargs), instance._connection
            return (connection.iterate if isinstance(made, Listing) else connection.run)(made)

        return call
