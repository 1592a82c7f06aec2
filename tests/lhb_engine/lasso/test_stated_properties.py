"""Properties of a fit that one-line changes broke unnoticed (docs/lab/operation.md)."""

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.design.fit_rows import measured_rows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.lasso.group_lasso import GroupLasso, solve_group_lasso
from lhb_engine.lasso.rank_one import RankOne, rank_one, refit
from lhb_engine.lasso.standard_errors import rank_one_errors
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from lhb_engine.scikit_learn import LaggedGroupLassoCV
from tests.examples import examples
from tests.lhb_engine.dense_algebra import span_rows
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401
from tests.lhb_engine.played_histories import HORIZON, THETA, history


def test_theta_s_side_is_where_lag_weights_sum_to_more_than_nothing():
    """Also where the largest lag weight alone is negative."""
    weights = np.array([-0.9, 0.5, 0.5, 0.5])
    for sign in (1, -1):
        found = rank_one(sign * np.outer(weights, THETA))
        np.testing.assert_allclose(found.weights, weights)
        np.testing.assert_allclose(found.theta, sign * THETA)


def test_the_noise_of_a_refit_is_unbiased_with_few_rows():
    """Eight rows, four parameters: divided by the rows it would be half the truth."""
    rng = np.random.default_rng(2)
    start = RankOne(THETA, np.array([1.0]), None, 1.0)
    variances = []
    for _ in range(600):
        contexts = rng.standard_normal((8, 3))
        y = contexts @ THETA + rng.standard_normal(8)
        found = rank_one_errors(LaggedDesign(contexts, 1), y, (0,), start)
        variances.append(found["sigma"] ** 2)
    assert np.mean(variances) == pytest.approx(1.0, abs=4 * np.sqrt(2 / 4 / 600))


def test_what_other_lags_earn_on_average_does_not_turn_theta():
    """Contexts with a mean, one of three lags refitted: nominal 95% intervals of theta hold."""
    rng, start = np.random.default_rng(3), RankOne(THETA, np.array([1.0, 0, 0, 0]), None, 1.0)
    inside = []
    for _ in range(200):
        contexts = rng.uniform(-1, 1, (300, 3)) + np.array([0.6, -0.2, 0.5])
        y = np.convolve(contexts @ THETA, [0.4, 0.0, 0.3, 0.3])[:300]
        y += 0.05 * rng.standard_normal(300)
        found = rank_one_errors(LaggedDesign(contexts, 4), y, (0,), start)
        inside.append(np.abs(found["theta"] - THETA) <= 1.96 * np.array(found["theta_error"]))
    assert 0.90 <= np.mean(inside) <= 0.98


@pytest.mark.parametrize(("n_pairs", "design"), [(11, "undifferenced"), (12, "differenced")])
def test_a_differenced_fit_needs_half_its_pairs(n_pairs, design):
    """Quarters of 24 rounds in 2 dimensions: 2d = 4 pairs are too few, q/2 = 12 are enough."""
    agent = make_agent("doubling_lasso", dim=2, horizon=300, L=24)
    window = agent.next_fit(0)
    assert (window.first, window.last) == (25, 96)
    rng = np.random.default_rng(0)
    xi = rng.uniform(-1, 1, (96, 2))
    rewards = np.convolve(xi @ [0.6, 0.8], [0.0, 1.0])[:96]
    rounds = np.concatenate([np.arange(25, 49), np.arange(73, 73 + n_pairs)])
    measured = Measurements.single(rounds, rewards[rounds - 1])
    assert agent.fit(History(2, {"": Trajectory(xi, measured)}).over(window)).design == design


def test_a_baseline_is_a_number_a_round_whatever_the_spans():
    """A sum over m rounds holds m baselines: the intercept column is sqrt(m) of the scaled row."""
    rng = np.random.default_rng(4)
    contexts = rng.uniform(-1, 1, (200, 3))
    spans = [(i, i + 1 + i % 5) for i in range(0, 190, 6)]
    matrix = span_rows(spans, 200)
    design = LaggedDesign(contexts, 4).measure(matrix)
    lengths = np.array([b - a + 1 for a, b in spans])
    np.testing.assert_allclose(design.intercept, np.sqrt(lengths))
    result = GroupLasso(design, 3.0 * np.sqrt(lengths), fit_intercept=True).solve(1.0)
    assert result.intercept == pytest.approx(3.0)
    rows = history(400, spans=(1, 3, 7), baseline=2.0)
    fit = BlockLasso(None, fit_intercept=True).estimate(measured_rows(rows), rows.window)
    assert fit.intercept == pytest.approx(2.0, abs=0.02)


