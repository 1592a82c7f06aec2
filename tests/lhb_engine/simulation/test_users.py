"""Worlds of many users: each has its own past, and its rewards come late, twice or never."""

from collections import Counter

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.base import Agent
from lhb_engine.estimate import Estimate
from lhb_engine.history import History
from lhb_engine.simulation.environment import LongHorizonEnvironment, OwnLags
from lhb_engine.simulation.play import Simulation, simulate, simulate_users
from lhb_engine.simulation.users import LENGTHS, Transport, UserEnvironment, Visits, user_lengths
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401


def world(seed: int = 0, *, horizon: int = 6, noise: float = 0.1) -> LongHorizonEnvironment:
    return LongHorizonEnvironment.draw(
        dim=3, horizon=horizon, n_arms=4, noise=noise, sparsity=3, seed=seed
    )


def users(n: int = 8, mean: int = 15, law: str = "geometric", spread: float = 0.0, seed: int = 0):
    return UserEnvironment(world(seed), Visits.draw(n, mean, law, seed=seed), spread=spread)


def test_visits_are_ordered_by_time_and_complete() -> None:
    visits = Visits.draw(20, 9, "uniform", arriving=3.0, seed=2)
    assert (np.diff(visits.at) > 0).all()
    for user in range(20):
        own = visits.round[visits.user == user]
        np.testing.assert_array_equal(own, np.arange(1, len(own) + 1))
        assert visits.lengths[user] == len(own) >= 1
    assert sorted(visits.place.tolist()) == list(range(len(visits)))
    assert (np.diff(visits.user) != 0).any(), "users take turns"


@pytest.mark.parametrize("law", LENGTHS)
def test_lengths_have_the_mean_and_the_law(law: str) -> None:
    drawn = user_lengths(law, 20, 40_000, np.random.default_rng(1))
    assert drawn.min() >= 1
    assert abs(drawn.mean() / 20 - 1) < 0.05
    longest = {"fixed": (20, 20), "uniform": (39, 39), "geometric": (120, 400)}
    low, high = longest.get(law, (500, 2000))
    assert low <= drawn.max() <= high


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_rewards_are_the_models_within_each_user(spread: float) -> None:
    """Checked against the definition, user by user and lag by lag."""
    env = users(spread=spread)
    played = simulate_users("anytime", env, seed=1)
    visits, weights = env.visits, env.world.weights
    contexts = env.contexts(1, len(visits))
    thetas = {}
    for user in np.unique(visits.user).tolist():
        rows = np.flatnonzero(visits.user == user)
        selected = played.selected[rows]
        np.testing.assert_array_equal(selected, contexts[rows, played.arms[rows]])
        signals = env.signals(contexts, 1)[rows, played.arms[rows]]
        thetas[user] = np.linalg.lstsq(selected, signals)[0] if len(rows) >= 3 else None
        for i, row in enumerate(rows):
            expected = sum(weights[k] * signals[i - k] for k in range(min(i + 1, len(weights))))
            noise = env.world.errors(int(row) + 1, int(row) + 1)[0]
            assert played.rewards[row] == pytest.approx(expected + noise, abs=1e-12)
    known = [theta for theta in thetas.values() if theta is not None]
    for theta in known:
        assert np.linalg.norm(theta) == pytest.approx(1.0)
        angle = float(np.arccos(min(1.0, theta @ env.world.theta)))
        assert (angle < 1e-6) == (spread == 0.0)


def test_features_pay_at_lags_of_their_own_within_each_user() -> None:
    """By the definition: what each feature of the user's earlier choices pays now."""
    own = OwnLags.draw(dim=3, horizon=6, n_arms=4, noise=0.1, sparsity=3, seed=0)
    env = UserEnvironment(own, Visits.draw(8, 15, "geometric", seed=0))
    played = simulate_users("uniform", env, seed=1)
    for user in np.unique(env.visits.user).tolist():
        rows = np.flatnonzero(env.visits.user == user)
        for i, row in enumerate(rows):
            lags = np.arange(min(i + 1, own.horizon))
            expected = np.sum(own.profiles[lags] * played.selected[rows[i - lags]])
            noise = own.errors(int(row) + 1, int(row) + 1)[0]
            assert played.rewards[row] == pytest.approx(expected + noise, abs=1e-12)


def test_one_user_is_the_single_trajectory() -> None:
    """The same arms, rewards, regret and estimates as `simulate`, to the bit."""
    alone = simulate("anytime", world(3), n_rounds=120, seed=5)
    env = UserEnvironment(world(3), Visits.draw(1, 120))
    same = simulate_users("anytime", env, seed=5)
    assert_equal(alone, same)


def test_a_user_alone_has_the_contexts_that_it_has_among_others() -> None:
    env = users()
    rows = np.flatnonzero(env.visits.user == 2)
    only = env.only([2])
    assert len(only.visits) == len(rows)
    np.testing.assert_array_equal(
        only.contexts(1, len(rows)), env.contexts(1, len(env.visits))[rows]
    )
    np.testing.assert_array_equal(only.errors(1, len(rows)), env.errors(1, len(env.visits))[rows])


