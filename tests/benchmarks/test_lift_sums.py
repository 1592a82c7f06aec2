"""`lhb bench summing`: all repeated rounds are in the sums, and are read from there."""

import pytest

from benchmarks.server import lift_sums


@pytest.mark.slow
def test_repeated_rounds_are_summed() -> None:
    found = lift_sums.run(3000)
    assert found["rounds"] == 3000
    assert 0 < found["get_ms"] <= found["longest_ms"]
