"""Commands on both databases."""

from pathlib import Path
from typing import Any

import pytest

from service.storage.database_url import open_store
from tests.service.service_harness import ServiceHarness


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A harness on each database."""
    url = f"sqlite:///{tmp_path / 'lhb.db'}"
    if request.param == "postgres":
        url = str(request.getfixturevalue("postgres_url"))
    harness = ServiceHarness(tmp_path, open_store(url))
    yield harness
    harness.close()
