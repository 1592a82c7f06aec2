"""Playing: whole epochs equal single rounds, and regret is what the best arms would have paid."""

import numpy as np
import pytest

from lhb_engine.agents import ALGORITHMS, make_agent
from lhb_engine.agents.uniform import Uniform
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import CHUNK_ROUNDS, simulate
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401


def world(**changed: object) -> LongHorizonEnvironment:
    settings = {"dim": 3, "horizon": 10, "n_arms": 4, "sparsity": 3, "seed": 8}
    return LongHorizonEnvironment.draw(**(settings | changed))


def by_hand(algorithm, env, n_rounds, seed, **options):
    """A round at a time, in Python numbers; the history is rebuilt from lists at each fit."""
    agent = make_agent(algorithm, dim=env.dim, horizon=env.horizon, **options)
    arms, selected, rewards, estimates = [], [], [], []
    for t in range(1, n_rounds + 1):
        window = agent.next_fit(t - 1)
        contexts = env.contexts(t, t)[0]
        arms.append(agent.choose(contexts, Draw(seed, "", t)).arm)
        selected.append(contexts[arms[-1]])
        rewards.append(env.rewards(env.signals(np.array(selected)), t)[0])
        measured = Measurements.single(np.arange(1, t + 1), np.array(rewards))
        history = History(env.dim, {"": Trajectory(np.array(selected), measured)})
        agent.observe(history, "", t, rewards[-1])
        if window is not None and window.due == t:
            estimates.append(agent.fit(history.over(window)))
            agent.install(estimates[-1])
    return np.array(arms), np.array(rewards), estimates


def same(estimates, others):
    assert len(estimates) == len(others)
    for one, other in zip(estimates, others, strict=True):
        assert one.to_json() == other.to_json()


def test_uniform_played_at_once_is_uniform_round_by_round():
    env = world()
    played = simulate("uniform", env, n_rounds=300, seed=5)
    arms, rewards, estimates = by_hand("uniform", env, 300, 5)
    assert np.array_equal(played.arms, arms)
    assert np.array_equal(played.rewards, rewards)
    same(played.estimates, estimates)


@pytest.mark.parametrize("algorithm", ["lin_ucb", "ucb_mp"])
def test_those_that_learn_from_each_reward_are_played_round_by_round(algorithm, monkeypatch):
    monkeypatch.setattr("lhb_engine.simulation.play.CHUNK_ROUNDS", 7)
    env = world()
    for n_rounds in (49, 50):  # the last chunk is whole, or one round
        played = simulate(algorithm, env, n_rounds=n_rounds, seed=5)
        arms, rewards, estimates = by_hand(algorithm, env, n_rounds, 5)
        assert np.array_equal(played.arms, arms)
        assert np.array_equal(played.rewards, rewards)
        same(played.estimates, estimates)


def test_an_epoch_longer_than_a_chunk_is_played_whole():
    env, n = world(), 2 * CHUNK_ROUNDS + 5
    played = simulate("uniform", env, n_rounds=n, seed=5)
    contexts, agent = env.contexts(1, n), make_agent("uniform", dim=env.dim, horizon=env.horizon)
    arms = agent.choose_many(contexts, [Draw(5, "", t) for t in range(1, n + 1)])
    selected = contexts[np.arange(n), arms]
    assert np.array_equal(played.arms, arms)
    assert np.array_equal(played.selected, selected)
    chosen = env.signals(contexts)[np.arange(n), arms]
    np.testing.assert_allclose(played.rewards, env.rewards(chosen, 1), rtol=1e-12)


def test_regret_by_brute_force():
    env = world(pattern="random")
    played = simulate("uniform", env, n_rounds=60, seed=1)
    total = 0.0
    for t in range(60):
        arms = [float(np.dot(x, env.theta)) for x in env.contexts(t + 1, t + 1)[0]]
        total += sum(env.weights) * (max(arms) - arms[played.arms[t]])
        assert played.regret[t] == pytest.approx(total, rel=1e-12)


