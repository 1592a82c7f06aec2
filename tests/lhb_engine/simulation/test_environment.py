"""A world is the same however it is read, and is what docs/model.md (1.1) says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhb_engine.simulation.environment import PATTERNS, LongHorizonEnvironment, lag_weights

WORLD = {"dim": 4, "horizon": 12, "n_arms": 3, "pattern": "random", "sparsity": 5}


def world(seed: int = 3, **changed: object) -> LongHorizonEnvironment:
    return LongHorizonEnvironment.draw(**(WORLD | {"seed": seed} | changed))


@pytest.mark.parametrize("dim", [1, 5, 10, 33])
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 59), max_size=6, unique=True), seed=st.integers(0, 2**53 - 1))
def test_chunks_of_any_size_in_any_order_are_single_rounds(dim, cuts, seed):
    env = world(seed, dim=dim)
    contexts = env.contexts(1, 60)
    signals = env.signals(contexts)[:, 0]
    rewards = env.rewards(signals)
    starts = sorted({1, *(cut + 1 for cut in cuts)})
    for first, after in reversed(list(zip(starts, [*starts[1:], 61], strict=True))):
        part = env.contexts(first, after - 1)
        assert np.array_equal(part, contexts[first - 1 : after - 1])
        assert np.array_equal(env.signals(part)[:, 0], signals[first - 1 : after - 1])
        assert np.array_equal(
            env.rewards(signals[: after - 1], first), rewards[first - 1 : after - 1]
        )
    singles = [env.rewards(signals[:t], t)[0] for t in range(1, 61)]
    assert np.array_equal(singles, rewards)


def test_rewards_are_the_sum_over_lags_of_the_model():
    env = world(noise=0.0)
    selected = env.contexts(1, 40)[:, 1]
    for t in range(1, 41):
        expected = math.fsum(
            env.weights[k] * math.fsum(selected[t - 1 - k] * env.theta)
            for k in range(env.horizon)
            if t - k >= 1
        )
        assert env.rewards(env.signals(selected))[t - 1] == pytest.approx(expected, abs=1e-13)


def test_noise_is_gaussian_of_the_size_asked_and_not_the_contexts():
    n = 20_000
    quiet, loud = world(noise=0.0), world(noise=0.5)
    signals = quiet.signals(quiet.contexts(1, n)[:, 0])
    errors = (loud.rewards(signals) - quiet.rewards(signals)) / 0.5
    # four standard errors of the mean, the variance, and the share within one deviation
    assert abs(errors.mean()) < 4 / math.sqrt(n)
    assert abs(errors.var() - 1) < 4 * math.sqrt(2 / n)
    assert abs((abs(errors) < 1).mean() - 0.6827) < 4 * math.sqrt(0.6827 * 0.3173 / n)
    assert abs(np.corrcoef(errors, signals)[0, 1]) < 4 / math.sqrt(n)


def test_contexts_are_uniform_and_independent_over_rounds():
    contexts = world().contexts(1, 20_000)
    assert contexts.min() >= -1
    assert contexts.max() <= 1
    n = contexts.size
    assert abs(contexts.mean()) < 4 / math.sqrt(3 * n)
    assert abs((contexts**2).mean() - 1 / 3) < 4 * math.sqrt(4 / 45 / n)
    flat = contexts[:, 0, 0]
    assert abs(np.corrcoef(flat[1:], flat[:-1])[0, 1]) < 4 / math.sqrt(len(flat))


def test_worlds_of_a_seed_are_paired():
    one = world()
    assert np.array_equal(one.contexts(1, 9), world(noise=1.0).contexts(1, 9))
    assert np.array_equal(one.weights, world(n_arms=30).weights)
    assert np.array_equal(one.theta, world(pattern="flat").theta)
    assert not np.array_equal(one.theta, world(4).theta)
    assert not np.array_equal(one.contexts(1, 9), world(4).contexts(1, 9))


def test_theta_is_uniform_on_the_sphere():
    thetas = np.array([world(seed, dim=3).theta for seed in range(2000)])
    assert np.allclose(np.linalg.norm(thetas, axis=1), 1)
    # E theta theta' = I / 3, each entry within four standard errors
    assert np.abs(thetas.T @ thetas / 2000 - np.eye(3) / 3).max() < 4 * 0.3 / math.sqrt(2000)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_lag_weights_are_a_distribution_over_s_lags(pattern):
    rng = np.random.default_rng(5)
    for _ in range(50):
        weights = lag_weights(pattern, 50, 10, rng)
        assert weights.shape == (50,)
        assert weights.min() == 0
        assert weights.sum() == pytest.approx(1)
        assert np.count_nonzero(weights) == (1 if pattern == "single" else 10)


def test_each_pattern_puts_its_mass_where_it_says():
    rng = np.random.default_rng(6)
    draws = {p: [lag_weights(p, 50, 10, rng) for _ in range(200)] for p in PATTERNS}
    lags = {p: np.flatnonzero(np.sum(w, axis=0)) for p, w in draws.items()}
    assert lags["early_mass"].max() == 14
    assert lags["late_mass"].min() == 20
    for pattern in ("flat", "spiking", "random", "single"):
        assert {lags[pattern].min(), lags[pattern].max()} == {0, 49}
    for flat in draws["flat"]:
        assert set(flat) == {0.0, 0.1}
    for spiking in draws["spiking"]:
        large, small = sorted(set(spiking))[:0:-1]
        assert large == pytest.approx(20 * small)
        assert np.count_nonzero(spiking == large) == 2


def test_impossible_worlds_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="pattern"):
        lag_weights("flatt", 10, 2, rng)
    for sparsity in (0, 11):
        with pytest.raises(ValueError, match="sparsity"):
            lag_weights("flat", 10, sparsity, rng)
    with pytest.raises(ValueError, match="early_mass"):
        lag_weights("early_mass", 10, 4, rng)
    with pytest.raises(ValueError, match="noise"):
        world(noise=-1.0)
    with pytest.raises(ValueError, match="n_arms"):
        world(n_arms=0)


@pytest.mark.parametrize(("sparsity", "n_spikes"), [(1, 1), (2, 1), (5, 1), (6, 2), (11, 3)])
def test_a_fifth_of_the_lags_spike_rounded_up(sparsity: int, n_spikes: int) -> None:
    weights = lag_weights("spiking", 20, sparsity, np.random.default_rng(0))
    sizes = weights[weights > 0] / weights[weights > 0].min()
    if n_spikes < sparsity:
        assert (sizes > 1.5).sum() == n_spikes
        assert sizes.max() == pytest.approx(20)
