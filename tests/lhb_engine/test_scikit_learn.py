import doctest

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from statsmodels.datasets import macrodata
from statsmodels.tsa.ardl import ARDL

from lhb_engine.scikit_learn import (
    LaggedGroupLasso,
    LaggedGroupLassoCV,
    lagged_group_lasso,
)

ORDERED = "rows are rounds in order: a row's prediction depends on the rows before it"
EXPECTED_FAILURES = {
    "check_methods_subset_invariance": ORDERED,
    "check_methods_sample_order_invariance": ORDERED,
}


def checks_of(*models):
    """Each model's checks, but for the one of other arrays than numpy's, which scikit-learn skips.

    Checks of rows by themselves must fail, but not with a shared profile: on their data that one
    has lag 0 alone, and a prediction depends on its own row.
    """
    marked = parametrize_with_checks(
        models,
        expected_failed_checks=lambda model: (
            {} if model.profiles == "shared" else EXPECTED_FAILURES
        ),
        xfail_strict=True,
    ).mark
    ours = [one for one in marked.args[1] if "array_api" not in str(one)]
    assert len(ours) < len(marked.args[1])
    return pytest.mark.parametrize(marked.args[0], ours, **marked.kwargs)


@checks_of(LaggedGroupLasso(4, profiles="shared"), LaggedGroupLassoCV(4, n_lams=5, n_folds=3))
def test_scikit_learn_s_checks(estimator, check):
    check(estimator)


