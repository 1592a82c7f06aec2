"""A real server for the clients, as a process of its own on a database of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.cli.demo import server


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("server")
    with server(folder / "test.db") as address:
        yield address
