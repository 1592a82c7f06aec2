"""From a database URL to its adapter. Only the composition root and fitting processes use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.storage.ports import Reader, Store

SQLITE = "sqlite:///"


class UnknownDatabase(ValueError):
    """No adapter speaks to this URL."""


def sqlite_path(url: str) -> Path:
    """The file that a sqlite URL names; sqlite:////x is absolute, sqlite:///x is not."""
    if not url.startswith(SQLITE) or len(url) == len(SQLITE):
        raise UnknownDatabase(f"{url!r} is not a database URL: use sqlite:///path")
    return Path(url[len(SQLITE) :])


def open_store(url: str) -> Store:
    """The store at `url`, owned by this process."""
    from service.storage.sqlite import SqliteStore

    return SqliteStore(sqlite_path(url))


@contextmanager
def open_reader(url: str) -> Iterator[Reader]:
    """A consistent view of what is committed at `url`, beside the process that owns it."""
    from service.storage import sqlite

    with sqlite.open_reader(sqlite_path(url)) as reader:
        yield reader
