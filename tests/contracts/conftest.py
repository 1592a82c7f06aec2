"""A store over a fresh database of each kind."""

from collections.abc import Callable, Iterator

import pytest

from service.storage.database_url import open_store
from service.storage.transactions import Store


@pytest.fixture
def reopen(database_url: str) -> Iterator[Callable[[], Store]]:
    """Opens the same database again, after closing it."""
    opened: list[Store] = []

    def open_again() -> Store:
        while opened:
            opened.pop().close()
        opened.append(open_store(database_url))
        return opened[0]

    yield open_again
    while opened:
        opened.pop().close()


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()
