"""For tests that kill processes, or set what a new one reads: these start some of their own."""

import pytest

from service.base.process_pool import Processes


@pytest.fixture(name="processes")
def new_processes() -> type[Processes]:
    """Not those of the tests before."""
    return Processes
