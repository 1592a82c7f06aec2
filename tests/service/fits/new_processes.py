"""For tests that kill processes, or set what a new one reads: these start some of their own."""

import pytest

from service.base.process_pool import Processes
from tests.service.kept_processes import ForkedProcesses

# as the service starts them: of new interpreters
as_served = pytest.mark.parametrize("processes", [Processes])


@pytest.fixture(name="processes")
def new_processes() -> type[Processes]:
    """Not those of the tests before."""
    return ForkedProcesses
