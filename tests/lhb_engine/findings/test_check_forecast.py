"""Rewards that fall short of what was forecast, and many in which nothing stands out."""

from dataclasses import replace

import numpy as np

from lhb_engine.design.aligned_rounds import AlignedRounds, align
from lhb_engine.findings.check_forecast import check_effect, check_forecast
from lhb_engine.history import FitWindow, Floats, History, Measurements, Trajectory
from lhb_engine.posterior.predictor import Predictor

THETA, WEIGHTS = np.array([0.6, 0.8]), np.array([0.0, 1.0, 0.0])
BEFORE = Predictor(WEIGHTS, THETA, 2.0, 0.1, 200, True, n_rows=200)


def rows(added: Floats, noise: Floats) -> AlignedRounds:
    """400 rounds about a level of 2."""
    contexts = np.random.default_rng(3).uniform(-1.0, 1.0, (400, 2))
    rewards = 2.0 + np.convolve(contexts @ THETA, WEIGHTS)[:400] + added + noise
    measured = Measurements.single(np.arange(1, 401), rewards)
    window = FitWindow(1, 1, 400, 3, 400)
    return align(History(2, {"": Trajectory(contexts, measured)}).over(window))


def white(seed: int = 4) -> Floats:
    return 0.1 * np.random.default_rng(seed).standard_normal(400)


LATER = np.arange(400) >= 200


def test_rewards_that_fall_short_are_found() -> None:
    [found] = check_forecast(rows(-0.1 * LATER, white()), BEFORE)
    assert found.code == "earns_less"
    assert found.message.startswith("Since round 200 the session earns less")
    assert "set the option `memory`, or a smaller one than now: " in found.message


def test_more_than_was_forecast_is_no_matter() -> None:
    assert not [*check_forecast(rows(0.1 * LATER, white()), BEFORE)]


def test_what_was_forecast_says_nothing() -> None:
    for seed in range(20):
        assert not [*check_forecast(rows(0.0 * LATER, white(seed)), BEFORE)]
    assert not [*check_forecast(rows(-0.015 * LATER, white()), BEFORE)]


def test_where_rewards_have_hardly_any_noise_a_shortfall_that_nobody_feels_says_nothing() -> None:
    """Errors of the parameters go one way for many rows, and stand out from so little noise."""
    assert not [*check_forecast(rows(-0.001 * LATER, 0.01 * white()), BEFORE)]
    assert [*check_forecast(rows(-0.02 * LATER, 0.01 * white()), BEFORE)]


def test_rewards_without_noise_may_all_fall_short_alike() -> None:
    """As where a session plays one arm at last; then nothing is known of the errors' spread."""
    told = rows(0.0 * LATER, white())
    dull = replace(BEFORE, theta=0.0 * THETA)
    levels = [replace(told, y=level * told.intercept) for level in (2.0, 1.99, 1.5)]
    assert [len([*check_forecast(one, dull)]) for one in levels] == [0, 0, 1]


def test_a_line_errs_more_the_longer_it_goes_on() -> None:
    """A fall that a told line's error makes likely is none; one without a line is."""
    time = np.linspace(-1.0, 1.0, 400)[:, None]
    fell = rows(-0.05 * LATER, white())
    told = replace(fell, covariates=time * fell.intercept[:, None])
    assert [*check_forecast(fell, BEFORE)]
    assert not [*check_forecast(told, replace(BEFORE, effects=np.zeros(1)))]


def test_errors_that_last_fall_short_by_chance() -> None:
    walk = 0.3 * np.cumsum(white(7))
    walk -= walk[LATER].mean() + 0.2
    assert walk[LATER].mean() < -0.19
    assert not [*check_forecast(rows(walk, 0.0 * white()), BEFORE)]


def test_correlation_that_was_known_before_counts() -> None:
    """In few rows that of errors that last looks smaller."""
    slow = np.convolve(white(8), np.ones(3))[:400]
    slow -= slow[LATER].mean() + 0.4
    assert [*check_forecast(rows(slow, 0.0 * white()), replace(BEFORE, autocorrelation=0.0))]
    assert not [*check_forecast(rows(slow, 0.0 * white()), replace(BEFORE, autocorrelation=0.97))]
    step = replace(BEFORE, autocorrelation=0.97)
    assert [*check_forecast(rows(-0.1 * LATER, white()), step)]


def test_a_forecast_that_stood_for_nothing_is_none() -> None:
    assert not [*check_forecast(rows(-0.1 * LATER, white()), replace(BEFORE, stands_out=False))]
    assert not [*check_forecast(rows(-0.1 * LATER, white()), replace(BEFORE, last_round=380))]
    assert not [*check_forecast(rows(-0.1 * LATER, white()), None)]


def test_many_rows_without_an_effect_are_found() -> None:
    nothing = replace(BEFORE, stands_out=False)
    assert [one.code for one in check_effect(1000, 100, nothing)] == ["no_effect"]
    for n_rows, n_unknown, known in ((999, 5, nothing), (1000, 101, nothing), (5000, 5, BEFORE)):
        assert not [*check_effect(n_rows, n_unknown, known)]
    assert not [*check_effect(5000, 5, None)]


def test_a_level_that_walks_falls_short_by_chance() -> None:
    """Beside noise that hides how long its steps last from one row to the next."""
    missed = 0
    for seed in range(20):
        steps = np.random.default_rng(seed).standard_normal(400)
        walk = 0.03 * np.cumsum(steps)
        walk -= walk[LATER].mean() + 0.3
        missed += not [*check_forecast(rows(walk, white()), BEFORE)]
    assert missed >= 18
