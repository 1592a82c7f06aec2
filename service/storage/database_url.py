"""Choose the adapter for a database URL; used by the composition root and fitting processes."""

from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

from service.storage.ports import Refused
from service.storage.reader import Reader
from service.storage.transactions import Store

SQLITE = "sqlite:///"
POSTGRES = ("postgresql://", "postgres://")


def is_sqlite(url: str) -> bool:
    """Return whether `url` names a SQLite database; raise `Refused` if neither kind."""
    if not url.startswith((SQLITE, *POSTGRES)) or len(url) == len(SQLITE):
        raise Refused(
            f"{without_password(url)!r} is not a database URL: "
            "use sqlite:///path or postgresql://host/name"
        )
    return url.startswith(SQLITE)


def without_password(url: str) -> str:
    """Return the URL without user, password and parameters, for messages."""
    user, at, place = url.partition("?")[0].rpartition("@")
    scheme, separator, _ = user.partition(":/")
    return f"{scheme if separator else ''}{separator}...@{place}" if at else place


def sqlite_path(url: str) -> Path:
    """Return the path in a SQLite URL: sqlite:////x is absolute, sqlite:///x is relative."""
    if not is_sqlite(url):
        raise Refused(f"{without_password(url)!r} is not a file: use sqlite:///path")
    return Path(url[len(SQLITE) :])


def open_store(url: str) -> Store:
    """Open the store at `url`: ``sqlite:///path`` or ``postgresql://host/name``.

    The process owns a SQLite file until the store is closed. Raises `Refused` where the database
    cannot be used (unknown URL, wrong schema, owned by another process, not durable), `Unavailable`
    where it cannot be reached.
    """
    module, place = adapter(url, "store")
    store: Store = (module.SqliteStore if is_sqlite(url) else module.PostgresStore)(place)
    return store


def open_reader(url: str) -> AbstractContextManager[Reader]:
    """Open a reader on a snapshot of the committed rows at `url`, while other processes write."""
    store, place = adapter(url, "store")
    reader: AbstractContextManager[Reader] = store.open_reader(place)
    return reader


def adapter(url: str, part: str) -> tuple[Any, Path | str]:
    """Return a module of the database's adapter, loaded now, and the path or URL that it takes."""
    kind, place = ("sqlite", sqlite_path(url)) if is_sqlite(url) else ("postgres", url)
    return import_module(f"service.storage.{kind}.{part}"), place
