"""Lag weights come from a refit: not shrunken, none below 0, with the baseline that is fitted."""

import numpy as np
import pytest
from scipy.optimize import nnls

from lhb_engine.design.fit_rows import FitRows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import FitWindow
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.lasso.rank_one import columns_along, refit

THETA = np.array([0.6, -0.8, 0.0])
WEIGHTS = np.array([0.0, 0.5, 0.0, 0.0, 0.3, 0.2, 0.0, 0.0])


def problem(seed, baseline=0.0, noise=0.0, n=400, mean=0.0):
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (n, 3)) + mean
    y = np.convolve(contexts @ THETA, WEIGHTS)[:n] + baseline + noise * rng.standard_normal(n)
    return LaggedDesign(contexts, len(WEIGHTS)), y


@pytest.mark.parametrize("baseline", [0.0, 2.0])
@pytest.mark.parametrize("standardize", [False, True])
def test_reported_lag_weights_are_not_shrunken(baseline, standardize):
    """At a fifth of lambda_max the lasso's own weights are too small by a fifth and more."""
    design, y = problem(0, baseline, mean=0.3)
    window = FitWindow(1, 1, len(y), len(WEIGHTS), len(y))
    rows = FitRows(design, y, "full", 0)
    weak = BlockLasso(1e-9, baseline != 0, standardize).estimate(rows, window)
    strong = BlockLasso(0.2 * weak.lambda_max, baseline != 0, standardize).estimate(rows, window)
    assert strong.lam == pytest.approx(0.2 * weak.lambda_max)
    assert strong.lag_weights.sum() == pytest.approx(1.0, abs=0.03)
    if baseline:
        assert strong.intercept == pytest.approx(baseline, abs=0.03)


@pytest.mark.parametrize("seed", range(8))
def test_weights_are_non_negative_least_squares(seed):
    """Noise puts several weights below 0, more than one after another."""
    design, y = problem(seed, noise=1.0, n=60)
    weights, baseline = refit(design, y, THETA, np.ones(len(WEIGHTS)), False)
    columns = columns_along(design, np.arange(len(WEIGHTS)), THETA)
    least = nnls(columns, y)[1] ** 2
    residual = y - columns @ weights
    assert (weights >= 0).all()
    assert (weights == 0).any()
    np.testing.assert_allclose(columns[:, weights > 0].T @ residual, 0.0, atol=1e-9)
    assert residual @ residual <= 1.01 * least
    assert baseline == 0.0


def test_only_lags_of_the_lasso_are_refitted():
    design, y = problem(1, noise=0.1)
    kept = np.array([0.1, 0.1, -0.1, 0.0, 0.1, 0.0, 0.0, 0.0])
    assert set(np.flatnonzero(refit(design, y, THETA, kept, True)[0])) <= {0, 1, 4}


def test_a_baseline_may_be_negative():
    design, y = problem(2, baseline=-3.0)
    weights, baseline = refit(design, y, THETA, np.ones(len(WEIGHTS)), True)
    assert baseline == pytest.approx(-3.0)
    np.testing.assert_allclose(weights, WEIGHTS, atol=1e-9)


def test_where_columns_are_too_large_all_weights_get_one_factor():
    design, y = problem(3, baseline=1.0, noise=0.1)
    weights, baseline = refit(design, y, THETA, 0.25 * WEIGHTS - 0.01, True, most=100)
    shape = np.maximum(0.25 * WEIGHTS - 0.01, 0)
    factor = weights.sum() / shape.sum()
    np.testing.assert_allclose(weights, factor * shape)
    assert weights.sum() == pytest.approx(1.0, abs=0.05)
    assert baseline == pytest.approx(1.0, abs=0.05)
