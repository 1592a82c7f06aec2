"""`lhb bench dashboard`: the pages that it visits are there and full."""

import pytest

from benchmarks.server import dashboard


@pytest.mark.slow
def test_both_pages_are_visited() -> None:
    found = dashboard.run(n_sessions=4, n_rounds=300, n_visits=1)
    assert found["settings"] == {"sessions": 4, "rounds": 300, "visits": 1}
    for visits in found["visits"].values():
        assert [one["shown_seconds"] <= one["whole_seconds"] for one in visits] == [True]
