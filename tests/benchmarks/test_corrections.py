"""`lhb bench corrections`: the correction is taken, and both fits are timed."""

import pytest

from benchmarks import corrections


@pytest.mark.parametrize("closing", corrections.CLOSINGS)
def test_a_fit_is_timed_without_and_with_a_correction(
    closing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrections, "AT_ONCE", 60)
    monkeypatch.setattr(corrections, "TIMES", 1)
    found = corrections.size(closing, 120)
    assert 0 < found["fit_reads_ms"] < 1e3 * found["fit"]
    assert 0 < found["corrected_reads_ms"] < 1e3 * found["corrected"]
