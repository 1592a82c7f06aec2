"""`LaggedGroupLasso.partial_fit`: rounds given in parts are fitted as all of them at once."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lhb_engine.lasso.group_lasso import GroupLasso
from lhb_engine.scikit_learn import LaggedGroupLasso, LaggedGroupLassoCV
from lhb_engine.scikit_learn.rounds import ChunkSums, Rounds
from tests.examples import examples, repeats
from tests.lhb_engine.dense_algebra import toeplitz


def in_parts(model, X, y, lengths, cuts):
    """Give the rounds cut at `cuts`, anywhere in trajectories of `lengths`."""
    ends = np.cumsum(lengths)
    for start, stop in zip([0, *cuts], [*cuts, len(X)], strict=True):
        borders = ends[(ends > start) & (ends < stop)]
        parts = np.diff([start, *borders, stop]).tolist()
        goes_on = start > 0 and start not in ends
        model.partial_fit(X[start:stop], y[start:stop], parts, goes_on=goes_on)
    return model


def dense(model, X, y, lengths):
    """Columns with lags (scaled as the model does), columns without, and y, of the known rows."""
    lagged = np.delete(X, model.controls, axis=1)
    scale = np.ones(lagged.shape[1])
    if model.standardize:
        spread = lagged.std(axis=0)
        rms = np.sqrt((lagged**2).mean(axis=0))
        scale = spread if model.fit_intercept else rms
        scale = np.where(spread <= 1e-12 * np.abs(lagged).max(axis=0), 1.0, scale)
    known = ~np.isnan(y)
    if not model.zero_start:
        known &= np.concatenate([np.arange(n) for n in lengths]) >= model.n_lags - 1
    columns = toeplitz(np.split(lagged / scale, np.cumsum(lengths)[:-1]), model.n_lags)
    ones = np.ones((len(X), int(model.fit_intercept)))
    beside = np.concatenate([ones, X[:, list(model.controls)]], axis=1)
    return columns[known], beside[known], y[known], scale


@st.composite
def logs(draw):
    """A model, ragged trajectories with missing rewards, and where the log is cut."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dim, n_controls = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    n = sum(lengths)
    level = draw(st.sampled_from([0.0, 1.0, 100.0]))
    X = level * rng.standard_normal(dim + n_controls) + rng.standard_normal((n, dim + n_controls))
    y = X @ rng.standard_normal(dim + n_controls) + level + 0.1 * rng.standard_normal(n)
    y[1:] += X[:-1, 0]
    y[rng.random(n) > draw(st.sampled_from([1.0, 0.8, 0.3]))] = np.nan
    model = LaggedGroupLasso(
        draw(st.integers(1, 9)),
        controls=tuple(range(dim, dim + n_controls)),
        zero_start=draw(st.booleans()),
        fit_intercept=draw(st.booleans()),
        standardize=draw(st.booleans()),
    )
    cuts = draw(st.lists(st.integers(1, n - 1), max_size=6, unique=True)) if n > 1 else []
    return model, X, y, lengths, sorted(cuts)


