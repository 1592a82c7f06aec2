"""How long until it is known what pays."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.evaluation.learning_time import LearningTime, expected_maximum

PLAN = LearningTime(noise=2.0, effect=0.5, horizon=7, arms=4, dim=5)


def test_the_expected_maximum_of_normal_numbers() -> None:
    assert expected_maximum(1) == pytest.approx(0.0, abs=1e-12)
    assert expected_maximum(2) == pytest.approx(1.0 / np.sqrt(np.pi))
    drawn = np.random.default_rng(1).standard_normal((100_000, 10)).max(axis=1)
    assert expected_maximum(10) == pytest.approx(drawn.mean(), abs=0.01)


def test_a_share_is_reached_after_its_rounds() -> None:
    for share in (0.1, 0.5, 0.9):
        assert PLAN.share(PLAN.rounds(share)) == pytest.approx(share)
    assert PLAN.share(0) == 0.0


def test_a_lag_is_told_by_the_rounds_after_it() -> None:
    """Of n rounds n - k have a reward k rounds later: n - 3 in the mean of the lags 0 to 6."""
    assert PLAN.share(3) == 0.0
    assert PLAN.share(3 + PLAN.unit) == pytest.approx(1.0 / np.sqrt(2.0))
    quick = replace(PLAN, noise=50.0, effect=150.0, horizon=28, dim=6)
    assert quick.rounds(0.5) == pytest.approx(20.1, abs=0.1)


def test_rounds_go_with_unknowns_and_with_noise_over_the_effect_squared() -> None:
    for change in ({"horizon": 14}, {"dim": 10}):
        assert replace(PLAN, **change).unit == pytest.approx(2.0 * PLAN.unit)
    assert replace(PLAN, noise=4.0).unit == pytest.approx(4.0 * PLAN.unit)
    assert replace(PLAN, effect=1.0).unit == pytest.approx(PLAN.unit / 4.0)


def test_the_mean_share_is_that_of_the_rounds() -> None:
    each = [PLAN.share(n - 0.5) for n in range(1, 1001)]
    assert PLAN.mean_share(1000) == pytest.approx(np.mean(each), rel=1e-3)
    assert replace(PLAN, noise=0.0).mean_share(10) == pytest.approx(0.7, rel=1e-3)
    assert PLAN.mean_share(0) == 0.0


@pytest.mark.parametrize("change", [{"effect": 0.0}, {"noise": -1.0}, {"arms": 1}, {"dim": 0}])
def test_what_cannot_be_is_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        replace(PLAN, **change)