def test_a_negative_lag_weight_is_none_and_not_its_size():
    weights = np.zeros(HORIZON)
    weights[[1, 4]] = 1.0, -0.5
    rows = history(800, weights=weights, noise=0.01)
    fit = BlockLasso(0.001, fit_intercept=False).estimate(measured_rows(rows), rows.window)
    assert fit.lag_weights[1] > 0.9
    assert fit.lag_weights[4] == 0.0


def test_so_it_is_where_all_weights_get_one_factor():
    contexts = np.random.default_rng(5).standard_normal((50, 3))
    design, weights = LaggedDesign(contexts, 3), np.array([0.5, -0.2, 0.1])
    y = 2.0 * design.matvec(np.outer([0.5, 0.0, 0.1], THETA))
    found, _ = refit(design, y, THETA, weights, fit_intercept=False, most=0)
    np.testing.assert_allclose(found, [1.0, 0.0, 0.2])


def test_a_lag_whose_projection_is_negative_counts_as_none(monkeypatch):
    """Weak and short: the mean over draws of w along theta (7.9) may fall below 0."""
    draws, n_negative = [], 0

    def noted(*given, **how):
        draws.append(rank_one_posterior(*given, **how))
        return draws[-1]

    monkeypatch.setattr("lhb_engine.agents.anytime_fit.rank_one_posterior", noted)
    agent = make_agent("anytime", dim=3, horizon=12)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        measured = Measurements.single(np.arange(1, 9), rng.standard_normal(8))
        past = History(3, {"": Trajectory(rng.uniform(-1, 1, (8, 3)), measured)})
        estimate = agent.fit(past.over(agent.next_fit(0)))
        negative = np.flatnonzero(draws[-1].weights < 0)
        if estimate.theta is not None:
            n_negative += len(negative)
            assert (estimate.lag_weights[negative] == 0).all()
    assert n_negative > 0


@pytest.mark.parametrize(
    "algorithm", ["ad_lasso", "anytime", "doubling_lasso", "sa_gd", "sw_mp", "ucb_mp"]
)
def test_no_unsigned_estimate_has_a_negative_lag_weight(algorithm):
    """The first estimates of noisy worlds, where any sign would come out."""
    n_directed, n_worlds = 0, examples(30)
    for seed in range(n_worlds):
        rng = np.random.default_rng(seed)
        xi = rng.uniform(-1, 1, (64, 3))
        y = rng.standard_normal(64)
        options = {} if algorithm == "anytime" else {"L": 4}
        agent = make_agent(algorithm, dim=3, horizon=12, **options)
        window = agent.next_fit(0)
        measured = Measurements.single(np.arange(1, 65), y)
        past = History(3, {"": Trajectory(xi, measured)})
        while window.due <= 64:
            estimate = agent.fit(past.over(window))
            n_directed += estimate.theta is not None
            assert (estimate.lag_weights >= 0).all()
            window = agent.next_fit(window.due)
    assert n_directed > n_worlds // 3


def test_cross_validation_holds_out_consecutive_blocks_and_takes_the_least_error():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((63, 2))
    y = np.convolve(X @ [0.6, 0.8], [0, 1.0])[:63] + rng.standard_normal(63) + 3
    model = LaggedGroupLassoCV(4, n_lams=4, n_folds=3, tol=1e-10).fit(X, y)
    design, y = LaggedDesign(X, 4).select(np.arange(3, 63)), y[3:]
    expected = np.empty((4, 3))
    for i, held in enumerate((range(20), range(20, 40), range(40, 60))):
        held = np.array(held)
        kept = np.setdiff1d(np.arange(60), held)
        for j, lam in enumerate(model.lams_):
            train = design.select(kept)
            fit = solve_group_lasso(train, y[kept], lam, fit_intercept=True, tol=1e-10)
            guess = design.select(held).matvec(fit.phi) + fit.intercept
            expected[j, i] = np.mean((y[held] - guess) ** 2)
    np.testing.assert_allclose(model.mse_path_, expected, rtol=1e-4)
    assert model.lam_ == model.lams_[expected.mean(axis=1).argmin()]


def test_a_window_is_what_a_fit_may_use():
    """Rewards outside the window change nothing."""
    past = history(240)
    window = FitWindow(1, 100, 200, HORIZON, 240)
    fits = []
    for change in (0.0, 100.0):
        (part,) = past.trajectories.values()
        value = part.measurements.value.copy()
        value[:99] += change
        value[200:] += change
        m = Measurements.single(part.measurements.first, value)
        cut = History(3, {"": Trajectory(part.contexts, m)}).over(window)
        fits.append(BlockLasso(None, False).estimate(measured_rows(cut), window))
    assert fits[0].to_json() == fits[1].to_json()
