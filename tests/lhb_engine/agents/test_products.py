"""Products of features that a fit's checks find count in the scores of that fit."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.anytime import MOST_PRODUCTS
from lhb_engine.design.products import widened
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.randomness import Draw
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate

DIM, HORIZON = 3, 6
THETA = np.array([0.6, 0.0, 0.5, 0.62])  # of three features, and of the product of the first two


def bent(n=400, seed=0):
    """A history of random choices, in which the first two features work together."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1.0, 1.0, (n, DIM))
    scores = widened(contexts, ((0, 1),)) @ THETA
    rewards = np.convolve(scores, [0.0, 0.5, 0.5])[:n] + 0.1 * rng.standard_normal(n)
    part = Trajectory(contexts, Measurements.single(np.arange(1, n + 1), rewards))
    return History(DIM, {"": part})


def over(past, n):
    return past.over(FitWindow(1, 1, n, HORIZON, n))


def agent_of(**options):
    return make_agent("anytime", dim=DIM, horizon=HORIZON, **options)


def taught(n=200, **options):
    """An agent after a checked fit of rows in which two features work together."""
    agent = agent_of(**options)
    agent.install(agent.checked_fit(over(bent(), n)))
    return agent


def test_products_stand_after_the_features_and_only_those_that_are_numbers_count():
    contexts = np.array([[2.0, -3.0, 1e200], [0.5, 0.0, -1.0]])
    products = ((0, 1), (1, 1), (2, 2))
    expected = [[*contexts[0], -6.0, 9.0, 0.0], [*contexts[1], 0.0, 0.0, 1.0]]
    np.testing.assert_array_equal(widened(contexts, products), expected)
    np.testing.assert_array_equal(widened(contexts[None], products), [expected])
    assert widened(contexts, ()) is contexts


def test_a_product_that_is_found_counts_in_the_scores_of_that_fit():
    agent = agent_of()
    estimate = agent.checked_fit(over(bent(), 200))
    assert agent.state() == agent_of().state()
    assert (estimate.products, estimate.findings) == (((0, 1),), [])
    assert estimate.theta @ THETA / np.linalg.norm(THETA) > 0.99
    assert not estimate.in_doubt
    agent.install(estimate)
    assert agent.products == ((0, 1),)
    contexts = np.random.default_rng(1).uniform(-1.0, 1.0, (5, DIM))
    draws = [Draw(1, "", 300 + i) for i in range(2)]
    assert agent.choose(contexts, draws[0]).scores.tolist() == agent.scores(contexts).tolist()
    expected = widened(contexts, ((0, 1),)) @ estimate.theta
    np.testing.assert_allclose(agent.scores(contexts), expected, rtol=1e-12)
    both = agent.choose_many(np.stack([contexts, contexts[::-1]]), draws)
    assert both.tolist() == [agent.scores(one).argmax() for one in (contexts, contexts[::-1])]


def test_a_fit_that_only_checks_is_a_whole_one_where_products_are_found():
    """A young direction stays where it predicts well, but for products that no fit knows."""
    agent = taught(adopts=False)
    agent.prediction = replace(agent.prediction, has_sets=True, noise=1.0)
    past = over(bent(), 230)
    assert agent.fit(past).status == "zero"
    curved = agent.counting(((0, 1),)).fit(past)
    assert (curved.status, curved.products) == ("ok", ((0, 1),))


def test_products_that_are_refused_change_no_score_and_the_next_fit_counts_them():
    agent = taught(adopts=False)
    contexts = np.random.default_rng(1).uniform(-1.0, 1.0, (5, DIM))
    before = agent.scores(contexts)
    refused = agent.counting(((0, 1),)).fit(over(bent(), 230)).without_direction("zero", "refused")
    assert refused.products == ((0, 1),)
    agent.install(refused)
    np.testing.assert_allclose(agent.scores(contexts), before, rtol=1e-15)
    assert agent.prediction.theta.tolist() == agent.theta.tolist() == [*agent.theta[:DIM], 0.0]
    found = agent.fit(over(bent(), 233))
    assert (found.status, found.products) == ("ok", ((0, 1),))
    assert found.theta[DIM] > 0.5


def test_candidates_take_further_products_with_the_theta():
    agent = taught(adopts=False)
    agent.candidates = np.array([agent.theta, -agent.theta])
    contexts = np.random.default_rng(1).uniform(-1.0, 1.0, (5, DIM))
    more, draw = agent.counting(((0, 1),)), Draw(1, "", 2)
    np.testing.assert_allclose(more.ranking(contexts, draw), -agent.scores(contexts), rtol=1e-15)
    assert agent.candidates.shape == (2, DIM)


