"""The block lasso from moments is that from rows: solution, certificate, and what it needs."""

import numpy as np
import pytest

from lhb_engine.design.moment_sums import design_moments
from lhb_engine.lasso.block_norms import block_norms, dual_value, relative_gap
from lhb_engine.lasso.gram_lasso import MOST_COLUMNS, GramLasso
from lhb_engine.lasso.group_lasso import GroupLasso, extrapolated_path
from lhb_engine.lasso.regularization import centred_rms
from tests.lhb_engine.lasso.test_group_lasso import problem


def both(seed=0, *, intercept=False, n_controls=0, **shape):
    """The same problem from rows and from moments; the covariates beside, as dense columns."""
    design, y, *_ = problem(seed, **shape)
    rng = np.random.default_rng(seed + 100)
    z = rng.standard_normal((len(y), n_controls)) + 1.0
    y = y + 3.0 * intercept + z.sum(axis=1)
    rows = GroupLasso(design, y, fit_intercept=intercept, controls=z)
    covariates = np.concatenate([design.intercept[:, None], z], axis=1)
    used = [*([0] if intercept else []), *range(1, 1 + n_controls)]
    moments = design_moments(design, y, covariates)
    return design, y, covariates[:, used], rows, GramLasso(moments, used)


def certified_gap(design, y, covariates, phi, lam):
    """The duality gap of phi by dense algebra, the covariates projected out of rows."""
    basis = np.linalg.qr(covariates)[0] if covariates.shape[1] else np.zeros((len(y), 0))
    X, n = design.toarray(), len(y)
    X, y = X - basis @ (basis.T @ X), y - basis @ (basis.T @ y)
    r = y - X @ phi.ravel()
    largest = block_norms((X.T @ r / n).reshape(phi.shape)).max()
    primal = r @ r / n / 2 + lam * block_norms(phi).sum()
    return relative_gap(primal, dual_value(r @ r / n, y @ r / n, largest, lam), y @ y / n)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n_controls", [0, 2])
@pytest.mark.parametrize("fraction", [0.5, 0.1, 0.01])
def test_it_solves_what_the_rows_do(intercept, n_controls, fraction):
    design, y, covariates, rows, gram = both(intercept=intercept, n_controls=n_controls)
    assert gram.lambda_max == pytest.approx(rows.lambda_max, rel=1e-12)
    np.testing.assert_allclose(gram.correlation, rows.correlation, atol=1e-12)
    lam = fraction * rows.lambda_max
    expected, found = rows.solve(lam, tol=1e-10), gram.solve(lam, tol=1e-10)
    assert found.converged
    np.testing.assert_allclose(found.phi, expected.phi, atol=1e-5)
    assert found.intercept == pytest.approx(expected.intercept, abs=1e-5)
    np.testing.assert_allclose(found.controls, expected.controls, atol=1e-5)
    true_gap = certified_gap(design, y, covariates, found.phi, lam)
    assert true_gap <= 1e-10
    loose = gram.solve(lam, tol=1e-3)
    assert loose.gap == pytest.approx(
        certified_gap(design, y, covariates, loose.phi, lam), abs=1e-12
    )
    residual = rows.problem.y - rows.problem.predict(found.phi)
    assert gram.residual_square(found.phi) == pytest.approx(residual @ residual, rel=1e-9)
    assert gram.square == pytest.approx(rows.problem.square, rel=1e-12)
    assert gram.given_square == pytest.approx(rows.problem.given_square, rel=1e-12)
    assert gram.entry_rms == pytest.approx(centred_rms(rows.problem), rel=1e-12)
    assert gram.n_unpenalised == len(rows.problem.basis)


@pytest.mark.parametrize("most_columns", [MOST_COLUMNS, 12])
def test_a_path_is_solved_to_its_gap(most_columns):
    """With a working set that fits, and with one that is too large at once."""
    _, _, _, rows, gram = both(1, intercept=True, n=400, n_lags=40, n_active=6)
    gram.most_columns = most_columns
    lams = (rows.lambda_max * np.geomspace(1.0, 0.01, 12)).tolist()
    for expected, found in zip(
        rows.path(lams), extrapolated_path(gram.solve, lams, 1e-6), strict=True
    ):
        assert found.gap <= 1e-6
        np.testing.assert_allclose(found.phi, expected.phi, atol=2e-3)


def test_nothing_is_found_where_nothing_is():
    design, y, *_ = problem(2)
    moments = design_moments(design, np.ones_like(y), design.intercept[:, None])
    gram = GramLasso(moments)
    assert gram.lambda_max == 0.0
    found = gram.solve(1.0)
    assert not found.phi.any()
    assert found.intercept == pytest.approx(1.0)
    assert GramLasso(design_moments(design, y, design.intercept[:, None]), []).n_unpenalised == 0


def test_a_control_that_repeats_another_changes_nothing():
    design, y, *_ = problem(3)
    z = np.arange(len(y), dtype=float)
    once = GramLasso(design_moments(design, y, np.stack([z], axis=1)))
    twice = GramLasso(design_moments(design, y, np.stack([z, 2 * z], axis=1)))
    assert twice.n_unpenalised == 1
    lam = 0.2 * once.lambda_max
    np.testing.assert_allclose(twice.solve(lam).phi, once.solve(lam).phi, atol=1e-9)


@pytest.mark.parametrize("wrong", [{"lam": 0.0}, {"lam": np.nan}, {"tol": 0.0}])
def test_what_cannot_be_solved_is_refused(wrong):
    gram = both(4)[-1]
    with pytest.raises(ValueError, match="positive"):
        gram.solve(**{"lam": 0.1, "tol": 1e-6, **wrong})
    with pytest.raises(ValueError, match="warm_start"):
        gram.solve(0.1 * gram.lambda_max, warm_start=np.ones((2, 2)))
