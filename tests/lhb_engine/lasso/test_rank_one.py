import numpy as np
import pytest

from lhb_engine.lasso.rank_one import rank_one


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_an_exact_product_is_taken_apart(dim):
    rng = np.random.default_rng(dim)
    theta = rng.standard_normal(dim)
    theta /= np.linalg.norm(theta)
    w = np.array([0.0, 0.5, 0.0, 0.2, 1.0])
    found = rank_one(np.outer(w, theta))
    np.testing.assert_allclose(found.theta, theta, atol=1e-12)
    np.testing.assert_allclose(found.weights, w, atol=1e-12)
    assert found.sign_margin == pytest.approx(1.0)
    assert found.singular_ratio is None or found.singular_ratio > 1e12


def test_the_sign_makes_the_weights_sum_positive():
    theta = np.array([0.6, -0.8])
    w = np.array([1.0, 0.3, -0.2])
    for sign in (1, -1):
        found = rank_one(sign * np.outer(w, theta))
        assert found.weights.sum() > 0
        np.testing.assert_allclose(found.theta, sign * theta, atol=1e-12)
    assert found.sign_margin == pytest.approx(1.1 / 1.5)


def test_weights_that_cancel_still_have_one_sign():
    phi = np.outer([1.0, -1.0], [0.6, 0.8])
    assert rank_one(phi).sign_margin == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_array_equal(rank_one(phi).theta, rank_one(phi.copy()).theta)


def test_zero_has_no_direction():
    assert rank_one(np.zeros((4, 3))) is None


def test_the_ratio_is_that_of_the_singular_values():
    phi = np.diag([3.0, 2.0])
    assert rank_one(phi).singular_ratio == pytest.approx(1.5)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e150])
def test_any_scale(scale):
    phi = np.outer([1.0, 0.0, 0.5], [0.6, 0.8]) * scale
    np.testing.assert_allclose(rank_one(phi).weights, np.array([1.0, 0, 0.5]) * scale)