@settings(max_examples=examples(80), deadline=None)
@given(logs())
def test_cut_anywhere_it_minimises_what_fit_minimises(log):
    """Both have the certificate that they say, on rows laid out by definition."""
    model, X, y, lengths, cuts = log
    columns, beside, values, scale = dense(model, X, y, lengths)
    n = len(values)
    if n < 2:
        unfitted = in_parts(clone(model).set_params(lam=1.0), X, y, lengths, cuts)
        with pytest.raises(NotFittedError):
            unfitted.predict(X)
        return
    basis = np.linalg.qr(beside)[0] if beside.shape[1] else beside
    centred = values - basis @ (basis.T @ values)
    blocks = ((columns - basis @ (basis.T @ columns)).T @ centred / n).reshape(model.n_lags, -1)
    largest = np.linalg.norm(blocks, axis=1).max()
    noise = 1e-9 * np.sqrt(np.mean(values**2) * np.mean(columns**2))  # what rounding makes of 0
    model.set_params(lam=0.1 * largest if largest > noise else 1.0, tol=1e-7)
    whole = clone(model).fit(X, y, lengths)
    parts = in_parts(clone(model), X, y, lengths, cuts)

    def objective(fit):
        b = np.append([fit.intercept_] * model.fit_intercept, fit.control_coef_)
        residual = values - columns @ (fit.coef_ * scale).ravel() - beside @ b
        penalty = np.linalg.norm(fit.coef_ * scale, axis=1).sum()
        return residual @ residual / (2 * n) + model.lam * penalty, residual @ residual

    (one, _), (two, square) = objective(whole), objective(parts)
    unit = centred @ centred / (2 * n)
    rounding = 1e-11 * np.mean(values**2)
    assert abs(one - two) <= (whole.dual_gap_ + parts.dual_gap_) * unit + rounding
    assert parts.n_rows_ == whole.n_rows_ == n
    freedom = n - np.count_nonzero(parts.coef_) - beside.shape[1]
    if freedom > 0:
        assert parts.sigma_**2 * freedom == pytest.approx(square, rel=1e-6, abs=n * rounding)
    np.testing.assert_allclose(parts._mean, whole._mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts._covariance, whole._covariance, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n", [40, 400])
def test_rows_made_of_sums_stand_for_all_of_them(n, intercept):
    """Fewer rows than columns, or more; a control that is a combination of others adds none."""
    rng = np.random.default_rng(n)
    lagged, controls = rng.standard_normal((n, 2)) + 3.0, rng.standard_normal((n, 3)) + 1.0
    controls[:, 2] = controls[:, 0] - 2.0 * controls[:, 1]
    rounds = Rounds(lagged, controls, 5.0 + lagged[:, 0] + rng.standard_normal(n), np.array([n]))
    sums = ChunkSums.begun(rounds, 25, True, intercept).with_rounds(rounds, False)
    scale = np.array([2.0, 0.5])
    rows = sums.rows(scale)
    assert rows.n == n
    assert len(rows.y) == min(n, 50 + 2 + 1 + 1)
    made = np.column_stack([rows.design.toarray(), np.ones(len(rows.y)), rows.controls, rows.y])
    moments = sums.moments.divided(scale, 1.0).matrix / n
    np.testing.assert_allclose(made.T @ made / len(made), moments, rtol=1e-9, atol=1e-9)
    fewer = GroupLasso(rows.design, rows.y, fit_intercept=intercept, controls=rows.controls)
    assert len(fewer.problem.basis) == 2 + intercept


def log_of(n=3000, dim=3, seed=0, level=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim)) + level
    y = np.convolve(X[:, 0] - X[:, 2], [0, 0.5, 0, 0, 0.5])[:n] + 0.3 * rng.standard_normal(n)
    y[rng.random(n) < 0.2] = np.nan
    return X, y + 100 * level


# each pair of two of these
PAIRS = [(None, 0.0, False), (None, 1000.0, True), (0.01, 0.0, True), (0.01, 1000.0, False)]
OTHERS = [(lam, level, not standardize) for lam, level, standardize in PAIRS]


@pytest.mark.parametrize(("lam", "level", "standardize"), [*PAIRS, *repeats(*OTHERS)])
def test_coefficients_noise_and_intervals_are_those_of_fit(lam, level, standardize):
    """Far from zero too, where squares keep few digits of differences."""
    X, y = log_of(level=level)
    options = {"standardize": standardize, "standard_errors": True, "controls": (1,)}
    model = LaggedGroupLasso(8, lam, tol=1e-10, **options)
    lengths = [1200, 900, 900]
    whole = clone(model).fit(X, y, lengths)
    parts = in_parts(clone(model), X, y, lengths, [700, 1203, 1204, 2100, 2500])
    assert parts.lam_ == pytest.approx(whole.lam_, rel=1e-7)
    for name in ("coef_", "lag_weights_", "control_coef_", "theta_", "sigma_"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-6)
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-9, atol=1e-6)
    found, expected = parts.predict_interval(X[:20]), whole.predict_interval(X[:20])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-5)
    np.testing.assert_array_equal(np.isnan(parts.refit_coef_), np.isnan(whole.refit_coef_))
    np.testing.assert_allclose(parts.refit_coef_, whole.refit_coef_, atol=1e-7)
    np.testing.assert_allclose(parts.refit_error_, whole.refit_error_, rtol=1e-6)
    np.testing.assert_allclose(parts.coef_interval(), whole.coef_interval(), atol=1e-6)


