"""The samplers of features' own lag profiles, against densities of the whole vector y."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from lhb_engine.design.moments import RowMoments
from lhb_engine.posterior import smooth_profiles
from lhb_engine.posterior.smooth_profiles import BENDS, FADES, SmoothProfiles, kernel_root
from lhb_engine.posterior.sparse_profiles import SparseProfiles, profile_posterior

LAGS, DIM, ROWS = 3, 2, 40
SHAPE = (np.log(0.5), FADES.index(4.0), BENDS.index(1.0))
NOISE2 = 0.5


@pytest.fixture(scope="module")
def data():
    """Rows [X, Z, y] with correlated columns, a mean, and two profiles of different lags."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((ROWS, LAGS * DIM)) @ (np.eye(6) + 0.3 * rng.standard_normal((6, 6)))
    z = np.ones((ROWS, 1))
    phi = np.array([0.3, 0.0, 0.0, -0.25, 0.1, 0.0])
    y = x @ phi + 0.4 + np.sqrt(NOISE2) * rng.standard_normal(ROWS)
    return x, z, y


def moments(x, z, y):
    both = np.column_stack([x, z, y])
    return RowMoments(both.T @ both, len(y), LAGS, DIM)


def beside(data, included):
    """The covariance of noise and, if it is included, of a baseline of variance mean(y^2)."""
    _, z, y = data
    return NOISE2 * np.eye(ROWS) + included * (y @ y / ROWS) * z @ z.T


@pytest.mark.parametrize("included", [0.0, 1.0])
def test_sparse_profiles_are_drawn_by_the_probability_of_every_set_of_lags(data, included):
    """Each feature has a density and a slab of its own."""
    x, _, y = data
    density, slab = np.array([0.3, 0.6]), np.array([0.1, 0.3])
    chains = SparseProfiles(moments(*data), 2000, np.random.default_rng(0))
    chains.density[:], chains.slab2[:], chains.noise2[:] = density, slab, NOISE2
    chains.covariates.included[:] = included
    drawn = []
    for sweep in range(40):
        chains._draw_weights()
        if sweep >= 10:
            drawn.append(chains.w.copy())
    drawn = np.concatenate(drawn)
    noise = beside(data, included)
    chances, means = [], []
    for on in product((0, 1), repeat=LAGS * DIM):
        on = np.array(on)
        width = np.diag(on * np.tile(slab, LAGS))
        cov = noise + x @ width @ x.T
        prior = np.where(on, np.tile(density, LAGS), 1 - np.tile(density, LAGS)).prod()
        chances.append(prior * np.exp(multivariate_normal(cov=cov).logpdf(y)))
        means.append(width @ x.T @ np.linalg.solve(cov, y))
    chances = np.array(chances) / np.sum(chances)
    sets = np.array(list(product((0, 1), repeat=LAGS * DIM)))
    np.testing.assert_allclose((drawn != 0).mean(axis=0), chances @ sets, atol=0.02)
    np.testing.assert_allclose(drawn.mean(axis=0), chances @ np.array(means), atol=0.005)


@pytest.mark.parametrize("included", [0.0, 1.0])
def test_smooth_profiles_have_the_posterior_of_their_covariance(data, included):
    """With one shape all profiles together are normal: their mean and covariance are known."""
    x, _, y = data
    chain = SmoothProfiles(moments(*data), np.random.default_rng(1))
    chain.moves, chain._shape = 0, [SHAPE] * DIM
    chain.noise2[:] = NOISE2
    chain.covariates.included[:] = included
    root, drawn = chain.covariates.root(chain.noise2)[0], []
    for _ in range(6000):
        for feature in range(DIM):
            chain._draw_profile([feature], root)
        drawn.append(chain.phi.T.ravel())
    lags = np.arange(LAGS)
    kernel = np.exp(-0.5 * (lags[:, None] - lags) ** 2 - (lags[:, None] + lags) / 4.0)
    prior = np.kron(0.25 * kernel, np.eye(DIM))
    gain = prior @ x.T @ np.linalg.inv(beside(data, included) + x @ prior @ x.T)
    np.testing.assert_allclose(np.mean(drawn, axis=0), gain @ y, atol=0.02)
    np.testing.assert_allclose(np.cov(np.transpose(drawn)), prior - gain @ x @ prior, atol=0.01)


