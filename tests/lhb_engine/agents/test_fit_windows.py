from bisect import bisect_right
from itertools import islice, pairwise
from math import ceil

import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.fit_windows import (
    ad_windows,
    anytime_windows,
    default_first_quarter,
    doubling_windows,
    quarter_of,
)
from lhb_engine.history import FitWindow


def test_doubling_epochs_have_the_paper_s_boundaries():
    L = 8
    for i, window in enumerate(islice(doubling_windows(100, L), 6), start=1):
        q = 2 ** (i - 1) * L
        assert window.due == window.last == 4 * (2**i - 1) * L
        assert window.first == 4 * (2 ** (i - 1) - 1) * L + q + 1  # the second quarter's first
        assert window.n_lags == min(q, 100)
        assert quarter_of(window) == q


def test_ad_lasso_with_L_8_and_h_100():
    assert default_first_quarter(100) == 8
    assert list(islice(ad_windows(100, 8), 5)) == [
        FitWindow(1, 9, 32, 8, 32),
        FitWindow(2, 49, 96, 16, 96),  # T_3 = 224 > 100: rounds 97..100 give no estimate
        FitWindow(3, 201, 300, 100, 300),
        FitWindow(4, 501, 700, 100, 700),
        FitWindow(5, 1101, 1500, 100, 1500),
    ]


@pytest.mark.parametrize("horizon", [1, 2, 7, 33, 101, 999])
def test_odd_horizons(horizon):
    L = default_first_quarter(horizon)
    assert max(1, horizon // 12) == L
    windows = list(islice(ad_windows(horizon, L), 12))
    assert [w.epoch for w in windows] == list(range(1, 13))
    assert all(a.due < b.due for a, b in pairwise(windows))
    full = [w for w in windows if w.due > horizon]
    for j, window in enumerate(full, start=1):
        assert window.due == (2 ** (j + 1) - 1) * horizon
        assert window.last - window.first + 1 == 2 ** (j - 1) * horizon
        assert window.n_lags == horizon


def test_an_epoch_that_ends_at_h_counts_and_one_that_does_not_is_cut():
    assert next(ad_windows(4, 1)).due == 4
    assert next(ad_windows(3, 1)).due == 9


def test_next_fit_is_the_first_window_due_later():
    agent = make_agent("ad_lasso", dim=2, horizon=100)
    assert [agent.next_fit(n).due for n in (0, 31, 32, 95, 96, 299, 300)] == [
        *(32, 32, 96, 96, 300, 300, 700)
    ]


@pytest.mark.parametrize(
    ("horizon", "growths"),
    [
        (100, {(100, 250): 1.15, (250, 9000): 1.04}),
        (10, {(26, 120): 1.12, (120, 900): 1.04}),
        (4, {(26, 120): 1.12, (120, 900): 1.04}),
    ],
)
def test_fits_of_anytime_are_early_then_from_120_rounds_close(horizon, growths):
    dues = [window.due for window in islice(anytime_windows(horizon, None), 120)]
    steps = {due: after - due for due, after in pairwise(dues)}
    for (first, end), growth in growths.items():
        between = [due for due in dues[:-1] if first <= due < end]
        assert len(between) >= 4
        assert [steps[due] for due in between] == [ceil(due * (growth - 1.0)) for due in between]


@pytest.mark.parametrize("horizon", [1, 7, 40, 100])
def test_the_next_fit_of_a_memory_is_one_of_the_schedule(horizon):
    """Steps over many windows at once end where growth does, which shortens a step again."""
    for memory in range(8, 4 * horizon + 64, 5):
        schedule = [*islice(anytime_windows(horizon, memory), 60)]
        afters = range(0, min(schedule[-1].due, 8 * horizon), 1 + horizon // 20)
        following = [next(anytime_windows(horizon, memory, after)) for after in afters]
        due = [window.due for window in schedule]
        assert following == [schedule[bisect_right(due, after)] for after in afters]
