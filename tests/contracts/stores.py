"""The databases that the store contract runs on: one line each."""

from collections.abc import Callable
from pathlib import Path

from service.storage.ports import Store
from service.storage.sqlite import SqliteStore

STORES: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda path: SqliteStore(path / "contract.db"),
}
