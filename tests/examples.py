"""On how many examples a property is tried in `make test`, and on how many in `make test-all`."""

import os
from typing import Any

import pytest

LEAST = 5


def examples(n: int) -> int:
    """An eighth of `n` in `make test`; all in `make test-all`, which sets LHB_TEST_EXAMPLES."""
    return n if os.environ.get("LHB_TEST_EXAMPLES") == "all" else max(LEAST, n // 8)


def repeats(*parameters: Any) -> list[Any]:
    """Parameters, tuples of several, that repeat what another shows: `make test-all` has them."""
    return [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.slow)
        for one in parameters
    ]


# of tests that show nothing of a database: what databases must do alike is in tests/contracts
on_one_database = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
