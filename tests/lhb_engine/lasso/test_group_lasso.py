import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.lasso.accelerated_gradient import GROWTH, accelerated_gradient
from lhb_engine.lasso.group_lasso import GroupLasso, lambda_max, solve_group_lasso
from lhb_engine.lasso.least_squares import LeastSquares
from lhb_engine.lasso.rank_one import rank_one
from tests.examples import examples
from tests.lhb_engine.dense_algebra import celer_solution, objective
from tests.lhb_engine.design.test_lagged_design import problems


def problem(seed, n=120, n_lags=20, dim=3, n_active=3, noise=0.1):
    """A design with full history, rewards of the model, and the truth."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (n + n_lags - 1, dim))
    rows = sparse.eye_array(len(contexts)).tocsr()[n_lags - 1 :]
    design = LaggedDesign(contexts, n_lags).measure(rows)
    theta = rng.standard_normal(dim)
    theta /= np.linalg.norm(theta)
    w = np.zeros(n_lags)
    w[rng.choice(n_lags, n_active, replace=False)] = rng.uniform(0.2, 1, n_active)
    y = design.matvec(np.outer(w, theta)) + noise * rng.standard_normal(n)
    return design, y, theta, w


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_zero_exactly_from_lambda_max_on(fit_intercept):
    design, y, *_ = problem(0)
    y = y + 3
    top = lambda_max(design, y, fit_intercept=fit_intercept)
    at = solve_group_lasso(design, y, top * (1 + 1e-9), fit_intercept=fit_intercept)
    below = solve_group_lasso(design, y, 0.98 * top, fit_intercept=fit_intercept)
    assert not at.phi.any()
    assert at.gap < 1e-8
    assert at.converged
    assert below.phi.any()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fraction", [0.5, 0.1, 0.02])
def test_agrees_with_celer(seed, fraction):
    design, y, *_ = problem(seed, n=60 + 40 * seed)
    X, lam = design.toarray(), fraction * lambda_max(design, y)
    ours = solve_group_lasso(design, y, lam, tol=1e-10)
    theirs = celer_solution(X, y, lam, design.dim)
    assert ours.converged
    at_zero = (y**2).sum() / (2 * len(y))
    assert abs(objective(X, y, ours.phi, lam) - objective(X, y, theirs, lam)) < 1e-8 * at_zero
    np.testing.assert_allclose(ours.phi, theirs, atol=2e-4)


def test_intercept_equals_the_centred_problem_and_ignores_a_baseline():
    design, y, *_ = problem(1)
    lam = 0.1 * lambda_max(design, y, fit_intercept=True)
    plain = solve_group_lasso(design, y, lam, fit_intercept=True, tol=1e-12)
    shifted = solve_group_lasso(design, y + 10, lam, fit_intercept=True, tol=1e-12)
    np.testing.assert_allclose(plain.phi, shifted.phi, atol=1e-6)
    assert shifted.intercept == pytest.approx(plain.intercept + 10, abs=1e-6)
    X = design.toarray()
    centred = celer_solution(X - X.mean(axis=0), y - y.mean(), lam, design.dim)
    np.testing.assert_allclose(plain.phi, centred, atol=1e-4)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 1.5), st.booleans())
def test_the_gap_bounds_the_excess_objective(seed, fraction, fit_intercept):
    design, y, *_ = problem(seed, n=40, n_lags=8, dim=2)
    column = design.intercept
    lam = fraction * lambda_max(design, y, fit_intercept=fit_intercept)
    rough = solve_group_lasso(design, y, lam, fit_intercept=fit_intercept, tol=1e-2)
    fine = solve_group_lasso(design, y, lam, fit_intercept=fit_intercept, tol=1e-12)
    X = design.toarray()
    excess = objective(X, y, rough.phi, lam, rough.intercept, column) - objective(
        X, y, fine.phi, lam, fine.intercept, column
    )
    centred = y - y.mean() if fit_intercept else y
    at_zero = (centred**2).sum() / (2 * len(y))
    assert -1e-10 * at_zero <= excess <= rough.gap * at_zero * (1 + 1e-9) + 1e-12 * at_zero


def test_warm_start_ends_at_the_same_place_in_fewer_iterations():
    design, y, *_ = problem(2)
    lam = 0.05 * lambda_max(design, y)
    cold = solve_group_lasso(design, y, lam, tol=1e-9)
    warm = solve_group_lasso(design, y, lam, tol=1e-9, warm_start=cold.phi)
    assert warm.converged
    assert warm.n_iterations <= 1 < cold.n_iterations
    np.testing.assert_allclose(warm.phi, cold.phi, atol=1e-5)


def test_noiseless_recovery_of_theta_and_w():
    design, y, theta, w = problem(3, n=200, noise=0.0)
    fit = solve_group_lasso(design, y, 1e-4 * lambda_max(design, y), tol=1e-10)
    found = rank_one(fit.phi)
    assert abs(found.theta @ theta) > 1 - 1e-6
    assert found.theta @ theta > 0
    np.testing.assert_allclose(found.weights, w, atol=2e-3)


@pytest.mark.parametrize(
    ("y", "lam", "match"),
    [
        (np.full(120, np.nan), 1.0, "finite"),
        (np.zeros(119), 1.0, "y must be"),
        (np.zeros(120), 0.0, "lam"),
        (np.zeros(120), np.inf, "lam"),
    ],
)
def test_bad_input_is_refused(y, lam, match):
    design, *_ = problem(0)
    with pytest.raises(ValueError, match=match):
        solve_group_lasso(design, y, lam)


def test_it_says_when_it_did_not_get_there():
    lasso = GroupLasso(*problem(0)[:2])
    lasso.max_iterations = 20
    fit = lasso.solve(0.1 * lasso.lambda_max, tol=1e-30)
    assert not fit.converged
    assert fit.gap > 1e-30


@settings(max_examples=examples(60), deadline=None)
@given(problems(), st.floats(0.01, 0.9), st.booleans())
def test_the_certificate_holds_by_dense_algebra(rows, fraction, fit_intercept):
    """Whatever the rows: gaps, spans, differences, trajectories, more unknowns than rows."""
    parts, n_lags, M, rng = rows
    design = LaggedDesign(parts, n_lags)
    design = design if M is None else design.measure(M)
    y = rng.standard_normal(design.n_rows)
    assume(design.n_rows > 0)
    top = lambda_max(design, y, fit_intercept=fit_intercept)
    assume(top > 1e-6)
    lam = fraction * top
    fit = solve_group_lasso(design, y, lam, fit_intercept=fit_intercept, tol=1e-8)
    assert fit.converged
    X, column = design.toarray(), design.intercept
    residual = y - X @ fit.phi.ravel() - fit.intercept * column
    centred = y
    if fit_intercept and np.linalg.norm(column) > 1e-9 * np.sqrt(len(y)):
        centred = y - column * (column @ y) / (column @ column)
        assert abs(column @ residual) < 1e-8 * np.linalg.norm(column) * np.linalg.norm(y)
    correlation = np.linalg.norm((X.T @ residual).reshape(n_lags, -1), axis=1) / len(y)
    dual_point = residual * min(1.0, lam / correlation.max())
    dual = (centred @ centred - (centred - dual_point) @ (centred - dual_point)) / (2 * len(y))
    primal = objective(X, y, fit.phi, lam, fit.intercept, column)
    # the residual scaled only downwards is a worse dual point than the solver's: some slack
    assert primal - dual <= 1e-3 * (centred @ centred) / (2 * len(y))
    np.testing.assert_array_less(correlation, lam * (1 + 1e-2))


def test_a_path_solves_each_lam_as_if_alone():
    design, y, *_ = problem(4, n=90)
    lasso = GroupLasso(design, y, fit_intercept=True)
    lams = (lasso.lambda_max * np.geomspace(1, 0.02, 12)).tolist()
    for lam, fit in zip(lams, lasso.path(lams, tol=1e-9), strict=True):
        alone = solve_group_lasso(design, y, lam, fit_intercept=True, tol=1e-9)
        assert fit.converged
        np.testing.assert_allclose(fit.phi, alone.phi, atol=1e-4)


@pytest.mark.parametrize("limit", [0, 2, 1000])
def test_every_method_finds_the_same_solution(limit):
    """Matrix-free alone, a working set that gives up, a working set to the end."""
    design, y, *_ = problem(5, n=50)
    lasso = GroupLasso(design, y)
    lasso._working_set.limit = min(limit, lasso._working_set.limit)
    lam = 0.1 * lasso.lambda_max
    fit = lasso.solve(lam, tol=1e-10)
    assert fit.converged
    theirs = celer_solution(design.toarray(), y, lam, design.dim)
    np.testing.assert_allclose(fit.phi, theirs, atol=1e-4)


@pytest.mark.parametrize("level", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize("n_lags", [1, 4])
def test_constant_contexts_beside_a_baseline_explain_nothing(level, n_lags):
    """X'y is rounding alone there, and no lam may chase it."""
    n = 200
    whole = LaggedDesign(np.full((n + n_lags - 1, 2), 0.3), n_lags)
    design = whole.select(np.arange(n_lags - 1, n + n_lags - 1))
    y = level * (3 + np.random.default_rng(0).standard_normal(n))
    assert lambda_max(design, y, fit_intercept=True) == 0.0
    assert lambda_max(design, y) > 0.1 * level
    found = solve_group_lasso(design, y, 1e-18 * level, fit_intercept=True)
    assert not found.phi.any()
    assert found.converged
    assert found.n_iterations == 0
    assert found.intercept == pytest.approx(y.mean())


