"""Products of features that fits find: from the next fit on they count in scores."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.anytime import MOST_PRODUCTS
from lhb_engine.design.products import widened
from lhb_engine.estimate import Estimate
from lhb_engine.findings.finding import Finding
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


def curved(*features):
    """What a check says of a product that counts from the next fit on."""
    return Finding("scores_curved", "", features=features, counted=True).to_json()


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


def test_a_product_that_is_found_changes_no_score_until_a_fit_has_counted_it():
    agent = agent_of()
    estimate = agent.checked_fit(over(bent(), 200))
    assert [one["features"] for one in estimate.findings if one["counted"]] == [[0, 1]]
    assert estimate.products == ()
    # straight scores are wrong there, and draws of straight scores do not know by how much
    assert (estimate.gain, estimate.intervals, estimate.totals) == (None, None, None)
    assert "do not count" in (estimate.no_gain or "")
    assert estimate.in_doubt
    agent.install(estimate)
    assert agent.products == ((0, 1),)
    contexts = np.random.default_rng(1).uniform(-1.0, 1.0, (5, DIM))
    plain = agent_of()
    plain.theta = estimate.theta
    np.testing.assert_array_equal(agent.scores(contexts), plain.scores(contexts))
    draws = [Draw(1, "", 300 + i) for i in range(2)]
    assert agent.choose(contexts, draws[0]).scores.tolist() == agent.scores(contexts).tolist()

    after = agent.checked_fit(over(bent(), 203))
    assert after.products == ((0, 1),)
    assert after.theta @ THETA / np.linalg.norm(THETA) > 0.99
    assert [one["code"] for one in after.findings] == []
    agent.install(after)
    expected = widened(contexts, ((0, 1),)) @ after.theta
    np.testing.assert_allclose(agent.scores(contexts), expected, rtol=1e-12)
    both = agent.choose_block(np.stack([contexts, contexts[::-1]]), draws)
    assert both.tolist() == [agent.scores(one).argmax() for one in (contexts, contexts[::-1])]


def test_a_check_alone_makes_the_next_fit_a_whole_one():
    """A young direction stays where it predicts well, but for products that no fit knows."""
    agent = taught(adopts=False)
    agent.prediction = replace(agent.prediction, has_sets=True, noise=1.0)
    checked = agent.fit(over(bent(), 230))
    assert checked.status == "zero"
    agent.install(replace(checked, findings=[curved(0, 1)]))
    found = agent.fit(over(bent(), 233))
    assert (found.status, found.products) == ("ok", ((0, 1),))


def test_a_state_with_products_is_restored():
    agent = taught()
    agent.install(agent.fit(over(bent(), 203)))
    agent.install(replace(agent.fit(over(bent(), 300)), findings=[curved(2)]))
    assert (len(agent.theta), agent.products) == (DIM + 1, ((0, 1), (2, 2)))
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


def test_an_estimate_with_products_is_restored():
    agent = taught()
    estimate = agent.fit(over(bent(), 203))
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
    [finding] = agent.checked_fit(past).findings
    assert not finding["counted"]
    assert "Make a copy" in finding["message"]


@pytest.mark.parametrize(("horizon", "room"), [(6, MOST_PRODUCTS), (200, 2), (333, 0), (400, 10)])
def test_there_is_room_for_as_many_products_as_unknowns_are_affordable(horizon, room):
    """From rows, at more unknowns than moments pay for, products cost little."""
    agent = make_agent("anytime", dim=DIM, horizon=horizon)
    assert agent._room == room
    agent.products = ((0, 0),)
    assert agent._room == max(0, room - 1)


@pytest.mark.parametrize("zero_start", [True, False])
def test_an_agent_that_counts_fewer_products_predicts_without_their_effect(zero_start):
    agent = taught(zero_start=zero_start)
    agent.install(replace(agent.fit(over(bent(), 203)), findings=[curved(2)]))
    assert agent.counting(agent.fitted_dim) is agent
    fewer = agent.counting(agent.fitted_dim - 1)
    assert (fewer.products, fewer.fitted_dim) == (((0, 1),), DIM + 1 + (not zero_start))
    assert len(fewer.prediction.theta) == fewer.fitted_dim
    none = agent.counting(agent.fitted_dim - 2)
    assert (none.products, none.theta.tolist()) == ((), agent.theta[:DIM].tolist())
    assert {len(row) for form in none.prediction.forms.values() for row in form["profiles"]} == {
        none.fitted_dim
    }
    assert none.fit(over(bent(), 260)).theta.shape == (DIM,)


class IdealPoint(LongHorizonEnvironment):
    """An arm pays less, the further it is from one point."""

    def signals(self, contexts, first=1):
        return -((contexts - 0.3) ** 2).sum(axis=-1)


def test_choices_earn_more_where_squares_count():
    """A session that adopts nothing goes on to choose extremes."""
    world = IdealPoint.draw(dim=2, horizon=8, n_arms=10, noise=0.1, sparsity=2, seed=4)

    def regret(**options):
        agent = make_agent("anytime", dim=2, horizon=8, **options)
        run_fit = type(agent).checked_fit
        return simulate(agent, world, n_rounds=300, seed=4, run_fit=run_fit)

    straight, found = regret(adopts=False), regret()
    assert {(0, 0), (1, 1)} <= {*found.agent.products}
    assert found.regret[-1] < 0.6 * straight.regret[-1]
    assert found.regret[-1] - found.regret[150] < 0.1 * (straight.regret[-1] - straight.regret[150])