def test_features_of_a_group_share_a_profile(data):
    """What each has of it is normal: the posterior's mean is that of weighted draws of the prior.

    Two features share a profile, a third one has its own.
    """
    x, z, y = data
    x = np.column_stack([x, np.random.default_rng(9).standard_normal((ROWS, LAGS))])
    x = x[:, [0, 6, 1, 2, 7, 3, 4, 8, 5]]  # the third feature stands between the two
    both = np.column_stack([x, z, y])
    rows = RowMoments(both.T @ both, ROWS, LAGS, 3)
    chain = SmoothProfiles(rows, np.random.default_rng(1), groups=[[0, 2]])
    chain.moves, chain._shape = 0, [SHAPE] * 3
    chain.noise2[:] = NOISE2
    chain.covariates.included[:] = 1.0
    root, drawn = chain.covariates.root(chain.noise2)[0], []
    for sweep in range(4000):
        for group in chain._groups:
            chain._draw_profile(group, root)
        if sweep >= 100:
            drawn.append(chain.phi.T.copy())
    n, rng = 200_000, np.random.default_rng(2)
    root = 0.5 * kernel_root(LAGS, 4.0, 1.0).T
    own, shared = rng.standard_normal((2, n, LAGS)) @ root
    share = rng.standard_normal((n, 2))
    phi = np.stack([share[:, :1] * shared, own, share[:, 1:] * shared], axis=2)
    left = y - phi.reshape(n, -1) @ x.T
    log = -0.5 * np.vecdot(left, left @ np.linalg.inv(beside((x, z, y), 1.0)))
    weights = np.exp(log - log.max())
    mean = np.tensordot(weights / weights.sum(), phi, 1)
    np.testing.assert_allclose(np.mean(drawn, axis=0), mean, atol=0.03)
    assert max(np.linalg.svd(one[:, [0, 2]])[1][1] for one in drawn[::100]) < 1e-12


def test_shapes_are_drawn_by_their_evidence(data, monkeypatch):
    """The others' profiles are 0: y then is normal, with a covariance for each shape."""
    x, z, y = data
    monkeypatch.setattr(smooth_profiles, "STEP", 0.0)
    rows = x * np.tile([1.0, 0.0], LAGS)
    chain = SmoothProfiles(moments(rows, z, y), np.random.default_rng(2))
    fades, bends = smooth_profiles.FADES, smooth_profiles.BENDS
    seen = np.zeros((len(fades), len(bends)))
    root = chain.covariates.root(chain.noise2)[0]
    chain.noise2[:] = NOISE2
    for _ in range(20000):
        chain._draw_profile([0], root)
        seen[chain._shape[0][1:]] += 1
    tau2, log = np.exp(2.0 * chain._middle), np.zeros_like(seen)
    own = rows[:, ::DIM]
    for i, fade in enumerate(fades):
        for j, bend in enumerate(bends):
            spread = own @ kernel_root(LAGS, fade, bend)
            cov = NOISE2 * np.eye(ROWS) + tau2 * spread @ spread.T
            log[i, j] = multivariate_normal(cov=cov).logpdf(y)
    chance = np.exp(log - log.max())
    np.testing.assert_allclose(seen / seen.sum(), chance / chance.sum(), atol=0.015)


def test_the_kernel_is_that_of_a_profile_that_fades_and_bends():
    lags = np.arange(20)
    kernel = np.exp(-0.5 * ((lags[:, None] - lags) / 2.0) ** 2 - (lags[:, None] + lags) / 8.0)
    root = kernel_root(20, 8.0, 2.0)
    assert root.shape[1] < 20
    np.testing.assert_allclose(root @ root.T, kernel, atol=1e-3)


@pytest.mark.parametrize("form", ["sparse", "smooth"])
def test_profiles_are_found_whatever_the_units(form):
    """Seeds and rows decide the draws, and units of features and rewards scale what is found."""
    rng = np.random.default_rng(7)
    phi = np.array([[1.0, 0.5], [-0.4, 0.5], [-0.3, 0.4], [-0.2, 0.3]])
    x = rng.standard_normal((500, 8))
    y = x @ phi.ravel() + 0.1 * rng.standard_normal(500)

    def found(by, of):
        both = np.column_stack([x * np.tile(by, 4), np.ones(500), y * of])
        return profile_posterior(RowMoments(both.T @ both, 500, 4, 2), [3], form, 2)

    one, other = found([1.0, 1.0], 1.0), found([4.0, 4.0], 8.0)
    np.testing.assert_allclose(one.weights, phi, atol=0.03)
    np.testing.assert_allclose(other.weights / 2.0, one.weights, rtol=1e-9)
    np.testing.assert_allclose(one.totals.mean(axis=0), one.weights.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(one.theta, [0.1 / np.hypot(0.1, 1.7), 1.0], atol=0.05)
    variance = (500 * 0.1**2 + 30 * 0.2 * y.var()) / 530  # (7.7)
    assert one.noise == pytest.approx(np.sqrt(variance), rel=0.05)
    assert one.inclusion.min() > 0.95
