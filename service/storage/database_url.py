"""From a database URL to its adapter. Only the composition root and fitting processes use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.storage.ports import Refused, Store
from service.storage.reader import Reader

SQLITE = "sqlite:///"
POSTGRES = ("postgresql://", "postgres://")


class UnknownDatabase(Refused):
    """No adapter speaks to this URL."""


def is_sqlite(url: str) -> bool:
    """Whether `url` names an embedded database, which one server process owns.

    Raises
    ------
    UnknownDatabase
        It names no database that we speak to.
    """
    if not url.startswith((SQLITE, *POSTGRES)) or len(url) == len(SQLITE):
        raise UnknownDatabase(
            f"{without_password(url)!r} is not a database URL: "
            "use sqlite:///path or postgresql://host/name"
        )
    return url.startswith(SQLITE)


def without_password(url: str) -> str:
    """Return a URL fit to be shown: no user, no password, no parameters."""
    user, at, place = url.partition("?")[0].rpartition("@")
    scheme, separator, _ = user.partition(":/")
    return f"{scheme if separator else ''}{separator}...@{place}" if at else place


def sqlite_path(url: str) -> Path:
    """The file that a sqlite URL names; sqlite:////x is absolute, sqlite:///x is not."""
    if not is_sqlite(url):
        raise UnknownDatabase(f"{without_password(url)!r} is not a file: use sqlite:///path")
    return Path(url[len(SQLITE) :])


def open_store(url: str) -> Store:
    """The store at `url`; a SQLite file is owned by this process from then on."""
    if is_sqlite(url):
        from service.storage.sqlite.store import SqliteStore

        return SqliteStore(sqlite_path(url))
    from service.storage.postgres.store import PostgresStore

    return PostgresStore(url)


@contextmanager
def open_reader(url: str) -> Iterator[Reader]:
    """A consistent view of what is committed at `url`, beside the processes that write."""
    if is_sqlite(url):
        from service.storage.sqlite.store import open_reader as open_sqlite_reader

        with open_sqlite_reader(sqlite_path(url)) as reader:
            yield reader
    else:
        from service.storage.postgres.store import open_reader as open_postgres_reader

        with open_postgres_reader(url) as reader:
            yield reader