def test_a_faint_correlation_is_not_rounding():
    design, y, *_ = problem(3)
    faint = design.scaled(np.array([1e-12, 1e-12, 1e-12]))
    assert lambda_max(faint, y) == pytest.approx(1e-12 * lambda_max(design, y))


@pytest.mark.parametrize("flattest", [1.0, 1e300, np.inf])
def test_backtracking_ends_wherever_it_starts(flattest, monkeypatch):
    """A descent check that never passes (rounding does that) stops at the steepest curvature."""
    design, y, *_ = problem(4)
    least = LeastSquares(design, y, False)
    monkeypatch.setattr(least, "predict", lambda phi: np.full(len(y), 1e3 + phi.sum() * 1e9))
    least.curvature = flattest
    accelerated_gradient(least, 0.1, 1e-6, np.zeros((20, 3)), 3)
    assert least.curvature <= max(flattest, GROWTH * design.square_sum / least.n)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("tol", [1e-4, 1e-10])
def test_the_gram_matrix_of_all_lags_changes_no_certificate(fit_intercept, tol, monkeypatch):
    """More rows than unknowns and most lags active: solved there, certified by the operator."""
    design, y, *_ = problem(6, n=400, n_lags=80, dim=4)
    lasso = GroupLasso(design, y + 1, fit_intercept=fit_intercept)
    lam = 0.005 * lasso.lambda_max
    fit = lasso.solve(lam, tol=tol)
    assert lasso._working_set.given_up
    assert lasso._equations is not None
    monkeypatch.setattr(
        "lhb_engine.lasso.group_lasso.normal_equations", lambda problem, target: None
    )
    without = GroupLasso(design, y + 1, fit_intercept=fit_intercept).solve(lam, tol=tol)
    assert fit.converged
    assert without.converged
    X, column = design.toarray(), design.intercept
    values = [objective(X, y + 1, f.phi, lam, f.intercept, column) for f in (fit, without)]
    centred = y - y.mean() if fit_intercept else y + 1
    assert abs(values[0] - values[1]) <= tol * (centred @ centred) / (2 * len(y))


