"""Tests of fits start processes of their own: some kill them, some set what a new one reads."""

import pytest

from service.base.process_pool import Processes


@pytest.fixture
def processes() -> type[Processes]:
    """New ones."""
    return Processes
