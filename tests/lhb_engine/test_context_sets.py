"""Which rounds keep their context set."""

from lhb_engine.context_sets import MOST, is_kept, latest_kept


def test_a_fit_finds_the_sets_of_the_latest_rounds() -> None:
    every = [n for n in range(1, 5001) if is_kept(n)]
    for last in (4, 63, 64, 65, 127, 128, 1000, 4095, 4096, 5000):
        assert latest_kept(last) == [n for n in every if n <= last][-MOST:]


def test_few_sets_are_kept() -> None:
    assert sum(map(is_kept, range(1, 2**16))) < MOST * 16
