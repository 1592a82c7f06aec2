"""Doubly robust values: by hand, under a wrong estimate, and over lags where products fail."""

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.evaluation.batch_ratio import Interval, Refusal
from lhb_engine.evaluation.log_replay import NO_ARM, Chunk, LogReplay
from lhb_engine.simulation.environment import LongHorizonEnvironment
from tests.lhb_engine.evaluation.test_log_replay import (
    DIM,
    THETA,
    K,
    best_value,
    lags,
    replayed,
    uniform_log,
)

ORACLE = {"name": "oracle", "horizon": 6, "theta": THETA.tolist()}


def with_users(log, n_users, seed=0):
    keys = np.random.default_rng(seed).integers(n_users, size=len(log)).astype(str)
    named = (log.contexts, log.arms, log.propensities, keys.astype(object))
    return Chunk(log.selected, log.rewards, *named)


def test_without_an_estimate_it_is_the_rewards_weighted_by_added_ratios():
    """By hand: 1 + sum of (ratio - 1) over the lags; ratios before the first round are 1."""
    weights = lags(6, k0=0.5, k2=0.5)
    log = uniform_log(weights, 600, seed=4)
    found = replayed(log, **ORACLE, lags=(0, 2))  # an oracle makes no estimate
    best = (log.contexts @ THETA).argmax(axis=1)
    ratio = K * (log.arms == best)
    before = np.concatenate([[1.0, 1.0], ratio[:-2]])
    terms = (1 + (ratio - 1) + (before - 1)) * log.rewards
    assert found.robust.value == pytest.approx(terms.mean())
    assert found.gain.value == pytest.approx(terms.mean() - log.rewards.mean())
    assert found.logged.value == pytest.approx(log.rewards.mean())
    assert found.robust.effective == pytest.approx(
        (ratio + before - 1).sum() ** 2 / ((ratio + before - 1) ** 2).sum()
    )


def test_with_an_estimate_it_is_corrected_by_what_that_expected():
    """By hand, with the estimate that each round knew."""
    log = uniform_log(lags(12, k1=0.6, k4=0.4), 400, seed=2)
    agent = make_agent("ad_lasso", dim=DIM, horizon=12)
    replay = LogReplay(agent, lags=(1, 4))
    terms, ratio, change = [], np.ones(400), np.zeros((400, DIM))
    for t in range(400):
        estimate, mean = replay.estimate, replay._mean
        scores = agent.scores(log.contexts[t])
        chances = (scores == scores.max()) / (scores == scores.max()).sum()
        ratio[t] = chances[log.arms[t]] * K
        change[t] = chances @ log.contexts[t] - log.selected[t]
        guess, moved, added = mean, 0.0, 1.0
        if estimate is not None:
            w = estimate.lag_weights
            past = log.selected[: t + 1][::-1][: len(w)] @ estimate.theta
            guess = past @ w[: len(past)] + (estimate.intercept or 0.0)
        for lag in (1, 4):
            if t >= lag:
                added += ratio[t - lag] - 1
                if estimate is not None and lag < len(w):
                    moved += w[lag] * (change[t - lag] @ estimate.theta)
        terms.append(guess + moved + added * (log.rewards[t] - guess))
        replay.feed(log.part(t, t + 1))
    assert replay.result().robust.value == pytest.approx(np.mean(terms))


@pytest.mark.parametrize("kind", ["one", "users"])
def test_it_finds_the_value_where_six_lags_pay(kind):
    """Products of six ratios leave 20000 / 3^6 rounds' worth; sums leave 20000 / 13."""
    weights = lags(6, **{f"k{lag}": 0.4 for lag in range(6)})
    log = uniform_log(weights, 20_000, seed=4)
    if kind == "users":
        env = LongHorizonEnvironment(THETA, weights, n_arms=K, noise=0.1, seed=4)
        log = with_users(log, 50)
        signals = env.signals(log.selected)
        for user in np.unique(log.trajectories):
            own = log.trajectories == user
            log.rewards[own] = np.convolve(signals[own], weights)[: int(own.sum())]
    found = replayed(log, **ORACLE, lags=tuple(range(6)))
    assert found.weighted.effective < 40 if isinstance(found.weighted, Interval) else True
    deviation = (found.robust.high - found.robust.low) / 2 / 1.96
    assert abs(found.robust.value - 2.4 * best_value()) < 4 * deviation
    assert deviation < 0.05
    assert found.robust.effective == pytest.approx(20_000 / 13, rel=0.25)


def test_a_good_estimate_makes_it_narrow():
    log = uniform_log(lags(6, k0=0.5, k2=0.5), 12_000, seed=4)
    found = replayed(log, "ad_lasso", horizon=6, lags=(0, 2))
    without = replayed(log, **ORACLE, lags=(0, 2)).robust
    assert found.robust.high - found.robust.low < 0.5 * (without.high - without.low)
    best = (log.contexts @ THETA).max(axis=1).mean()  # of this log's own contexts
    assert abs(found.robust.value - best) < 0.01
    assert found.gain.low > 0.4


