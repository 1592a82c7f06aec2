"""The board of weak worlds: what is drawn, who plays when, and the rival."""

import numpy as np
import pytest

from benchmarks import weak_worlds as weak


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_a_world_is_as_weak_as_the_board_says(seed, power):
    world = weak.WeakWorld.of(seed, 0, power=power)
    assert 100 <= world.rounds <= 400
    assert 3 <= world.dim <= 8
    assert 3 <= world.n_arms <= 6
    assert world.family == weak.FAMILIES[seed % 3]
    assert world.weights.sum() == pytest.approx(1.0)
    arms = np.random.default_rng(seed).integers(world.n_arms, size=6000)
    signals = world.signals(world.contexts(5001, 11000))[np.arange(6000), arms]
    effect = np.std(np.convolve(signals, world.weights)[weak.HORIZON : 6000])
    assert 0.045 < (effect / world.noise) ** (2 if power else 1) < 0.55


def test_chance_and_the_best_arms_have_shares_0_and_1():
    found = [weak.play("uniform", 0, seed) for seed in range(12)]
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(12) + 0.02
    world = weak.WeakWorld.of(3, 60)
    agent = weak.agent_of("uniform", world, 60)
    agent.theta = world.theta
    run = weak.simulate(agent, world, n_rounds=60 + world.rounds, seed=3)
    assert run.regret[59] > 0.0
    assert weak.Played(world, 60, run).share == pytest.approx(1.0)


def test_the_rota_plays_the_history_and_one_fit_reads_all_of_it():
    world = weak.WeakWorld.of(1, 90)
    agent = weak.agent_of("ridge", world, 90)
    run = weak.simulate(agent, world, n_rounds=120, seed=1)
    assert run.arms[:90].tolist() == [round % world.n_arms for round in range(1, 91)]
    assert [(e.first_round, e.last_round) for e in run.estimates][:2] == [(1, 90), (1, 97)]
    gone_on = weak.agent_of("anytime", world, 90)
    assert gone_on.next_fit(0).last == 90
    assert gone_on.next_fit(90).last > 90


@pytest.mark.parametrize("seed", range(3))
def test_the_ridge_finds_theta_and_the_kernel_where_nothing_disturbs(seed):
    world = weak.WeakWorld.of(seed, 600)
    world.noise = 1e-3 * world.noise
    found = weak.agent_of("ridge", world, 600)
    run = weak.simulate(found, world, n_rounds=600, seed=seed)
    estimate = run.estimates[0]
    cosine = estimate.theta @ world.theta / np.linalg.norm(estimate.theta)
    assert cosine > 0.999
    np.testing.assert_allclose(estimate.lag_weights, world.weights, atol=1e-3)


@pytest.mark.slow
def test_a_row_says_what_was_played_in_pairs():
    rows = weak.run(["no history"], ["ridge", "anytime"], range(2))
    assert [row["algorithm"] for row in rows] == ["ridge", "anytime"]
    assert rows[0]["less_ridge"] == [0.0, 0.0]
    pairs = np.array(rows[1]["shares"]) - rows[0]["shares"]
    assert rows[1]["less_ridge"][0] == pytest.approx(pairs.mean())
    assert "of 2" in weak.line(rows[1])
