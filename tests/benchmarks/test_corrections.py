"""`lhb bench corrections`: the correction is taken, and both fits are timed."""

import pytest

from benchmarks import corrections
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401


@pytest.mark.parametrize("closing", corrections.CLOSINGS)
def test_a_fit_is_timed_without_and_with_a_correction(closing: str) -> None:
    found = corrections.size(closing, 120, at_once=60, n_times=1)
    assert 0 < found["fit_reads_ms"] < 1e3 * found["fit"]
    assert 0 < found["corrected_reads_ms"] < 1e3 * found["corrected"]
    assert 0 < found["void_reads_ms"] < 1e3 * found["void"]
