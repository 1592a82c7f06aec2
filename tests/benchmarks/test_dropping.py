"""`lhb bench dropping`: what it fills goes, and every transaction is timed."""

import pytest

from benchmarks.server import dropping


@pytest.mark.parametrize("n_trajectories", [1, 30])
def test_a_filled_session_is_dropped(n_trajectories: int) -> None:
    found = dropping.run(None, 600, n_trajectories, latest=100, fill=170)
    kept = 2 * dropping.HORIZON if n_trajectories == 1 else 0  # 20 rounds each
    assert found["dropped"] == 500 - kept
    assert found["transactions"] >= 2
    assert 0 < found["median_ms"] <= found["longest_ms"]
    assert 0 < found["sync_median_ms"] <= found["sync_longest_ms"]