def test_a_fit_after_each_part_is_that_of_the_rounds_so_far():
    """What is kept does not grow."""
    X, y = log_of(600)
    model, sizes = LaggedGroupLasso(6, 0.02, tol=1e-10), []
    for start in range(0, 600, 50):
        model.partial_fit(X[start : start + 50], y[start : start + 50])
        until = clone(model).fit(X[: start + 50], y[: start + 50])
        np.testing.assert_allclose(model.coef_, until.coef_, atol=1e-4)
        sizes.append(len(pickle.dumps(model)))
    assert max(sizes) - min(sizes) < 50
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[:9], y[:9])
    assert np.array_equal(again.coef_, model.partial_fit(X[:9], y[:9]).coef_)


def test_missing_rewards_are_no_rows_and_their_rounds_are_lags():
    X, y = log_of(400)
    other = np.where(np.isnan(y), 1e6, y)
    kept = LaggedGroupLasso(6, 0.02).fit(X, y)
    assert kept.n_rows_ == np.count_nonzero(~np.isnan(y[5:]))
    assert kept.lag_weights_.argmax() in (1, 4)
    assert LaggedGroupLasso(6, 0.02).fit(X, other).lam_ == kept.lam_
    assert not np.allclose(LaggedGroupLasso(6, 0.02).fit(X, other).coef_, kept.coef_)
    assert LaggedGroupLassoCV(6, n_folds=2, n_lams=3).fit(X, y).n_rows_ == kept.n_rows_
    y[3] = np.inf
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="infinity"):
            getattr(LaggedGroupLasso(6), method)(X, y)


def test_a_refused_part_leaves_the_model_as_it_was():
    X, y = log_of(300)
    model, other = (LaggedGroupLasso(6, 0.02).partial_fit(X[:200], y[:200]) for _ in range(2))
    wrong = [
        (X[:9, :2], y[:9], {}, "features"),
        (X[:9], y[:8], {}, "inconsistent"),
        (X[:9], y[:9], {"lengths": [4, 4]}, "lengths"),
        (X[:9] * 1e70, y[:9], {}, "size"),
        (X[:9], y[:9] * 1e70, {}, "size"),
    ]
    for bad_X, bad_y, more, said in wrong:
        with pytest.raises(ValueError, match=said):
            model.partial_fit(bad_X, bad_y, **more)
    for changed in ({"n_lags": 7}, {"controls": (0,)}, {"zero_start": True}):
        before = {name: getattr(model, name) for name in changed}
        with pytest.raises(ValueError, match="parameters"):
            model.set_params(**changed).partial_fit(X[200:], y[200:])
        model.set_params(**before)
    model.partial_fit(X[200:], y[200:])
    assert np.array_equal(model.coef_, other.partial_fit(X[200:], y[200:]).coef_)


def test_rewards_that_never_change_have_no_lags():
    X, _ = log_of(300)
    model = LaggedGroupLasso(6).partial_fit(X[:100], np.full(100, 0.1))
    model.partial_fit(X[100:], np.full(200, 0.1))
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(0.1)
    assert model.sigma_ == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="lam"):
        LaggedGroupLasso(6, 0.0).partial_fit(X, X[:, 0])


def test_fit_forgets_and_keeps_no_sums():
    X, y = log_of(300)
    model = LaggedGroupLasso(6, 0.02).partial_fit(X, y)
    fresh = LaggedGroupLasso(6, 0.02).fit(X[100:], y[100:])
    assert np.array_equal(model.fit(X[100:], y[100:]).coef_, fresh.coef_)
    with pytest.warns(UserWarning, match="anew"):
        model.partial_fit(X[:4], y[:4])
    with pytest.raises(NotFittedError):
        model.predict(X)
    begun = LaggedGroupLasso(6, 0.02).partial_fit(X[:4], y[:4]).partial_fit(X[4:99], y[4:99])
    assert np.array_equal(model.partial_fit(X[4:99], y[4:99]).coef_, begun.coef_)
    assert not hasattr(LaggedGroupLassoCV(4), "partial_fit")
