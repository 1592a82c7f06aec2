"""Replaying a log: honest predictions, weights that know about lags, refusals with a reason."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks import coverage
from lhb_engine.agents import make_agent
from lhb_engine.evaluation.batch_ratio import BatchRatio, Interval, Refusal
from lhb_engine.evaluation.log_replay import Chunk, Evaluation, LogReplay
from lhb_engine.history import History, Measurements, Trajectory
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment
from tests.examples import repeats
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401

DIM, K = 3, 3
THETA = np.array([0.6, -0.64, 0.48])


def lags(horizon, **at):
    weights = np.zeros(horizon)
    for lag, value in at.items():
        weights[int(lag[1:])] = value
    return weights


def uniform_log(weights, n, noise=0.1, seed=0, n_arms=K):
    """A log made by uniform play."""
    env = LongHorizonEnvironment(THETA, weights, n_arms=n_arms, noise=noise, seed=seed)
    contexts = env.contexts(1, n)
    arms = np.random.default_rng(seed).integers(n_arms, size=n)
    selected = contexts[np.arange(n), arms]
    rewards = env.rewards(env.signals(selected))
    return Chunk(selected, rewards, contexts, arms, np.full(n, 1 / n_arms))


def replayed(log, name="ad_lasso", horizon=12, lags=None, size=None, **options):
    agent = make_agent(name, dim=DIM, horizon=horizon, **options)
    replay = LogReplay(agent, lags=lags)
    size = size or len(log)
    for start in range(0, len(log), size):
        replay.feed(log.part(start, start + size))
    return replay.result()


def same(a: Evaluation, b: Evaluation):
    assert (a.n_rounds, a.n_held_out, a.lags) == (b.n_rounds, b.n_held_out, b.lags)
    for name in ("error", "naive_error", "skill", "replay", "weighted", "robust", "gain"):
        one, other = getattr(a, name), getattr(b, name)
        if isinstance(one, Refusal):
            assert one == other
        else:
            for field in ("value", "low", "high", "effective"):
                assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-9)


def test_predictions_are_of_rewards_not_yet_learned_from():
    """By hand: at each round the newest estimate predicts, then the fit may use the reward."""
    log = uniform_log(lags(12, k1=0.6, k4=0.4), 400)
    agent = make_agent("ad_lasso", dim=DIM, horizon=12)
    found = replayed(log)
    estimate, errors, naive, mean = None, [], [], 0.0
    for t in range(1, 401):
        if estimate is not None:
            guess = sum(
                w * (log.selected[t - 1 - k] @ estimate.theta)
                for k, w in enumerate(estimate.lag_weights)
                if t - 1 - k >= 0
            )
            errors.append((log.rewards[t - 1] - guess) ** 2)
            naive.append((log.rewards[t - 1] - mean) ** 2)
        window = agent.next_fit(t - 1)
        if window.due == t:
            measured = Measurements.single(np.arange(1, t + 1), log.rewards[:t])
            past = History(DIM, {"": Trajectory(log.selected[:t], measured)})
            made = agent.fit(past.over(window))
            estimate = made if made.theta is not None else estimate
            mean = log.rewards[:t].mean()
    assert found.n_held_out == len(errors)
    assert found.error.value == pytest.approx(np.mean(errors))
    assert found.naive_error.value == pytest.approx(np.mean(naive))
    assert found.skill.value == pytest.approx(1 - np.mean(errors) / np.mean(naive))
    assert found.estimate.to_json()["theta"] == estimate.to_json()["theta"]


@cache
def cut(name, size):
    """What is found in a log of 300 rounds, told `size` at a time."""
    log = uniform_log(lags(12, k0=0.7, k5=0.3), 300)
    log.rewards[np.random.default_rng(1).random(300) < 0.2] = np.nan
    return replayed(log, name, lags=(0, 5), size=size)


@pytest.mark.parametrize("name", ["ad_lasso", "sw_mp", "ucb_mp", "lin_ucb", "uniform"])
@pytest.mark.parametrize("size", [7, *repeats(1, 100)])
def test_how_a_log_is_cut_changes_nothing(name, size):
    same(cut(name, 300), cut(name, size))


def test_a_good_estimate_has_skill_and_an_empty_world_has_none():
    good = replayed(uniform_log(lags(12, k2=1.0), 2000))
    assert good.skill.low > 0.9
    assert good.error.value == pytest.approx(0.01, rel=0.2)  # the noise's variance
    nothing = replayed(uniform_log(lags(12), 2000, noise=1.0))
    assert isinstance(nothing.skill, Refusal) or nothing.skill.low < 0.02


def test_only_what_the_next_fit_needs_is_kept():
    log = uniform_log(lags(12, k2=1.0), 4000)
    replay = LogReplay(make_agent("uniform", dim=DIM, horizon=12))
    for start in range(0, 4000, 50):
        replay.feed(log.part(start, start + 50))
        assert len(replay._tails[""]) <= 12 + 50
    # ad_lasso's fits use the later half of an epoch: never the rounds before it
    replay = LogReplay(make_agent("ad_lasso", dim=DIM, horizon=12))
    for start in range(0, 4000, 50):
        replay.feed(log.part(start, start + 50))
        window = replay.agent.next_fit(replay.n_rounds)
        kept = replay._tails[""].first_kept
        assert kept >= min(window.first - 12 + 1, replay.n_rounds - 11)


def best_value(n=200_000):
    """E max_a <x_a, theta>, to a few thousandths."""
    env = LongHorizonEnvironment(THETA, np.ones(1), n_arms=K, seed=99)
    return float(env.signals(env.contexts(1, n)).max(axis=1).mean())


@pytest.mark.parametrize(
    "weights",
    [lags(6, k0=1.0), lags(6, k3=1.0), lags(6, k0=0.5, k2=0.5)],
    ids=["0", "3", "0 and 2"],
)
def test_weights_multiplied_over_the_lags_find_the_value_of_another_policy(weights):
    log = uniform_log(weights, 20_000, seed=4)
    active = tuple(np.flatnonzero(weights).tolist())
    oracle = {"name": "oracle", "horizon": 6, "theta": THETA.tolist()}
    found = replayed(log, **oracle, lags=active).weighted
    deviation = (found.high - found.low) / 2 / 1.96
    assert abs(found.value - best_value()) < 4 * deviation
    assert deviation < 0.05
    assert found.effective == pytest.approx(20_000 / K ** len(active), rel=0.1)


def test_weights_that_forget_a_lag_are_wrong():
    log = uniform_log(lags(6, k0=0.5, k2=0.5), 20_000, seed=4)
    found = replayed(log, "oracle", horizon=6, theta=THETA.tolist(), lags=(0,)).weighted
    assert found.high < 0.7 * best_value()


def test_replay_counts_agreements_with_a_uniform_log():
    log = uniform_log(lags(6, k0=1.0), 5000, seed=2)
    found = replayed(log, "oracle", horizon=6, theta=THETA.tolist(), lags=(0,)).replay
    agree = log.arms == (log.contexts @ THETA).argmax(axis=1)
    assert found.effective == agree.sum()
    assert found.value == pytest.approx(log.rewards[agree].mean())


def test_refusals_say_why():
    log = uniform_log(lags(12, k0=1.0), 400)

    def values(log, lags):
        result = replayed(log, "oracle", theta=THETA.tolist(), lags=lags)
        return result.weighted, result.replay

    without = Chunk(log.selected, log.rewards, log.contexts, log.arms, None)
    for value in values(without, (0,)):
        assert "propensities" in value
    bare = Chunk(log.selected, log.rewards)
    for value in values(bare, (0,)):
        assert "contexts of all arms" in value
    assert "not its own round's alone" in values(log, (0, 3))[1]
    assert "effective sample size" in values(log, tuple(range(8)))[0]
    assert "no lag" in values(log, ())[0]
    skewed = Chunk(log.selected, log.rewards, log.contexts, log.arms, np.full(400, 0.5))
    assert "uniform" in values(skewed, (0,))[1]
    assert "no estimate" in replayed(log, "uniform").skill
    with pytest.raises(ValueError, match="positive"):
        replayed(Chunk(log.selected, log.rewards, log.contexts, log.arms, np.zeros(400)))


def test_intervals_of_dependent_rounds_cover():
    """A moving average over ten rounds: batches see what an i.i.d. formula would miss."""
    rng = np.random.default_rng(8)
    covered = naive = 0
    for _ in range(300):
        x = np.convolve(rng.standard_normal(1009), np.ones(10) / 10, mode="valid")
        ratio = BatchRatio()
        ratio.add(x, np.ones(1000), np.arange(1, 1001) // 25)
        found: Interval = ratio.interval()
        covered += found.low <= 0 <= found.high
        naive += abs(x.mean()) <= 1.96 * x.std() / math.sqrt(1000)
    assert covered > 0.85 * 300
    assert naive < 0.6 * 300


def test_a_log_without_randomness_supports_no_other_policy():
    """A greedy log: its arms' propensities are 1, and other arms were never tried."""
    env = LongHorizonEnvironment(THETA, lags(12, k0=1.0), n_arms=K, seed=3)
    contexts = env.contexts(1, 600)
    arms = (contexts @ np.array([0.8, 0.6, 0.0])).argmax(axis=1)
    selected = contexts[np.arange(600), arms]
    log = Chunk(selected, env.rewards(env.signals(selected)), contexts, arms, np.ones(600))
    for name, options in (("uniform", {}), ("oracle", {"theta": THETA.tolist()})):
        assert "propensity 1" in replayed(log, name, lags=(0,), **options).weighted
    # the policy that made it is supported: it would have done the same
    itself = replayed(log, "oracle", theta=[0.8, 0.6, 0.0], lags=(0,)).weighted
    assert itself.value == pytest.approx(np.mean(log.rewards))