@pytest.mark.slow  # the same, without what the others have beside it
@checks_of(LaggedGroupLasso(4))
def test_scikit_learn_s_checks_of_the_plain_lasso(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", [LaggedGroupLasso(12), LaggedGroupLassoCV(12, n_folds=3)])
@pytest.mark.parametrize("standardize", [False, True])
def test_columns_of_a_group_share_a_profile(model, standardize):
    """Who tells them is nearer to the truth; a control in between keeps its number."""
    rng = np.random.default_rng(3)
    phi = np.zeros((12, 4))
    phi[[1, 4]] = [[0.6, 0.0, -0.8, 0.0], [0.3, 0.0, -0.4, 0.0]]
    phi[7:9, [1, 3]] = [[0.5, 0.7], [0.4, 0.6]]
    lagged, control = rng.uniform(-1, 1, (300, 4)), rng.uniform(-1, 1, (300, 1))
    y = sum(np.convolve(lagged[:, i], phi[:, i])[:300] for i in range(4)) + 2 * control[:, 0]
    y += 0.3 * rng.standard_normal(300)
    X = np.column_stack([lagged[:, :1], control, lagged[:, 1:]])
    model = clone(model).set_params(controls=[1], zero_start=True, standardize=standardize)
    each = clone(model).fit(X, y)
    told = model.set_params(profiles=[[0, 3]], standard_errors=True).fit(X, y)
    assert np.linalg.norm(told.coef_ - phi) < 0.9 * np.linalg.norm(each.coef_ - phi)
    first, others = np.linalg.svd(told.coef_[:, [0, 2]])[1]
    assert others < 1e-9 * first
    assert np.linalg.svd(told.coef_)[1][2] > 1e-3  # the others have their own
    assert told.control_coef_ == pytest.approx([2], abs=0.1)
    assert np.linalg.norm(told.refit_coef_[1, [0, 2]] - [0.6, -0.8]) < 0.1
    assert told.predict(X) == pytest.approx(y, abs=1.2)
    shared = clone(told).set_params(profiles="shared").fit(X, y)
    assert np.linalg.svd(shared.coef_)[1][1] < 1e-9
    np.testing.assert_allclose(np.outer(shared.lag_weights_, shared.theta_), shared.coef_)
    assert not hasattr(told, "partial_fit")
    for groups in ([[0, 1]], [[0, 2], [2, 3]], [[0, 5]], "some"):
        with pytest.raises(ValueError, match="groups of columns of X"):
            clone(told).set_params(profiles=groups).fit(X, y)


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
    found = doctest.testmod(lagged_group_lasso)
    assert found.attempted > 10
    assert found.failed == 0


def persistent(n, seed=0):
    """A feature that moves slowly around 5, and rewards of its lags 0 and 1."""
    rng = np.random.default_rng(seed)
    x = np.empty(n)
    x[0] = 5
    for i in range(1, n):
        x[i] = 5 + 0.9 * (x[i - 1] - 5) + 0.3 * rng.standard_normal()
    y = 1.0 + 0.8 * x + 0.1 * rng.standard_normal(n)
    y[1:] += 0.4 * x[:-1]
    y[0] += 0.4 * 5
    return x[:, None], y


def test_rows_whose_lags_are_not_known_are_held_back():
    X, y = persistent(300)
    fit = LaggedGroupLasso(4, 1e-8, tol=1e-9).fit(X, y)
    assert fit.n_rows_ == 297
    np.testing.assert_allclose(fit.coef_.ravel(), [0.8, 0.4, 0, 0], atol=0.06)
    other = y.copy()
    other[:3] = 1e3  # rewards of held-back rows say nothing
    np.testing.assert_array_equal(
        LaggedGroupLasso(4, 1e-8, tol=1e-9).fit(X, other).coef_, fit.coef_
    )
    zeros = LaggedGroupLasso(4, 1e-8, tol=1e-9, zero_start=True).fit(X, y)
    assert zeros.n_rows_ == 300
    assert abs(zeros.coef_[1, 0] - 0.4) > 0.1  # what zeros before the first row do
    apart = LaggedGroupLasso(4, 1e-8).fit(X, y, lengths=[100, 3, 197])
    assert apart.n_rows_ == 97 + 194


def test_a_true_start_at_zero_uses_every_row():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 2))
    theta = np.array([0.6, 0.8])
    y = np.convolve(X @ theta, [1.0, 0, 0.5])[:40] + 2
    fit = LaggedGroupLasso(3, 1e-9, zero_start=True, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(fit.coef_, np.outer([1, 0, 0.5], theta), atol=1e-6)
    assert fit.n_rows_ == 40
    with pytest.raises(ValueError, match="zero_start"):
        LaggedGroupLasso(40).fit(X, y)


def test_the_past_can_be_given():
    X, y, _ = problem()
    fit = LaggedGroupLasso(6).fit(X, y)
    whole = fit.predict(X)
    np.testing.assert_allclose(fit.predict(X[100:], past=X[:100]), whole[100:])
    np.testing.assert_allclose(fit.predict(X[100:], past=X[95:100]), whole[100:])
    # an unknown past counts as the mean row
    mean = np.tile(X.mean(axis=0), (5, 1))
    np.testing.assert_allclose(fit.predict(X[:3]), fit.predict(X[:3], past=mean))
    zeros = LaggedGroupLasso(6, zero_start=True).fit(X, y)
    np.testing.assert_allclose(zeros.predict(X[:3]), zeros.predict(X[:3], past=np.zeros((5, 3))))
    with pytest.raises(ValueError, match="past"):
        fit.predict(X, past=X[:, :2])


def test_controls_have_no_lags_and_no_penalty():
    X, y, _ = problem()
    month = np.sin(np.arange(400) * 2 * np.pi / 12)
    trend = np.arange(400) / 100
    both = np.column_stack([month, X, trend])
    y = y + 3 * month - 2 * trend
    for model in (LaggedGroupLasso(6), LaggedGroupLassoCV(6, n_folds=3)):
        fit = model.set_params(controls=(0, 4)).fit(both, y)
        assert fit.coef_.shape == (6, 3)
        np.testing.assert_allclose(fit.control_coef_, [3, -2], atol=0.05)
        assert fit.intercept_ == pytest.approx(4, abs=0.1)
        assert fit.score(both, y) > 0.99
    # at any lam the residual is orthogonal to them, and to the intercept
    fit = LaggedGroupLasso(6, 1e3, controls=(0, 4)).fit(both, y)
    assert not fit.coef_.any()
    residual = (y - fit.predict(both))[5:]
    np.testing.assert_allclose(both[5:, [0, 4]].T @ residual, 0, atol=1e-8)
    assert residual.sum() == pytest.approx(0, abs=1e-8)
    # one that is a combination of others changes nothing
    twice = np.column_stack([both, month + 2 * trend])
    more = LaggedGroupLasso(6, 0.01, controls=(0, 4, 5)).fit(twice, y)
    less = LaggedGroupLasso(6, 0.01, controls=(0, 4)).fit(both, y)
    np.testing.assert_allclose(more.coef_, less.coef_, atol=1e-9)
    np.testing.assert_allclose(more.predict(twice), less.predict(both))
    for bad in ((0, 0), (5,), (0, 1, 2, 3, 4)):
        with pytest.raises(ValueError, match="controls"):
            LaggedGroupLasso(6, controls=bad).fit(both, y)


def test_without_penalty_it_is_the_distributed_lag_regression_of_statsmodels():
    """Log consumption on log income, lags 0 to 3, with and without a fixed regressor."""
    data = macrodata.load_pandas().data
    income = np.log(data["realdpi"].to_numpy())[:, None]
    consumption = np.log(data["realcons"].to_numpy())
    rate = data["tbilrate"].to_numpy()[:, None]
    for fixed in (None, rate):
        theirs = ARDL(consumption, 0, income, 3, fixed=fixed, trend="c").fit()
        X = income if fixed is None else np.column_stack([income, fixed])
        controls = () if fixed is None else (1,)
        ours = LaggedGroupLasso(4, 1e-10, controls=controls, tol=1e-12, standard_errors=True)
        ours.fit(X, consumption)
        named = dict(zip(theirs.model.exog_names, theirs.params, strict=True))
        expected = [value for name, value in named.items() if ".L" in name]
        np.testing.assert_allclose(ours.coef_.ravel(), expected, atol=2e-5)
        assert ours.intercept_ == pytest.approx(named["const"], abs=1e-5)
        if fixed is not None:
            assert ours.control_coef_[0] == pytest.approx(theirs.params[-1], rel=1e-5)
        lags = [".L" in name for name in named]
        # least squares with t intervals, as theirs
        np.testing.assert_allclose(ours.refit_error_.ravel(), theirs.bse[lags], rtol=1e-6)
        low, high = ours.coef_interval()
        half = 1.971957 * theirs.bse[lags]  # t of about 195 degrees of freedom
        np.testing.assert_allclose((high - low).ravel() / 2, half, rtol=1e-3)


def test_intervals_of_coefficients_cover():
    """A lag that stands out is always selected, so that selection does not narrow its interval."""
    rng = np.random.default_rng(5)
    covered = []
    for _ in range(200):
        X = rng.standard_normal((80, 2))
        y = np.convolve(X @ [0.6, 0.8], [0, 1.0])[:80] + rng.standard_normal(80)
        fit = LaggedGroupLasso(3, 0.25, standard_errors=True).fit(X, y)
        low, high = fit.coef_interval(0.9)
        covered += ((low[1] <= [0.6, 0.8]) & (high[1] >= [0.6, 0.8])).tolist()
        assert np.isnan(low[fit.lag_weights_ == 0]).all()
    assert np.mean(covered) == pytest.approx(0.9, abs=3 * np.sqrt(0.09 / 400))


def test_intervals_of_predictions_cover_where_the_past_is_not_known_too():
    rng = np.random.default_rng(6)
    model = LaggedGroupLasso(5, 0.02)
    weights = np.array([0.5, 0, 0, 1.0, 0])
    X = rng.standard_normal((2000, 2))
    y = np.convolve(X @ [0.6, 0.8], weights)[:2000] + 0.5 * rng.standard_normal(2000)
    model.fit(X, y)
    inside = []
    for _ in range(300):
        X = rng.standard_normal((12, 2))
        y = np.convolve(X @ [0.6, 0.8], weights)[4:12] + 0.5 * rng.standard_normal(8)
        low, high = model.predict_interval(X[4:], level=0.9)
        inside.append((low <= y) & (y <= high))
    shares = np.mean(inside, axis=0)
    np.testing.assert_allclose(shares, 0.9, atol=4 * np.sqrt(0.09 / 300))
    low, high = model.predict_interval(X[4:])
    assert high[0] - low[0] > 1.5 * (high[7] - low[7])
    low, high = model.predict_interval(X[4:], past=X[:4])
    np.testing.assert_allclose(high - low, high[0] - low[0])


def test_the_path_of_lams_begins_where_the_first_lag_enters():
    """Rewards seven times as large, so that lambda_max is not near 1."""
    X, y, _ = problem()
    path = LaggedGroupLassoCV(6, n_lams=4, n_folds=2).fit(X, 7 * y)
    top = path.lams_[0]
    assert not LaggedGroupLasso(6, 1.001 * top).fit(X, 7 * y).coef_.any()
    assert LaggedGroupLasso(6, 0.99 * top).fit(X, 7 * y).coef_.any()


def test_standardized_features_have_no_units_without_an_intercept_too():
    X, y, _ = problem()
    X, y = X + np.array([0.5, 0, -1]), y - 4
    model = LaggedGroupLasso(6, 0.02, fit_intercept=False, standardize=True, tol=1e-10)
    plain, scaled = clone(model).fit(X, y), clone(model).fit(X * [1, 100, 0.01], y)
    np.testing.assert_allclose(scaled.coef_ * [1, 100, 0.01], plain.coef_, atol=1e-6)
    # each feature by its own root mean square: the second, in the middle, is the smallest
    assert plain.coef_[1].all()


def test_the_noise_is_unbiased_beside_controls():
    """Twelve rows and six controls: divided by the rows, the variance would be half the truth."""
    rng = np.random.default_rng(4)
    model = LaggedGroupLasso(1, 1e6, controls=tuple(range(6)), fit_intercept=False)
    variances = [
        model.fit(rng.standard_normal((12, 7)), rng.standard_normal(12)).sigma_ ** 2
        for _ in range(400)
    ]
    assert np.mean(variances) == pytest.approx(1.0, abs=4 * np.sqrt(2 / 6 / 400))
