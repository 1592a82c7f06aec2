"""Operations that are written once, and run by a synchronous or an asynchronous client.

An operation is a generator. It yields what is to be done outside, a `Request`, a `Pause` or `Work`,
and gets the result back; it returns the answer. A `Connection` runs it (`connection.py`): a
blocking one when it belongs to a `Client` or a `Session`, an awaiting one for their asynchronous
namesakes. Type checkers see which of the two a call is.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, sent once. Its result is an httpx.Response, or a TransportError is raised.

    `options` are those of httpx: json, params.
    """

    method: str
    path: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing, for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Work:
    """A call that may block, such as one that writes a file."""

    call: Callable[[], Any]


Steps = Generator[Request | Pause | Work, Any, T]


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The items of a listing, read page by page.

    Attributes
    ----------
    path : str
    params : dict
        Query parameters.
    item : callable
        Makes an item of its JSON.
    """

    path: str
    params: dict[str, Any]
    item: Callable[[Any], T]


class Blocking(Protocol):
    """A connection that answers when a call returns."""

    def run(self, steps: Steps[T]) -> T:
        """Run an operation."""

    def iterate(self, listing: Listing[T]) -> Iterator[T]:
        """Read a listing."""


class Awaiting(Protocol):
    """A connection whose calls are awaited."""

    async def run(self, steps: Steps[T]) -> T:
        """Run an operation."""

    def iterate(self, listing: Listing[T]) -> AsyncIterator[T]:
        """Read a listing."""


class Sync:
    """An object whose operations answer when they return."""

    _connection: Blocking


class Async:
    """An object whose operations are awaited."""

    _connection: Awaiting


class operation(Generic[P, T]):  # a decorator
    """A method that is written as `Steps`, and answers or is awaited as its object does."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._steps = steps

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Steps[T]]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return _bound(self._steps, instance, lambda connection: connection.run)


class listing(Generic[P, T]):  # a decorator
    """A method that returns a `Listing`, and is an iterator as its object wants it."""

    def __init__(self, method: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        self._method = method

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Listing[T]]: ...
    @overload
    def __get__(self, instance: Sync, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, instance: Async, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return _bound(self._method, instance, lambda connection: connection.iterate)


def _bound(method: Callable[..., Any], instance: Any, way: Callable[[Any], Any]) -> Any:
    """Return the method as users call it; of a class, as it is written, for its documentation."""
    if instance is None:
        return method

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return way(instance._connection)(method(instance, *args, **kwargs))

    return call
