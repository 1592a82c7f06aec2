"""What the refit says of its own error where errors swing (docs/model.md (7.25))."""

import numpy as np
import pytest
from scipy.special import fdtrc

from lhb_engine.posterior.linearised_intervals import LEVERAGE, RankOneRefit

DIM, RHO = 3, 0.95


def refit_of(jacobian, errors, n_rows=None):
    """Return a refit of which only these are known; the rows may be a part of `n_rows`."""
    n, p = jacobian.shape
    n_rows = n_rows or n
    inverse = np.linalg.inv(jacobian.T @ jacobian * (n_rows / n))
    left = errors - jacobian @ np.linalg.lstsq(jacobian, errors)[0]
    variance = float(left @ left) / (n - p)
    lags = np.arange(p - DIM)
    weights, effects, basis = np.ones(len(lags)), np.zeros(1), np.eye(DIM)[:, 1:]
    found, rounds = (np.eye(DIM)[0], lags, weights, effects, basis), np.arange(1, n + 1)
    return RankOneRefit(*found, jacobian, inverse, left, rounds, variance, n_rows)


def differenced(values):
    return values[1:] - RHO * values[:-1]


def design(n, rng, p=6):
    """Contexts that change each round, and a constant, both less rho times those before."""
    return differenced(np.column_stack([rng.standard_normal((n + 1, p - 1)), np.ones(n + 1)]))


@pytest.mark.parametrize("n", [40, 41])
def test_it_is_whites_covariance_in_a_dense_fourier_basis(n):
    rng = np.random.default_rng(0)
    one = refit_of(design(n, rng), rng.standard_normal(n))
    basis = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n)
    moved = basis @ one.jacobian @ one.inverse
    leverage = np.sum(moved * (basis @ one.jacobian).conj(), axis=1).real
    assert leverage.max() > LEVERAGE  # the constant has its frequency for itself
    left = basis @ one.errors / (1.0 - np.minimum(leverage, LEVERAGE))
    expected = (moved.conj().T * np.abs(left) ** 2 @ moved).real
    of = np.array([4, 0, 5])
    np.testing.assert_allclose(one.by_frequency(of), expected[np.ix_(of, of)], rtol=1e-8)


def test_the_number_of_columns_at_once_does_not_matter():
    rng = np.random.default_rng(1)
    one = refit_of(design(120, rng, 12), rng.standard_normal(120))
    whole = one.by_frequency(np.arange(12))
    np.testing.assert_allclose(one.by_frequency(np.arange(12), n_columns=5), whole, rtol=1e-9)


@pytest.mark.parametrize("amplitude", [0.0, 2.0])
def test_it_is_as_large_as_estimates_are_off(amplitude):
    """A sine that is nearly orthogonal to the contexts is not as bad as white noise of its size."""
    rng = np.random.default_rng(2)
    n, rounds = 400, np.arange(401)
    jacobian = design(n, rng)
    solve = np.linalg.inv(jacobian.T @ jacobian) @ jacobian.T
    off, said, plain = [], [], []
    for _ in range(300):
        sine = amplitude * np.sin(2 * np.pi * (rounds / 24 + rng.random()))
        errors = differenced(sine) + 0.1 * rng.standard_normal(n)
        one = refit_of(jacobian, errors)
        off.append((solve @ errors)[:5] ** 2)
        said.append(np.diag(one.by_frequency(np.arange(5))))
        plain.append(np.diag(one.plain(np.arange(5))))
    off, said, plain = (np.mean(of) for of in (off, said, plain))  # 1500 squares: known to 4%
    assert said / off == pytest.approx(1.0, abs=0.2)
    if amplitude:
        assert plain / off > 3.0
    else:
        assert plain / off == pytest.approx(1.0, abs=0.2)


def test_of_twice_as_many_rows_half_is_said():
    """The rows at hand tell the errors' spectrum; how much is known is a matter of all rows."""
    rng = np.random.default_rng(3)
    jacobian, errors = design(2000, rng), rng.standard_normal(2000)
    here = refit_of(jacobian, errors).by_frequency(np.arange(5))
    there = refit_of(jacobian, errors, n_rows=4000).by_frequency(np.arange(5))
    np.testing.assert_allclose(np.diag(there), np.diag(here) / 2, rtol=0.02)


def test_first_rows_are_unlike_where_they_would_be_by_effects_of_their_own():
    """As by an F test of an unknown more for each of them; the last column is of them alone."""
    rng = np.random.default_rng(4)
    n, horizon = 90, 10
    jacobian = np.column_stack([rng.standard_normal((n, 7)), np.arange(1, n + 1) < 5])
    noise, added = rng.standard_normal((2, n))
    added[horizon:] = 0.0
    own = np.column_stack([jacobian, np.eye(n)[:, :horizon]])
    found = []
    for size in np.linspace(0.0, 4.0, 41):
        one = refit_of(jacobian, noise + size * added)
        rest = one.errors - own @ np.linalg.lstsq(own, one.errors)[0]
        left, free = float(rest @ rest), n - np.linalg.matrix_rank(own)
        more = np.linalg.matrix_rank(own) - 8
        ratio = (float(one.errors @ one.errors) - left) / more / (left / free)
        found.append(one.begins_unlike(horizon))
        assert found[-1] == (fdtrc(more, free, ratio) < 1e-3)
    assert 0 < sum(found) < 41
