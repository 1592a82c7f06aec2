"""Credit adds up to the rewards that decisions cause, and is silent where lags are not known."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.estimate import Estimate, first_lags
from lhb_engine.evaluation.credit import credit, credit_by_feature, why_no_credit
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate
from tests.examples import repeats


def test_what_was_earned_is_the_rewards_so_far_and_what_is_to_come_the_rest():
    """By the truth, in a world whose lag weights do not sum to 1."""
    theta, weights = np.array([0.6, -0.8]), np.array([0.0, 1.5, 0.0, 0.7])
    env = LongHorizonEnvironment(theta, weights, noise=0.0, seed=1)
    contexts = env.contexts(1, 30)[:, 0]
    signals = env.signals(contexts)
    passed = np.arange(30, 0, -1)
    found = credit(contexts, passed, theta, weights)
    assert found.earned.sum() == pytest.approx(env.rewards(signals).sum())
    # thirty rounds without action later everything has come
    later = env.rewards(np.concatenate([signals, np.zeros(30)]))
    assert found.to_come.sum() == pytest.approx(later[30:].sum())
    assert found.to_come[-4:].any()
    assert found.earned[-1] == 0  # lag 0 pays nothing


def test_profiles_say_what_clickbait_earned_at_once_and_costs_still():
    """What each feature pays at its own lags; equal to lag weights where profiles are shared."""
    theta, weights = np.array([0.6, -0.8]), np.array([0.0, 1.5, 0.0, 0.7])
    contexts, passed = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30, 0, -1)
    plain = credit(contexts, passed, theta, weights)
    for one, other in zip(
        plain, credit(contexts, passed, theta, np.outer(weights, theta)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)
    profiles = np.array([[1.0, 0.0], [-0.8, 0.5], [-0.8, 0.5]])
    found = credit(np.eye(2), np.array([1, 2]), theta, profiles)
    np.testing.assert_allclose(found.earned, [1.0, 0.5])
    np.testing.assert_allclose(found.to_come, [-1.6, 0.5])


def test_features_split_what_decisions_are_worth():
    """At once and later, or earned and to come, are the same sum; features add up to decisions."""
    rng = np.random.default_rng(0)
    contexts, passed = rng.normal(size=(30, 3)), np.arange(30, 0, -1)
    profiles = np.array([[1.0, 0.0, 0.1], [-0.8, 0.5, 0.1], [-0.8, 0.5, -0.9]])
    found, each = (
        credit_by_feature(contexts, passed, profiles),
        credit(contexts, passed, 0, profiles),
    )
    assert first_lags(profiles).tolist() == [1, 1, 2]
    total = contexts.sum(axis=0)
    np.testing.assert_allclose(found["at_once"], total * [1.0, 0.0, 0.2])
    np.testing.assert_allclose(found["later"], total * [-1.6, 1.0, -0.9])
    np.testing.assert_allclose(
        found["at_once"] + found["later"], found["earned"] + found["to_come"]
    )
    assert found["earned"].sum() == pytest.approx(each.earned.sum())
    assert found["to_come"].sum() == pytest.approx(each.to_come.sum())
    # the last decision alone
    last = credit_by_feature(contexts[-1:], passed[-1:], profiles)
    np.testing.assert_allclose(last["earned"], contexts[-1] * profiles[0])


def test_an_estimate_that_does_not_know_the_lags_gives_no_credit():
    known = Estimate("ok", np.zeros(100), active_lags=(3,))
    assert "16 of 100" in why_no_credit(replace(known, lag_weights=np.zeros(16)), 100)
    assert "Nothing stands out" in why_no_credit(replace(known, active_lags=()), 100)
    assert why_no_credit(known, 100) == ""
    # many small lags may pay clearly together, and none by itself
    smooth = replace(known, active_lags=(), diagnostics={"stands_out": True})
    assert why_no_credit(smooth, 100) == ""
    assert why_no_credit(replace(known, diagnostics={"stands_out": False}), 100)


def test_what_rounding_leaves_of_a_sum_is_nothing() -> None:
    numbers = np.random.default_rng(1)
    profiles, contexts = numbers.standard_normal((7, 3)), numbers.standard_normal((400, 3))
    found = credit_by_feature(contexts, np.full(400, 7), profiles)
    assert not found["to_come"].any()


@pytest.mark.parametrize("algorithm", ["ad_lasso", "sa_gd", *repeats("sw_mp", "ucb_mp", "anytime")])
def test_where_credit_is_given_its_total_is_near_the_truth(algorithm):
    """At 250 rounds fits of 16 lags are off by factors of -645 to 16; these say nothing."""
    given = 0
    for seed in range(2):
        env = LongHorizonEnvironment.draw(dim=5, horizon=100, sparsity=5, seed=seed)
        for n_rounds in (250, 700):
            played = simulate(algorithm, env, n_rounds=n_rounds, seed=seed)
            directed = [e for e in played.estimates if e.theta is not None]
            estimate = directed[-1]
            if why_no_credit(estimate, 100):
                assert algorithm != "anytime"
                continue
            passed = np.arange(n_rounds, 0, -1)
            found = credit(played.selected, passed, estimate.theta, estimate.lag_weights)
            truth = credit(played.selected, passed, env.theta, env.weights)
            total, true = (c.earned.sum() + c.to_come.sum() for c in (found, truth))
            assert 0.7 < total / true < 1.3
            given += 1
    assert given == {"anytime": 4, "sa_gd": 0}.get(algorithm, 2)


@pytest.mark.parametrize("n", [1, 5, 20])
def test_a_decisions_credit_is_what_the_rewards_lack_without_it(n):
    """Beside the sums above: each decision's own share, by playing the world without it."""
    theta, weights = np.array([0.6, -0.8, 0.1]), np.array([0.0, 0.3, 0.0, 0.1, 0.05, 0.0, 0.4])
    env = LongHorizonEnvironment(theta, weights, noise=0.0)
    contexts = np.random.default_rng(1).standard_normal((n, 3))
    signals = np.append(env.signals(contexts), np.zeros(len(weights)))
    found = credit(contexts, np.arange(n, 0, -1), theta, weights)
    for i in range(n):
        without = signals.copy()
        without[i] = 0.0
        lost = env.rewards(signals) - env.rewards(without)
        assert found.earned[i] == pytest.approx(lost[:n].sum(), abs=1e-12)
        assert found.to_come[i] == pytest.approx(lost[n:].sum(), abs=1e-12)
        assert found.earned[i] + found.to_come[i] == pytest.approx(weights.sum() * signals[i])
