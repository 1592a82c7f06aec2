"""The noise, the scale and the active lags of docs/model.md 5, by dense algebra."""

import numpy as np
import pytest

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.lasso.group_lasso import lambda_max, solve_group_lasso
from lhb_engine.lasso.regularization import noise_adaptive
from lhb_engine.lasso.standard_errors import active_lags
from tests.lhb_engine.played_histories import THETA


def data(n, weights, noise, seed=0):
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (n, 3))
    y = np.convolve(contexts @ THETA, weights)[:n] + noise * rng.standard_normal(n)
    return LaggedDesign(contexts, len(weights)), y


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("n", [60, 12])
def test_the_noise_is_what_its_own_fit_leaves_by_the_rank_one_model_s_freedom(n, fit_intercept):
    """(5.2), (5.3): m lags and a direction are m + d - 1 numbers; at least n/4 rows are left."""
    design, y = data(n, np.array([0.6, 0, 0, 0.5, 0.5, 0, 0.4, 0]), 0.4)
    fit = noise_adaptive(design, y, fit_intercept=fit_intercept, level=0.1)
    left = y - design.matvec(fit.result.phi)
    if fit_intercept:
        left -= left.mean()
    m = np.count_nonzero(np.abs(fit.result.phi).sum(axis=1))
    assert m >= 3
    freedom = max(n - (m + 3 - 1) - fit_intercept, n / 4)
    expected = max(np.sqrt(left @ left / freedom), 0.02 * np.std(y))
    assert fit.sigma_hat == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("controls", [None, 1])
@pytest.mark.parametrize("unit", [2.0**-12, 2.0**12])
def test_lambda_has_the_units_of_contexts_times_rewards(unit, controls):
    design, y = data(80, np.array([0.0, 1.0, 0.0]), 0.3)
    beside = None if controls is None else np.random.default_rng(1).standard_normal((80, controls))
    plain = noise_adaptive(design, y, controls=beside)
    other = LaggedDesign(design.contexts * unit, 3)
    scaled = noise_adaptive(other, y * unit, controls=beside)
    assert scaled.lam == pytest.approx(plain.lam * unit * unit, rel=1e-9)
    assert scaled.sigma_hat == pytest.approx(plain.sigma_hat * unit, rel=1e-9)
    assert lambda_max(design, y * 1e-12) == pytest.approx(lambda_max(design, y) * 1e-12, rel=1e-9)


def test_a_faint_lag_beside_a_strong_one_is_tested_against_the_noise():
    design, y = data(400, np.array([1.0, 0.0, 0.05, 0.0]), 0.02)
    assert active_lags(design, y, THETA) == (0, 2)


def test_without_noise_rounding_is_no_evidence():
    weights = np.zeros(12)
    weights[3] = 1.0
    for seed in range(10):
        design, y = data(200, weights, 0.0, seed)
        assert active_lags(design, y, THETA) == (3,)


@pytest.mark.parametrize("seed", range(3))
def test_with_few_rows_active_lags_are_those_of_the_strict_lasso(seed):
    """At the lam that noise of its own residuals' size exceeds in one fit of ten."""
    n, h = 80, 60
    weights = np.zeros(h)
    weights[::6] = np.linspace(1.0, 0.1, 10)
    design, y = data(n, weights, 0.02, seed)
    X = design.toarray()
    size = np.sqrt(((X - X.mean(axis=0)) ** 2).mean())
    unit = size * (np.sqrt(3) + np.sqrt(2 * np.log(h / 0.1))) / np.sqrt(n)
    sigma = np.std(y)
    for _ in range(50):
        fit = solve_group_lasso(design, y, sigma * unit, fit_intercept=True, tol=1e-9)
        left = y - X @ fit.phi.ravel() - fit.intercept
        sigma = np.sqrt(left @ left / n)
    # eight alternations come down to this sigma within a tenth
    fewest, most = (
        set(
            np.flatnonzero(
                solve_group_lasso(design, y, by * sigma * unit, fit_intercept=True).phi.any(1)
            )
        )
        for by in (1.1, 0.98)
    )
    found = set(active_lags(design, y, THETA))
    assert fewest <= found <= most
    assert fewest
