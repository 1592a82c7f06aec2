"""The quantile that holds at every look."""

import numpy as np
import pytest

from lhb_engine.evaluation.lift import SLOPES, always_valid_quantile


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_bound_is_where_the_martingale_reaches_its_limit(level: float) -> None:
    best = np.sqrt(2 * np.log(2 / (1 - level)))
    share = np.array([1e-4, 0.01, 0.3, 1.0, 3.0, 200.0])
    x = always_valid_quantile(share, level) * np.sqrt(share)
    martingale = sum(
        p / 2 * np.exp(np.logaddexp(y, -y) - (m * best) ** 2 * share / 2)
        for p, m in SLOPES
        for y in [m * best * x]
    )
    np.testing.assert_allclose(martingale, 1 / (1 - level), rtol=1e-9)


def test_the_martingale_begins_at_one() -> None:
    assert sum(p for p, _ in SLOPES) == pytest.approx(1.0, abs=1e-12)


def test_it_is_narrowest_near_the_planned_end() -> None:
    share = np.geomspace(1e-3, 1e3, 61)
    z = always_valid_quantile(share)
    assert 1.0 <= share[z.argmin()] <= 1.6
    assert z.min() / 1.959964 < 1.45
    assert always_valid_quantile(np.array([0.5, 2.0])).max() / 1.959964 < 1.57


def test_brownian_motion_passes_it_rarely_and_a_fixed_quantile_often() -> None:
    rng = np.random.default_rng(3)
    share = np.geomspace(0.005, 2.0, 300)
    steps = rng.standard_normal((4000, 300)) * np.sqrt(np.diff(share, prepend=0.0))
    z = np.abs(steps.cumsum(axis=1)) / np.sqrt(share)
    passed = (z > always_valid_quantile(share)).any(axis=1).mean()
    assert 0.01 < passed < 0.05  # not below 0.01: it would be wider than it has to be
    assert (z > 1.959964).any(axis=1).mean() > 0.3


def test_a_share_above_zero_is_needed() -> None:
    with pytest.raises(ValueError, match="share"):
        always_valid_quantile(np.array([0.0]))