def test_a_state_with_products_is_restored():
    agent = taught().counting(((0, 1), (2, 2)))
    assert (len(agent.theta), agent.products) == (DIM + 2, ((0, 1), (2, 2)))
    state = json.loads(json.dumps(agent.state()))
    again = type(agent).from_state(DIM, HORIZON, agent.options, state)
    assert again.state() == agent.state()
    contexts = np.random.default_rng(1).uniform(-1.0, 1.0, (5, DIM))
    np.testing.assert_array_equal(again.scores(contexts), agent.scores(contexts))
    one, other = (a.fit(over(bent(), 320)).to_json() for a in (agent, again))
    assert one == other
    del state["products"]  # as of a release before
    state["theta"] = state["theta"][:DIM]
    assert type(agent).from_state(DIM, HORIZON, agent.options, state).products == ()


def test_an_agent_with_own_responses_counts_none():
    agent = agent_of(own=True)
    assert agent.counting(((0, 1),)) is agent


def test_an_estimate_with_products_is_restored():
    agent = taught()
    estimate = agent.fit(over(bent(), 203))
    assert estimate.products == ((0, 1),)
    again = Estimate.from_json(json.loads(json.dumps(estimate.to_json())))
    assert again.products == ((0, 1),)
    assert again.to_json() == estimate.to_json()


@pytest.mark.parametrize(
    "options",
    [{"adopts": False}, {"profiles": [[0, 1]]}, {"own": True}],
    ids=lambda options: next(iter(options)),
)
def test_where_products_have_no_place_none_counts(options):
    assert taught(**options).products == ()


def test_where_rows_cannot_be_read_again_a_copy_is_advised():
    agent = agent_of()
    past = replace(over(bent(), 200), rereads=False)
    estimate = agent.checked_fit(past)
    [finding] = estimate.findings
    assert (finding["code"], finding["features"]) == ("scores_curved", [0, 1])
    assert "Make a copy" in finding["message"]
    # straight scores are wrong there, and draws of straight scores do not know by how much
    assert (estimate.gain, estimate.intervals, estimate.totals) == (None, None, None)
    assert "do not count" in (estimate.no_gain or "")
    assert estimate.in_doubt


@pytest.mark.parametrize(("horizon", "room"), [(6, MOST_PRODUCTS), (200, 2), (333, 0), (400, 10)])
def test_there_is_room_for_as_many_products_as_unknowns_are_affordable(horizon, room):
    """From rows, at more unknowns than moments pay for, products cost little."""
    agent, past = make_agent("anytime", dim=DIM, horizon=horizon), over(bent(), 200)
    assert agent._room(past) == room
    agent.products = ((0, 0),)
    assert agent._room(past) == max(0, room - 1)


@pytest.mark.parametrize("zero_start", [True, False])
def test_an_agent_that_counts_fewer_products_predicts_without_their_effect(zero_start):
    agent = taught(zero_start=zero_start).counting(((0, 1), (2, 2)))
    assert agent.counting(agent.products) is agent
    fewer = agent.counting(agent.products[:1])
    assert (fewer.products, fewer.fitted_dim) == (((0, 1),), DIM + 1 + (not zero_start))
    assert len(fewer.prediction.theta) == fewer.fitted_dim
    none = agent.counting(())
    assert (none.products, none.theta.tolist()) == ((), agent.theta[:DIM].tolist())
    assert {len(row) for form in none.prediction.forms.values() for row in form["profiles"]} == {
        none.fitted_dim
    }
    assert none.fit(over(bent(), 203)).theta.shape == (DIM,)


class IdealPoint(LongHorizonEnvironment):
    """An arm pays less, the further it is from one point."""

    def signals(self, contexts, first=1):
        return -((contexts - 0.3) ** 2).sum(axis=-1)


@pytest.mark.slow
def test_choices_earn_more_where_squares_count():
    """A session that adopts nothing goes on to choose extremes."""
    world = IdealPoint.draw(dim=2, horizon=8, n_arms=10, noise=0.1, sparsity=2, seed=4)

    def regret(**options):
        agent = make_agent("anytime", dim=2, horizon=8, **options)
        run_fit = type(agent).checked_fit
        return simulate(agent, world, n_rounds=200, seed=4, run_fit=run_fit)

    straight, found = regret(adopts=False), regret()
    assert {(0, 0), (1, 1)} <= {*found.agent.products}
    assert found.regret[-1] < 0.6 * straight.regret[-1]
    assert found.regret[-1] - found.regret[100] < 0.1 * (straight.regret[-1] - straight.regret[100])