def test_weights_that_do_not_average_to_one_are_refused():
    log = uniform_log(lags(12, k0=1.0), 2000)
    wrong = Chunk(log.selected, log.rewards, log.contexts, log.arms, np.full(2000, 0.5))
    assert "not 1" in replayed(wrong, "oracle", theta=THETA.tolist(), lags=(0,)).weighted
    right = replayed(log, "oracle", theta=THETA.tolist(), lags=(0,)).weighted
    assert isinstance(right, Interval)


def test_the_value_of_an_agent_that_explores_is_not_that_of_its_greedy_part():
    """With epsilon 0.5 the other arms have a chance too: the truth is half the greedy value."""
    log = uniform_log(lags(4, k0=1.0), 12_000, seed=6)
    found = replayed(log, "anytime", horizon=4, lags=(0,), epsilon=0.5).weighted
    late = 0.5 * best_value()  # but for the first rounds, in which little is known
    assert found.low - 0.02 < late < found.high + 0.02
    assert found.high - found.low < 0.1


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("anytime", {"epsilon": 0.3}),
        ("anytime", {}),
        ("ad_lasso", {}),
        ("lin_ucb", {}),
        ("oracle", {"theta": [1.0, 0.0, 0.0]}),
    ],
)
def test_probabilities_are_those_of_the_choices(name, options):
    agent = make_agent(name, dim=DIM, horizon=12, **options)
    contexts = np.array([[1.0, 0, 0], [1.0, 1, 0], [0.2, 1, 1], [-1, 0, 0]])
    counts = np.zeros(4)
    for seed in range(3000):
        draw = Draw(seed, "", 5)
        ranking = agent.ranking(contexts, draw)
        chances = agent.probabilities(ranking)
        choice = agent.choose_by(ranking, draw)
        assert choice.propensity == pytest.approx(chances[choice.arm])
        counts[choice.arm] += 1
    assert chances.sum() == pytest.approx(1)
    np.testing.assert_allclose(counts / 3000, chances, atol=0.035)


