"""Trajectories with levels of their own: what `anytime` finds, says and decides."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import OptionError, make_agent
from lhb_engine.agents.anytime import Anytime
from lhb_engine.history import FitWindow, History
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate_users
from lhb_engine.simulation.users import UserEnvironment, Visits
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401
from tests.lhb_engine.played_histories import DIM, HORIZON, LAG_WEIGHTS, THETA, history

SPREAD = 3.0  # of the levels; the signal's is 0.44
KINDS = {
    "complete": {},
    "missing": {"keep": 0.7},
    "spans": {"spans": (1, 2)},
    "short": {"n": 8, "n_parts": 200},
}


def levelled(kind, seed=0):
    """A history whose trajectories have levels, drawn about 10."""
    past = history(**({"n": 20, "n_parts": 80, "noise": 0.1} | KINDS[kind]), seed=seed)
    drawn = 10.0 + SPREAD * np.random.default_rng(seed).standard_normal(len(past.trajectories))
    parts = {}
    for (key, part), level in zip(past.trajectories.items(), drawn, strict=True):
        m = part.measurements
        higher = replace(m, value=m.value + level * (m.last - m.first + 1))
        parts[key] = replace(part, measurements=higher)
    return replace(past, trajectories=parts), float(drawn.std(ddof=1))


def agent(**options):
    return make_agent("anytime", dim=DIM, horizon=HORIZON, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_levels_far_apart_hide_nothing(kind):
    past, spread = levelled(kind)
    estimate = agent(levels=True, profiles="shared").fit(past)
    assert estimate.status == "ok"
    assert estimate.theta @ THETA > 0.999
    assert set(estimate.active_lags) == {2, 7}
    np.testing.assert_allclose(estimate.lag_weights, LAG_WEIGHTS, atol=0.06)
    assert estimate.sigma_hat == pytest.approx(0.1, rel=0.2)
    low, high = estimate.levels["interval"]
    assert low < estimate.levels["spread"] < high
    assert estimate.levels["spread"] == pytest.approx(spread, rel=0.1)
    assert high / low < 1.6
    intervals = np.array(estimate.intervals["theta"])
    assert (np.ptp(intervals, axis=1) < 0.1).all()
    assert (intervals[:, 0] < THETA + 0.02).all()
    assert (intervals[:, 1] > THETA - 0.02).all()
    assert agent().fit(past).levels is None


def test_no_level_is_said_by_a_prediction_with_other_columns():
    """Options changed, and no fit with them is done: there is one effect, and no covariate."""
    past, _ = levelled("short")
    known = agent(levels=True, trend=True)
    known.install(known.fit(past))
    part = next(iter(past.trajectories.values()))
    assert known.level("", part, SPREAD) is not None
    options = make_agent("anytime", dim=DIM, horizon=HORIZON, levels=True).options
    assert Anytime.from_state(DIM, HORIZON, options, known.state()).level("", part, SPREAD) is None


def test_where_levels_do_not_differ_nothing_is_lost():
    past = history(n=20, n_parts=30, noise=0.1)
    with_levels, plain = agent(levels=True).fit(past), agent().fit(past)
    assert with_levels.levels["interval"][0] == 0.0
    assert with_levels.levels["spread"] < 0.05
    for estimate in (with_levels, plain):
        assert estimate.theta @ THETA > 0.999
    widths = [np.ptp(e.intervals["theta"], axis=1) for e in (with_levels, plain)]
    assert (widths[0] < 1.1 * widths[1]).all()


def test_later_trajectories_are_predicted_about_levels_of_their_own():
    """Neither is there an alarm where they begin, nor do they refuse a better estimate."""
    past, _ = levelled("complete")
    found = agent(levels=True)
    for due in (400, 700, 1100, 1600):
        window = FitWindow(1, 1, due, HORIZON, due)
        checked = found.checked_fit(past.over(window))
        found.install(checked)
        assert not checked.diagnostics.get("alarm", False)
        assert checked.findings == []
        if due > 400:
            assert 0.7 < checked.diagnostics["held_out_error"] < 1.3
    assert found.prediction.autocorrelation > 0.99
    again = type(found).from_state(DIM, HORIZON, found.options, found.state())
    assert again.prediction.autocorrelation == found.prediction.autocorrelation
    late = FitWindow(1, 1, 1600, HORIZON, 1600)
    assert again.fit(past.over(late)).to_json() == found.fit(past.over(late)).to_json()


def test_a_world_that_turns_is_noticed():
    past, _ = levelled("complete")
    parts = dict(past.trajectories)
    for i in range(50, 80):
        m = parts[str(i)].measurements
        parts[str(i)] = replace(parts[str(i)], measurements=replace(m, value=-m.value))
    past = History(DIM, parts)
    found = agent(levels=True)
    for due in (600, 1000, 1300):
        found.install(found.fit(past.over(FitWindow(1, 1, due, HORIZON, due))))
    estimate = found.fit(past.over(FitWindow(1, 1, 1600, HORIZON, 1600)))
    assert estimate.diagnostics["alarm"] or estimate.diagnostics["since_round"] > 900


def test_units_of_rewards_change_nothing_but_the_spread():
    past, _ = levelled("complete")
    parts = {}
    for key, part in past.trajectories.items():
        m = part.measurements
        parts[key] = replace(part, measurements=replace(m, value=m.value * 2.0**20))
    plain = agent(levels=True).fit(past)
    scaled = agent(levels=True).fit(replace(past, trajectories=parts))
    np.testing.assert_array_equal(plain.theta, scaled.theta)
    assert scaled.levels["spread"] == plain.levels["spread"] * 2.0**20
    assert scaled.levels["interval"] == [end * 2.0**20 for end in plain.levels["interval"]]


@pytest.mark.slow
def test_users_of_many_levels_cost_little():
    told, without = [], []
    for seed in range(2):
        world = LongHorizonEnvironment.draw(dim=3, horizon=8, n_arms=5, sparsity=2, seed=seed)
        visits = Visits.draw(40, 25, "fixed", arriving=2.0, seed=seed)
        options = {"levels": True}
        for into, level in ((told, 2.0), (without, 0.0)):
            users = UserEnvironment(world, visits, levels=level)
            run = simulate_users("anytime", users, seed=seed, options=options)
            into.append(run.regret[-1])
    assert np.mean(told) < 3.0 * np.mean(without)


@pytest.mark.parametrize(("shape", "levels"), [((2, 4), 1), ((2, 4), "yes"), ((10, 101), True)])
def test_wrong_levels_are_named(shape, levels):
    with pytest.raises(OptionError) as refused:
        make_agent("anytime", dim=shape[0], horizon=shape[1], levels=levels)
    assert refused.value.option == "levels"
