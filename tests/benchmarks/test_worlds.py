"""The harder worlds keep random access, and break what they say they break."""

import numpy as np
import pytest

from benchmarks.worlds import (
    Baseline,
    Change,
    ColouredNoise,
    ContextsAbove,
    ContextsAlike,
    ContextsOverTime,
    Day,
    FixedArms,
    HeavyTails,
    LastingNoise,
    OneHot,
    RandomWalk,
    Rare,
    Running,
    Season,
    Trend,
    Turn,
    WeatherOfThree,
    measured,
)
from lhb_engine.simulation.environment import LongHorizonEnvironment

DISTURBED = [Trend, Day, Season, ColouredNoise, RandomWalk]
KINDS = [ContextsOverTime, ContextsAlike, FixedArms, OneHot, HeavyTails, Baseline, Change, Turn]
KINDS += [*DISTURBED, LastingNoise, Rare, WeatherOfThree]


def draw(kind):
    return kind.draw(dim=3, horizon=20, n_arms=4, sparsity=3, seed=7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_equals_its_rounds(kind):
    world = draw(kind)
    block = world.contexts(1, 260)
    for first, last in ((1, 1), (2, 9), (101, 140), (255, 260)):
        assert (world.contexts(first, last) == block[first - 1 : last]).all()
    signals = world.signals(block[:, 0])
    assert (world.signals(block[99:, 0], 100) == signals[99:]).all()
    rewards = world.rewards(signals)
    assert (world.rewards(signals[:150], 120) == rewards[119:150]).all()


def test_contexts_over_time_remember():
    x = draw(ContextsOverTime).contexts(1, 6000)[1000:, 0, 0]
    assert np.corrcoef(x[1:], x[:-1])[0, 1] == pytest.approx(0.9, abs=0.03)
    assert x.var() == pytest.approx(1 / 3, rel=0.25)


def test_contexts_alike_share_half():
    x = draw(ContextsAlike).contexts(1, 5000)[:, :2, 0]
    assert np.corrcoef(x.T)[0, 1] == pytest.approx(0.5, abs=0.04)


def test_heavy_tails_have_the_noise_they_say():
    world = draw(HeavyTails)
    errors = world.rewards(np.zeros(200_000))
    assert errors.std() == pytest.approx(0.1, rel=0.15)
    assert np.mean(np.abs(errors) > 0.4) > 1e-3  # 6e-5 were it normal


def test_rare_rewards_come_more_often_after_good_choices():
    rewards = draw(Rare).rewards(np.repeat([0.0, 1.0], 100_000))
    assert set(np.unique(rewards)) == {0.0, 1.0}
    shares = rewards.reshape(2, -1).mean(axis=1)
    assert shares == pytest.approx([0.03, 0.06], abs=0.002)


def disturbance(kind, n):
    """What is added to a plain world's rewards, in the signal's standard deviations."""
    world, plain = draw(kind), draw(LongHorizonEnvironment)
    added = world.rewards(np.zeros(n)) - plain.rewards(np.zeros(n))
    return added / (np.linalg.norm(world.weights) / np.sqrt(3.0))


def test_disturbances_are_of_the_size_they_say():
    assert disturbance(Trend, 2000)[[0, -1]] == pytest.approx([0.005, 10.0])
    for kind, period in ((Day, 24), (Season, 168)):
        sine = disturbance(kind, 5 * period)
        np.testing.assert_allclose(sine[period:], sine[:-period], atol=1e-9)
        assert sine[: period // 2 - 1].min() > 0.0
        assert sine.max() == pytest.approx(5.0, rel=1e-3)
    noise = disturbance(ColouredNoise, 20_000)
    assert noise.std() == pytest.approx(2.0, rel=0.1)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(0.9, abs=0.02)
    steps = np.diff(disturbance(RandomWalk, 20_000))
    assert steps.std() == pytest.approx(0.1, rel=0.02)
    assert np.corrcoef(steps[1:], steps[:-1])[0, 1] == pytest.approx(0.0, abs=0.03)


def test_lag_weights_turn_round_at_the_change():
    world = draw(Change)
    impulse = np.zeros(1100)
    impulse[1050] = 1.0
    response = world.rewards(impulse) - world.rewards(np.zeros(1100))
    np.testing.assert_allclose(response[1050:1070], world.weights[::-1], atol=1e-12)


def test_theta_turns_round_at_the_change():
    world = draw(Turn)
    contexts = world.contexts(901, 1100)
    signals = world.signals(contexts, 901)
    np.testing.assert_allclose(signals[:100], contexts[:100] @ world.theta, atol=1e-12)
    np.testing.assert_allclose(signals[100:], contexts[100:] @ world.theta[::-1], atol=1e-12)


def test_what_is_measured():
    rewards = np.arange(1.0, 30.0)
    sums = measured("sums", rewards, 0)
    assert sums.value.tolist() == [28.0, 77.0, 126.0, 175.0]
    assert (sums.last - sums.first == 6).all()
    seen = measured("missing", np.zeros(2000), 0)
    assert len(seen) == pytest.approx(1400, abs=80)


def test_fixed_arms_are_the_same_in_every_round():
    fixed, hot = draw(FixedArms).contexts(5, 9), draw(OneHot).contexts(5, 9)
    assert (
        fixed == LongHorizonEnvironment.draw(dim=3, horizon=20, n_arms=4, seed=7).contexts(1, 1)
    ).all()
    assert (hot == np.eye(3)[[0, 1, 2, 0]]).all()


def test_the_weather_is_told_and_moves_rewards():
    world, signals = draw(WeatherOfThree), np.ones(3000)
    plain = LongHorizonEnvironment(world.theta, world.weights, n_arms=4, seed=7).rewards(signals)
    told = world.covariates(1, 3000)
    np.testing.assert_allclose(world.rewards(signals) - plain, 3.0 * told[:, 0], atol=1e-12)
    assert (world.covariates(120, 150) == told[119:150]).all()
    assert told.std() == pytest.approx(3**-0.5, abs=0.03)
    assert draw(Trend).covariates(1, 3) is None


def test_lasting_noise_is_of_the_size_it_says():
    noise = draw(LastingNoise).rewards(np.zeros(50_000)) - draw(LongHorizonEnvironment).rewards(
        np.zeros(50_000)
    )
    assert (noise[1:] - 0.95 * noise[:-1]).std() == pytest.approx(0.1, rel=0.02)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(0.95, abs=0.01)


def test_what_ran_before_pays_in_the_first_rounds():
    truth = {"dim": 3, "horizon": 6, "noise": 0.0, "sparsity": 3, "seed": 4}
    world, plain = Running.draw(**truth), ContextsAbove.draw(**truth)
    signals = np.zeros(20)
    paid = world.rewards(signals)
    assert (plain.rewards(signals) == 0).all()
    last = int(np.flatnonzero(world.weights)[-1])
    assert (paid[:last] != 0).all()
    assert (paid[last:] == 0).all()
    tails = np.append(np.cumsum(world.weights[::-1])[::-1], 0.0)[1:]
    scores = paid[:last] / tails[:last]  # means of the scores before
    assert np.abs(scores - 3.0 * world.theta.sum()).max() <= np.abs(world.theta).sum()
    for first in (1, 3, last + 1, 15):
        np.testing.assert_array_equal(world.rewards(signals, first), paid[first - 1 :])
    np.testing.assert_array_equal(world.contexts(2, 3), plain.contexts(2, 3))
    assert (plain.contexts(1, 1) >= 2.0).all()