def test_a_wrong_gram_matrix_is_found_out(monkeypatch):
    design, y, *_ = problem(6, n=400, n_lags=80, dim=4)
    right = solve_group_lasso(design, y, 0.005 * lambda_max(design, y), tol=1e-8)
    gram = LaggedDesign.gram
    monkeypatch.setattr(LaggedDesign, "gram", lambda self: 1.5 * gram(self))
    wrong = solve_group_lasso(design, y, 0.005 * lambda_max(design, y), tol=1e-8)
    assert wrong.converged
    assert wrong.n_iterations > right.n_iterations
    np.testing.assert_allclose(wrong.phi, right.phi, atol=1e-3)


def test_a_start_worse_than_zero_is_not_followed():
    """Far off and ill-conditioned: from there 20 000 iterations did not come back."""
    rng = np.random.default_rng(100221)
    design = LaggedDesign(1e4 + rng.standard_normal((40, 8)), 130).measure(
        sparse.random_array((8, 40), density=0.3, rng=rng)
    )
    y = np.zeros(8)
    y[3] = 1
    lam = 0.1 * lambda_max(design, y, fit_intercept=True)
    start = 100 * rng.standard_normal((130, 8))
    fit = solve_group_lasso(design, y, lam, fit_intercept=True, tol=1e-6, warm_start=start)
    assert fit.converged


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e-70, 1e70, 1e150, 1e300])
def test_what_squares_cannot_hold_is_refused(size):
    design, y, *_ = problem(0)
    with pytest.raises(ValueError, match="y must not be of size"):
        solve_group_lasso(design, size * y, 1.0)
    scaled = design.scaled(np.full(3, size))
    with pytest.raises(ValueError, match="contexts are too"):
        solve_group_lasso(scaled, y, 1.0)
    totals = scaled.measure(np.full((3, design.n_rows), 0.1))
    with pytest.raises(ValueError, match="contexts are too"):
        solve_group_lasso(totals, y[:3], 1.0)


@pytest.mark.parametrize("size", [1e-55, 1e55])
def test_what_squares_can_hold_is_solved(size):
    design, y, *_ = problem(0)
    lam = 0.1 * lambda_max(design, y)
    fit = solve_group_lasso(design, y, lam)
    for contexts in (1.0, size):
        scaled = design.scaled(np.full(3, contexts))
        other = solve_group_lasso(scaled, size * y, lam * size * contexts)
        assert other.converged
        np.testing.assert_allclose(other.phi * contexts / size, fit.phi, atol=1e-6)


def test_rows_of_nothing_explain_nothing():
    design, _, *_ = problem(0)
    fit = solve_group_lasso(design.measure(np.zeros((4, design.n_rows))), np.arange(4.0), 0.1)
    assert not fit.phi.any()
    assert fit.converged
