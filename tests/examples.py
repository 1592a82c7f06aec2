"""How many random examples a property is tried on."""

import os

LEAST = 5


def examples(n: int) -> int:
    """A quarter of `n` in `make test`; all in `make test-all`, which sets LHB_TEST_EXAMPLES."""
    return n if os.environ.get("LHB_TEST_EXAMPLES") == "all" else max(LEAST, n // 4)