@pytest.mark.slow
def test_value_intervals_cover():
    """Few logs here; `lhb bench coverage` takes 200."""
    rows = coverage.run(20, 1000, ["ad_lasso, lag 0", "propensities 1"])
    by = {(row["case"], row["value"]): row for row in rows}
    for kind in ("weighted", "replay", "robust"):
        assert by["ad_lasso, log of propensities 1", kind]["intervals"] == 0
        assert by["ad_lasso, lag 0", kind]["intervals"] == 20
        assert by["ad_lasso, lag 0", kind]["coverage"] >= 0.85


def test_predictions_include_the_baseline():
    """A baseline of 5 that the estimate knows of is no error."""
    log = uniform_log(lags(12, k2=1.0), 1000)
    log.rewards[:] += 5
    found = replayed(log, fit_intercept=True)
    assert found.error.value < 0.03
    assert found.skill.low > 0.7


@pytest.mark.parametrize("size", [100, *repeats(None)])
def test_covariates_are_learned_and_expected(size):
    """Told of what moves rewards beside arms, the agent predicts it; untold it cannot."""
    log = uniform_log(lags(6, k1=0.6, k4=0.4), 600, noise=0.05)
    rng, rounds = np.random.default_rng(3), np.arange(1, 601)
    rain = rng.uniform(-1, 1, (600, 1))
    rewards = log.rewards + 2.0 * rain[:, 0] + np.sin(2 * np.pi * rounds / 24)
    log = replace(log, rewards=rewards, covariates=rain)
    season = {"seasonality": [{"period": 24}], "profiles": "shared"}
    told = replayed(log, "anytime", 6, size=size, covariates=["rain"], **season)
    assert told.estimate.effects["values"][0] == pytest.approx(2.0, abs=0.05)
    assert told.skill.low > 0.9
    untold = replayed(log, "anytime", 6, size=size, **season)
    assert untold.skill.high < 0.6


