"""Smooth lag weights beside few ones: which kind counts, and what the draws are of."""

import numpy as np
import pytest

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior import smooth_profiles
from lhb_engine.posterior.anytime_settings import AnytimeSettings
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from lhb_engine.posterior.smooth_profiles import SmoothChains

DIM, HORIZON = 4, 24
THETA = np.array([0.5, -0.5, 0.5, 0.5])
FADING = 0.9 ** np.arange(HORIZON) / np.sum(0.9 ** np.arange(HORIZON))
FEW = np.where(np.isin(np.arange(HORIZON), [3, 11]), 0.5, 0.0)


def rows(weights, seed, *, n=300, noise=0.5):
    rng = np.random.default_rng(seed)
    xi = rng.uniform(-1, 1, (n, DIM))
    rewards = np.convolve(xi @ THETA, weights)[:n] + noise * rng.standard_normal(n)
    part = Trajectory(xi, Measurements.single(np.arange(1, n + 1), rewards))
    return align(History(DIM, {"": part}).over(FitWindow(1, 1, n, HORIZON, n)))


def test_evidence_says_which_kind_of_lag_weights_counts():
    few = [rank_one_posterior(rows(FEW, seed, noise=0.1), [seed]) for seed in range(3)]
    fading = [rank_one_posterior(rows(FADING, seed), [seed]) for seed in range(6)]
    assert max(found.smooth for found in few) == 0.0
    assert all(set(np.flatnonzero(found.inclusion > 0.95)) == {3, 11} for found in few)
    assert np.mean([found.smooth for found in fading]) > 0.3


def test_many_small_lag_weights_are_learned_from_fewer_rows():
    one = AnytimeSettings(smooth_chains=0)
    off = {0: 0.0, 8: 0.0}
    for seed in range(12):
        seen = rows(FADING, seed, noise=0.7)
        for settings in (one, AnytimeSettings()):
            theta = rank_one_posterior(seen, [seed], settings=settings).theta
            off[settings.smooth_chains] += 1.0 - float(theta @ THETA)
    assert off[8] < off[0]


@pytest.mark.parametrize(("least", "errors_last"), [(6 * HORIZON, False), (10 * HORIZON, True)])
def test_with_few_rows_there_is_one_kind(least, errors_last):
    """Fewer rows are enough where errors do not last."""

    def has_two(n):
        thetas = [
            rank_one_posterior(
                rows(FADING, 0, n=n),
                [1],
                errors_last=errors_last,
                settings=AnytimeSettings(smooth_chains=chains),
            ).theta
            for chains in (0, 8)
        ]
        return not np.array_equal(*thetas)

    assert [has_two(least - 1), has_two(least)] == [False, True]


def test_the_draws_of_smooth_lag_weights_are_those_of_dense_algebra():
    """With theta, the noise and the shape held, w is normal with the ridge solution's moments."""
    moments = session_moments(rows(FADING, 2)).whitened(0.0)
    chains = SmoothChains(moments, np.tile(THETA, (4000, 1)), np.random.default_rng(0))
    chains.moves, chains._shapes = 0, [(np.log(0.2), 3, 2)] * 4000
    chains.theta = np.tile(THETA, (4000, 1))
    chains._draw_weights()
    gram = moments.gram.reshape(HORIZON, DIM, HORIZON, DIM)
    a = np.einsum("kilj,i,j->kl", gram, THETA, THETA) / chains.noise2[0]
    v = moments.target @ THETA / chains.noise2[0]
    root = 0.2 * smooth_profiles.kernel_root(
        HORIZON, smooth_profiles.FADES[3], smooth_profiles.BENDS[2]
    )
    inner = np.linalg.inv(np.eye(root.shape[1]) + root.T @ a @ root)
    cov = root @ inner @ root.T
    mean, sd = cov @ v, np.sqrt(np.diag(cov))
    np.testing.assert_allclose(chains.w.mean(axis=0), mean, atol=float(5 * sd.max() / 63))
    np.testing.assert_allclose(chains.w.std(axis=0), sd, rtol=0.08)


@pytest.mark.parametrize(("size", "sure"), [(6.0, 1.0), (0.0, 0.0)])
def test_how_surely_a_lag_pays(size, sure):
    """A draw's theta may have any length and sign, with lag weights that make up for it."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((200, 5)) + size
    factor = rng.choice([-1.0, 1.0], (200, 1)) * rng.uniform(0.5, 2.0, (200, 1))
    found = SmoothChains.active_lags(factor * THETA, drawn / factor)
    np.testing.assert_allclose(found, sure, atol=1e-3)