def test_all_rewards_of_a_user_have_its_level() -> None:
    visits = Visits.draw(400, 3, seed=1)
    plain, levelled = (UserEnvironment(world(1), visits, levels=sd) for sd in (0.0, 2.0))
    added = levelled.errors(1, len(visits)) - plain.errors(1, len(visits))
    levels = np.array([added[visits.user == user] for user in range(400)])
    assert np.ptp(levels, axis=1).max() < 1e-12
    assert 1.8 < levels[:, 0].std() < 2.2
    one = levelled.only([7])
    np.testing.assert_allclose(one.errors(1, 3), levelled.errors(1, len(visits))[visits.user == 7])


def test_a_doubled_reward_is_learned_from_once() -> None:
    plain = simulate_users("lin_ucb", users(), seed=1)
    doubled = simulate_users("lin_ucb", users(), seed=1, transport=Transport(doubled=1.0))
    assert_equal(plain, doubled)


def test_a_fit_knows_what_has_come_in_by_the_next_round() -> None:
    env, seen = users(seed=4), []
    transport = Transport(delay=5.0, lost=0.2, doubled=0.3, reordered=0.3)
    deliveries = transport.deliveries(env.visits.at, env.world.seed)

    rounds = zip(env.visits.user.tolist(), env.visits.round.tolist(), strict=True)
    place = {(env.key(user), round): i for i, (user, round) in enumerate(rounds)}

    def fit(agent: Agent, history: History) -> Estimate:
        assert history.window is not None
        due = history.window.due
        next_at = env.visits.at[due] if due < len(env.visits) else np.inf
        come = set(deliveries.reward[deliveries.at < next_at].tolist())
        known = {
            place[key, round]
            for key, part in history.trajectories.items()
            for round in part.measurements.first.tolist()
        }
        assert known == come
        for key, part in history.trajectories.items():
            for round, position in enumerate(part.numbering.tolist(), part.first_round):
                assert place[key, round] == position - 1
        seen.append(len(known) / due)
        return agent.fit(history)

    simulate_users("anytime", env, seed=4, transport=transport, run_fit=fit)
    assert len(seen) > 5
    assert max(seen) < 1.0


def test_transport_loses_doubles_delays_and_reorders_at_its_rates() -> None:
    at = np.arange(20_000, dtype=float)
    assert list(Transport().deliveries(at, 0).reward) == list(range(20_000))
    found = Transport(delay=3.0, lost=0.1, doubled=0.2).deliveries(at, 0)
    copies = Counter(found.reward.tolist())
    assert len(copies) / len(at) == pytest.approx(0.9, abs=0.01)
    assert np.mean([n == 2 for n in copies.values()]) == pytest.approx(0.2, abs=0.01)
    assert (np.diff(found.at) >= 0).all()
    late = found.at - at[found.reward]
    assert late.min() >= 0
    assert late.mean() == pytest.approx(3.0, rel=0.05)
    swapped = Transport(reordered=0.1).deliveries(at, 0)
    assert np.mean(np.diff(swapped.reward) < 0) == pytest.approx(0.1, abs=0.02)
    assert (swapped.at >= at[swapped.reward]).all()


@pytest.mark.parametrize(
    "wrong", [{"delay": -1.0}, {"lost": 1.1}, {"doubled": -0.1}, {"reordered": float("nan")}]
)
def test_impossible_transport_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Transport(**wrong)


def test_impossible_users_are_refused() -> None:
    with pytest.raises(ValueError, match="none of fixed"):
        Visits.draw(3, 5, "normal")
    for wrong in ((0, 5, 1.0), (3, 0, 1.0), (3, 5, 0.0)):
        with pytest.raises(ValueError, match=r"user"):
            Visits.draw(*wrong[:2], arriving=wrong[2])
    with pytest.raises(ValueError, match="spread"):
        users(spread=-0.1)
    with pytest.raises(ValueError, match="levels"):
        UserEnvironment(world(), Visits.draw(2, 3), levels=-0.1)


def test_many_short_users_teach_what_one_long_user_does() -> None:
    """60 users of 20 rounds: theta is found, though no user stays longer than twice the horizon."""
    env = UserEnvironment(world(7), Visits.draw(60, 20, seed=7))
    agent = make_agent("anytime", dim=3, horizon=6)
    played = simulate_users(agent, env, seed=7)
    assert agent.theta is not None
    assert float(agent.theta @ env.world.theta) > 0.99
    later = played.regret[-1] - played.regret[len(played.regret) // 2]
    assert later < 0.1 * simulate_users("uniform", env, seed=7).regret[-1] / 2


def assert_equal(one: Simulation, other: Simulation) -> None:
    for name in ("arms", "rewards", "selected", "regret"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert [e.to_json() for e in one.estimates] == [e.to_json() for e in other.estimates]