def test_predictions_have_the_levels_of_trajectories():
    """Levels are most of the variance; a fit knows those of the rounds that it has read."""
    rng = np.random.default_rng(3)
    n_users, n_rounds = 30, 24
    levels = rng.normal(0.0, 5.0, n_users)
    keys = np.tile(np.arange(n_users), n_rounds)
    selected = rng.normal(size=(len(keys), DIM))
    rewards = levels[keys] + selected @ THETA + 0.1 * rng.normal(size=len(keys))
    names = np.array([f"user {key}" for key in keys], dtype=object)
    log = Chunk(selected, rewards, trajectories=names)
    told = replayed(log, "anytime", 3, levels=True, profiles="shared")
    untold = replayed(log, "anytime", 3, profiles="shared")
    assert told.skill.low > 0.9
    assert untold.skill.high < 0.2


@pytest.mark.slow
def test_predictions_and_choices_have_the_responses_of_trajectories():
    """Users want different things: who is told so predicts better, and would earn more."""
    rng = np.random.default_rng(3)
    n_users, n_rounds = 30, 24
    thetas = rng.normal(size=(n_users, DIM))
    keys = np.tile(np.arange(n_users), n_rounds)
    contexts = rng.normal(size=(len(keys), K, DIM))
    arms = rng.integers(K, size=len(keys))
    selected = contexts[np.arange(len(keys)), arms]
    rewards = np.einsum("ni,ni->n", selected, THETA / 2 + thetas[keys])
    rewards += 0.1 * rng.normal(size=len(keys))
    names = np.array([f"user {key}" for key in keys], dtype=object)
    chances = np.full(len(keys), 1 / K)
    log = Chunk(selected, rewards, contexts, arms, chances, trajectories=names)
    told = replayed(log, "anytime", 1, lags=[0], own=True)
    untold = replayed(log, "anytime", 1, lags=[0])
    assert told.skill.low > untold.skill.high
    assert told.robust.low > untold.robust.high
