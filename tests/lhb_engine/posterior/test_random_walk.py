"""A random walk is told from a change of theta or of the lag weights (docs/model.md (7.26))."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import anytime_fit, make_agent
from lhb_engine.agents.fit_past import RowsPast
from lhb_engine.design.aligned_rounds import align
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.acceptance_and_alarm import LaterRows, alarm_limit
from lhb_engine.posterior.predictor import Predictor
from lhb_engine.posterior.random_walk import less_walk, walk_gain
from tests.lhb_engine.played_histories import DIM, HORIZON, LAG_WEIGHTS, THETA, history

NOISE, FITTED = 0.1, 300
KNOWN = Predictor(LAG_WEIGHTS, THETA, 0.0, NOISE, FITTED, True)
ASIDE = np.linalg.svd(THETA[np.newaxis])[2][-1]


def played(n=400, seed=0, step=0.0, theta=THETA, weights=LAG_WEIGHTS, noise=NOISE):
    """Rounds after the last of which fits know, `FITTED`, differ: steps of a walk, or the rest."""
    rng = np.random.default_rng(seed)
    xi, later = rng.uniform(-1, 1, (n, DIM)), np.arange(1, n + 1) > FITTED
    before = np.convolve(xi @ THETA, LAG_WEIGHTS)[:n]
    signal = np.where(later, np.convolve(xi @ theta, weights)[:n], before)
    walk = np.cumsum(np.where(later, step * rng.standard_normal(n), 0.0))
    spread = np.where(later, noise, NOISE)
    reward = signal + walk + spread * rng.standard_normal(n)
    part = Trajectory(xi, Measurements.single(np.arange(1, n + 1), reward))
    return History(DIM, {"0": part}).over(FitWindow(2, 1, n, HORIZON, n))


def gains(chance=1e-3, **world):
    rows = [align(played(seed=seed, **world)) for seed in range(10)]
    return [walk_gain(KNOWN, one, chance=chance) for one in rows]


def test_a_walk_explains_what_it_moves():
    found = gains(step=0.02)
    assert None not in found
    assert np.median(found) == 0.2  # the best gain for steps of 0.2 of the noise is 0.18
    errors = [
        LaterRows.after(KNOWN, align(played(seed=seed, step=0.02))).mean_square
        for seed in range(10)
    ]
    assert np.median(errors) / NOISE**2 > alarm_limit(100)


@pytest.mark.parametrize(
    "world",
    [
        {"theta": -THETA},
        {"theta": np.cos(0.5) * THETA + np.sin(0.5) * ASIDE},
        {"weights": LAG_WEIGHTS[::-1]},
        {"noise": 2 * NOISE},
        {"noise": 2 * NOISE, "step": 0.04},
    ],
    ids=["turned", "turned a little", "other lags", "more noise", "more noise, and a walk"],
)
def test_it_explains_no_other_change(world):
    assert gains(**world) == [None] * 10


def test_contexts_that_explain_what_a_walk_leaves_speak_against_it():
    """Theta is turned so little that a walk leaves no more than noise may be."""
    small = {"theta": np.cos(0.12) * THETA + np.sin(0.12) * ASIDE, "n": 500}
    assert gains(**small) == [None] * 10
    assert None not in gains(chance=-1.0, **small)


def test_a_change_that_came_lately_is_not_lost_among_the_rows_before():
    """The last eighth of the later rows is off by 2.4 of the noise, up and down in turn."""
    n, off = 620, 2.4 * NOISE * (-1.0) ** np.arange(620)

    def changed(seed):
        past = played(n=n, seed=seed, noise=NOISE / 2)
        (part,) = past.trajectories.values()
        value = part.measurements.value + np.where(np.arange(n) >= n - 40, off, 0.0)
        measured = replace(part.measurements, value=value)
        return align(replace(past, trajectories={"0": replace(part, measurements=measured)}))

    assert [walk_gain(KNOWN, changed(seed)) for seed in range(4)] == [None] * 4
    assert None not in [walk_gain(KNOWN, changed(seed), parts=(1,)) for seed in range(4)]


def test_of_few_rows_nothing_is_said():
    assert walk_gain(KNOWN, align(played(n=FITTED + 19))) is None
    assert walk_gain(KNOWN, align(played(n=FITTED + 20))) is not None
    many = replace(KNOWN, theta=np.eye(30)[0], lag_weights=np.zeros(HORIZON))
    rows = align(history(n=FITTED + 59))
    wide = replace(rows, contexts=np.random.default_rng(0).standard_normal((len(rows.y), 30)))
    assert walk_gain(many, wide) is None  # 30 features, of 59 rows


def test_the_walk_follows_rows_in_the_order_of_the_session():
    rows = align(history(n=30, n_parts=2, keep=0.7))
    values = np.where(rows.number > 0, np.random.default_rng(1).standard_normal(len(rows.y)), 0.0)
    found, walk = less_walk(rows, values, 0.2), 0.0
    places = np.flatnonzero(rows.number > 0)
    for place in places[np.argsort(rows.number[places])]:
        assert found[place] == pytest.approx(values[place] - walk)
        walk += 0.2 * (values[place] - walk)
    assert not found[rows.number == 0].any()
    both = less_walk(rows, np.column_stack([values, 2 * values]), 0.2)
    np.testing.assert_allclose(both, np.column_stack([found, 2 * found]))


def fit_of(past):
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(past.over(FitWindow(1, 1, FITTED, HORIZON, FITTED))))
    return anytime_fit.AnytimeFit(agent, RowsPast(agent, past.window, align(agent.told(past))))


@pytest.mark.slow
def test_no_alarm_is_raised_where_rewards_walk():
    """Errors are far beyond noise, and a fit of all rows does not explain them either."""
    alarms = unexplained = 0
    for seed in range(12):
        fit = fit_of(played(n=380, seed=seed, step=0.04))
        if not fit.past.later.check(fit._old_draws)["alarm"]:
            continue
        unexplained += not fit._explains(*fit._posterior(fit.past.part(1).data))
        alarms += fit.estimate().diagnostics["alarm"]
    assert unexplained >= 3
    assert alarms <= 1


def test_of_a_walk_and_a_change_the_change_is_seen():
    """Windows are compared about the walk; the one after the change predicts best."""
    fit = fit_of(played(n=500, step=0.03, theta=-THETA))
    estimate = fit.estimate()
    assert estimate.diagnostics["alarm"]
    assert estimate.first_round > 250
    assert estimate.theta @ -THETA > 0.9