def test_regret_is_what_better_actions_would_have_paid_in_all():
    """Without noise and with h silent rounds after, it is the difference of all rewards."""
    env = world(noise=0.0)
    played = simulate("uniform", env, n_rounds=50, seed=1)
    best = env.signals(env.contexts(1, 50)).max(axis=1)
    silence = np.zeros(env.horizon)
    chosen = env.signals(played.selected)
    lost = (
        env.rewards(np.concatenate([best, silence])).sum()
        - env.rewards(np.concatenate([chosen, silence])).sum()
    )
    assert played.regret[-1] == pytest.approx(lost, rel=1e-12)


def test_the_oracle_has_no_regret():
    env = world()
    played = simulate("oracle", env, n_rounds=200, seed=0, options={"theta": env.theta.tolist()})
    assert played.regret[-1] == 0
    assert played.estimates == []


def test_agents_meet_the_same_contexts_and_noise():
    env = world()
    oracle = simulate("oracle", env, n_rounds=80, seed=0, options={"theta": env.theta.tolist()})
    uniform = simulate("uniform", env, n_rounds=80, seed=0)
    for played in (oracle, uniform):
        assert np.array_equal(played.selected, env.contexts(1, 80)[np.arange(80), played.arms])
        errors = played.rewards - world(noise=0.0).rewards(env.signals(played.selected))
        if played is oracle:
            first_errors = errors
    assert np.allclose(errors, first_errors, rtol=0, atol=1e-15)


def test_fits_come_at_their_boundaries_with_their_windows_and_through_the_caller(monkeypatch):
    windows = [
        FitWindow(1, 3, 20, 10, 20),
        FitWindow(2, 30, 55, 10, 60),
        FitWindow(3, 1, 90, 2, 99),
    ]
    monkeypatch.setattr(
        Uniform, "next_fit", lambda _, n: next((w for w in windows if w.due > n), None)
    )
    seen = []

    def run_fit(agent, history):
        seen.append(history)
        part = history.trajectories[""]
        assert part.measurements.last[-1] == history.window.last
        return Estimate("zero", np.zeros(10))

    played = simulate("uniform", world(), n_rounds=60, seed=0, run_fit=run_fit)
    assert [history.window for history in seen] == windows[:2]
    assert [one.status for one in played.estimates] == ["zero", "zero"]
    assert np.array_equal(seen[1].trajectories[""].measurements.value, played.rewards[29:55])


class Mute(LongHorizonEnvironment):
    """A world whose rewards are noise, so that its truth shows in nothing an agent may see."""

    def rewards(self, signals, first=1):
        return super().rewards(np.zeros_like(signals), first)


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_only_those_that_declare_it_see_the_truth(algorithm):
    truths = [(np.eye(3)[i], np.eye(10)[i]) for i in range(2)]
    arms = []
    for theta, weights in truths:
        env = Mute(theta, weights, n_arms=4, noise=0.5, seed=8)
        options = {}
        if ALGORITHMS[algorithm].needs_truth:
            told = {"theta": theta.tolist(), "weights": weights.tolist()}
            known = ALGORITHMS[algorithm].options_type.__dataclass_fields__
            options = {name: value for name, value in told.items() if name in known}
        arms.append(simulate(algorithm, env, n_rounds=150, seed=0, options=options).arms)
    assert np.array_equal(*arms) != ALGORITHMS[algorithm].needs_truth


def test_regret_is_what_the_best_arms_would_have_paid_more():
    """Paid in rewards, in a world whose lag weights sum to 2.5 and not to 1."""
    weights = np.array([0.0, 1.5, 0.0, 1.0])
    env = LongHorizonEnvironment(np.array([0.6, 0.8]), weights, noise=0.0, seed=3)
    played = simulate("uniform", env, n_rounds=50, seed=1)
    contexts = env.contexts(1, 50)
    signals = env.signals(contexts)
    later = np.zeros(4)  # rounds without action, in which the last ones still pay
    best = env.rewards(np.concatenate([signals.max(axis=1), later])).sum()
    chosen = env.rewards(np.concatenate([signals[np.arange(50), played.arms], later])).sum()
    assert played.regret[-1] == pytest.approx(best - chosen)
