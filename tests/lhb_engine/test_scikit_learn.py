import doctest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import lhb_engine.scikit_learn
from lhb_engine.scikit_learn import LaggedGroupLasso, LaggedGroupLassoCV

ORDERED = "rows are rounds in order: a row's prediction depends on the rows before it"
EXPECTED_FAILURES = {
    "check_methods_subset_invariance": ORDERED,
    "check_methods_sample_order_invariance": ORDERED,
}


@parametrize_with_checks(
    [LaggedGroupLasso(), LaggedGroupLassoCV(n_lams=5, n_folds=3)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_s_checks(estimator, check):
    check(estimator)


def problem(seed=0, n=400):
    rng = np.random.default_rng(seed)
    theta = np.array([0.6, -0.48, 0.64])
    X = rng.uniform(-1, 1, (n, 3))
    y = np.convolve(X @ theta, [0, 0.5, 0, 0, 0.5])[:n] + 0.1 * rng.standard_normal(n) + 4
    return X, y, theta


@pytest.mark.parametrize("model", [LaggedGroupLasso(12), LaggedGroupLassoCV(12, n_folds=3)])
@pytest.mark.parametrize("standardize", [False, True])
def test_it_finds_theta_and_the_lags(model, standardize):
    X, y, theta = problem()
    X = X * [1.0, 100.0, 1.0] if standardize else X
    fit = clone(model).set_params(standardize=standardize).fit(X, y)
    effect = fit.theta_ * [1.0, 100.0, 1.0] if standardize else fit.theta_
    assert effect @ theta / np.linalg.norm(effect) > 0.99
    assert set(np.argsort(fit.lag_weights_)[-2:].tolist()) == {1, 4}
    assert fit.intercept_ == pytest.approx(4, abs=0.05)
    assert fit.score(X, y) > 0.8
    assert fit.dual_gap_ <= fit.tol


def test_prediction_is_the_model_s_sum():
    X, y, _ = problem()
    fit = LaggedGroupLasso(6).fit(X, y)
    t = 50
    by_hand = sum(X[t - k] @ fit.coef_[k] for k in range(6)) + fit.intercept_
    assert fit.predict(X)[t] == pytest.approx(by_hand)


def test_trajectories_do_not_reach_into_each_other():
    X, y, _ = problem()
    apart = LaggedGroupLasso(6, 0.01).fit(X, y, lengths=[150, 250])
    together = LaggedGroupLasso(6, 0.01).fit(X, y)
    assert not np.array_equal(apart.coef_, together.coef_)
    with pytest.raises(ValueError, match="lengths"):
        LaggedGroupLasso(6).fit(X, y, lengths=[100, 100])


@pytest.mark.parametrize("lengths", [[450, -50], [200.5, 199.5], [[200, 200]], 400])
def test_lengths_are_whole_numbers(lengths):
    X, y, _ = problem()
    with pytest.raises(ValueError, match="lengths"):
        LaggedGroupLasso(6).fit(X, y, lengths=lengths)


@pytest.mark.parametrize("lam", [0.0, -1.0, np.nan, np.inf])
def test_a_lam_that_is_none_is_refused(lam):
    X, y, _ = problem()
    with pytest.raises(ValueError, match="lam"):
        LaggedGroupLasso(6, lam).fit(X, y)


def test_one_fold_is_refused():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="n_folds"):
        LaggedGroupLassoCV(6, n_folds=1).fit(X, y)


def test_a_feature_that_never_changes_is_not_divided_by_its_rounding():
    """The spread of 0.1, 0.1, ... comes out as 1e-15 or so."""
    X, y, _ = problem()
    X = np.column_stack([X, np.full(len(X), 0.1)])
    assert 0 < X.std(axis=0)[3] < 1e-15
    fit = LaggedGroupLasso(6, 0.01, standardize=True).fit(X, y)
    assert np.abs(fit.coef_).max() < 10
    assert fit.score(X, y) > 0.8


def test_its_examples():
    assert doctest.testmod(lhb_engine.scikit_learn).failed == 0