def test_a_wrong_estimate_does_not_make_it_wrong():
    """Rewards that no theta explains: the estimate alone would be far off."""
    log = uniform_log(lags(6, k0=1.0), 6000, seed=4)

    def worth(contexts):
        return contexts @ THETA + 3.0 * np.abs(contexts[..., 2])

    log.rewards[:] = worth(log.selected)
    agent = make_agent("ad_lasso", dim=DIM, horizon=6)
    replay = LogReplay(agent, lags=(0,))
    truth, alone, start = [], [], 0
    while start < len(log):
        window = agent.next_fit(start)
        stop = len(log) if window is None else min(len(log), window.due)
        for contexts in log.contexts[start:stop]:
            chances = agent.probabilities(agent.scores(contexts))
            truth.append(chances @ worth(contexts))
            if replay.estimate is not None:
                alone.append(chances @ contexts @ replay.estimate.theta)
        replay.feed(log.part(start, stop))
        start = stop
    found = replay.result().robust
    deviation = (found.high - found.low) / 2 / 1.96
    assert abs(found.value - np.mean(truth)) < 3 * deviation < 0.2
    assert abs(np.mean(alone) - np.mean(truth)) > 0.8


def test_how_a_log_of_users_is_cut_changes_nothing():
    log = with_users(uniform_log(lags(12, k0=0.7, k5=0.3), 300), 7)
    log.rewards[np.random.default_rng(1).random(300) < 0.2] = np.nan
    whole = replayed(log, lags=(0, 5))
    for size in (1, 13):
        cut = replayed(log, lags=(0, 5), size=size)
        for name in ("error", "robust", "gain", "weighted", "logged"):
            one, other = getattr(whole, name), getattr(cut, name)
            assert (one.value, one.low) == pytest.approx((other.value, other.low), rel=1e-9)


def test_lags_do_not_reach_across_trajectories():
    """Two users in turn: of each one, the agent's log is as if the other were not there."""
    log = uniform_log(lags(6, k1=1.0), 400, seed=3)
    names = np.array(["a", "b"] * 200, dtype=object)
    both = Chunk(log.selected, log.rewards, log.contexts, log.arms, log.propensities, names)
    apart = [both.rows(np.flatnonzero(names == name)) for name in ("a", "b")]
    one_by_one = Chunk(
        *(np.concatenate([getattr(part, field) for part in apart]) for field in FIELDS)
    )
    for name in ("robust", "weighted"):
        mixed = getattr(replayed(both, **ORACLE, lags=(1,)), name)
        sorted_ = getattr(replayed(one_by_one, **ORACLE, lags=(1,)), name)
        assert mixed.value == pytest.approx(sorted_.value)


FIELDS = ("selected", "rewards", "contexts", "arms", "propensities", "trajectories")


def test_a_learner_sees_the_trajectory_of_each_reward():
    log = with_users(uniform_log(lags(6, k0=1.0), 200), 5)
    found = replayed(log, "lin_ucb", horizon=6, lags=(0,))
    assert found.robust.value > found.logged.value


def test_rounds_without_action_or_propensity():
    """No action: none under any policy. No propensity: what hangs on that round is left out."""
    log = uniform_log(lags(6, k0=0.5, k2=0.5), 2000, seed=4)
    arms, logged = log.arms.copy(), log.propensities.copy()
    arms[::10] = NO_ARM
    logged[::10] = np.nan
    selected = np.where((arms == NO_ARM)[:, None], 0.0, log.selected)
    idle = replayed(Chunk(selected, log.rewards, log.contexts, arms, logged), **ORACLE, lags=(0, 2))
    assert idle.robust.effective > 300
    forced = replayed(
        Chunk(log.selected, log.rewards, log.contexts, log.arms, logged), **ORACLE, lags=(0, 2)
    )
    out = np.zeros(2000, dtype=bool)
    out[::10] = out[2::10] = True
    best = (log.contexts @ THETA).argmax(axis=1)
    ratio = K * (log.arms == best)
    before = np.concatenate([[1.0, 1.0], ratio[:-2]])
    terms = ((ratio + before - 1) * log.rewards)[~out]
    assert forced.robust.value == pytest.approx(terms.mean())


def test_agents_are_compared_on_the_same_rounds():
    log = uniform_log(lags(6, k0=1.0), 3000, seed=5)
    replays = {}
    for name, options in (("oracle", {"theta": THETA.tolist()}), ("uniform", {})):
        agent = make_agent(name, dim=DIM, horizon=6, **options)
        replays[name] = LogReplay(agent, lags=(0,))
        replays[name].feed(log)
    better = replays["oracle"].robust.over(replays["uniform"].robust)
    values = [replays[name].result().robust for name in ("oracle", "uniform")]
    assert better.value == pytest.approx(values[0].value - values[1].value)
    assert better.low > 0.3
    worse = replays["uniform"].robust.over(replays["oracle"].robust)
    assert (worse.value, worse.low) == pytest.approx((-better.value, -better.high))


def test_refusals_say_why():
    log = uniform_log(lags(12, k0=1.0), 400)

    def robust(log, lags=(0,)):
        result = replayed(log, "oracle", theta=THETA.tolist(), lags=lags)
        assert isinstance(result.robust, Refusal)
        assert result.gain == result.robust
        return result.robust

    assert "propensities" in robust(Chunk(log.selected, log.rewards, log.contexts, log.arms))
    assert "contexts of all arms" in robust(Chunk(log.selected, log.rewards))
    assert "no lag" in robust(log, ())
    greedy = Chunk(log.selected, log.rewards, log.contexts, log.arms, np.ones(400))
    assert "propensity 1" in robust(greedy)
    wrong = Chunk(log.selected, log.rewards, log.contexts, log.arms, np.full(400, 0.6))
    assert "not 1" in robust(wrong)
    assert "effective sample size" in robust(log.part(0, 60))
