"""What the chains draw, and how they are weighed, against densities of the whole vector y."""

import numpy as np
import pytest
from scipy.special import betaln, entr, expit, log_ndtr
from scipy.stats import multivariate_normal, multivariate_t

from lhb_engine.design.aligned_rounds import AlignedRounds, align
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.gibbs_sampler import Chains
from tests.lhb_engine.played_histories import (
    DIM,
    EFFECTS,
    HORIZON,
    LAG_WEIGHTS,
    THETA,
    WITH_COVARIATES,
    history,
)


def without_contexts(y):
    """Rows in which nothing but the baseline and the noise is left to draw."""
    n = len(y)
    past = History(
        2, {"": Trajectory(np.zeros((n, 2)), Measurements.single(np.arange(1, n + 1), y))}
    )
    return align(past.over(FitWindow(1, 1, n, 3, n)))


def test_noise_is_drawn_with_its_prior_of_thirty_rows():
    """(7.7) on 10 rows: its mean and its spread are those of an inverse gamma of shape 20."""
    y = np.random.default_rng(3).standard_normal(10)
    y -= y.mean()
    n_chains = 4000
    chains = Chains(without_contexts(y), np.ones((n_chains, 2)), np.random.default_rng(0))
    chains.sweep()
    shape, scale = 0.5 * (10 + 30), 0.5 * y @ y + 15 * 0.2 * y.var()
    mean = scale / (shape - 1)
    sd = mean / np.sqrt(shape - 2)
    assert chains.noise2.mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(n_chains))
    assert chains.noise2.std() == pytest.approx(sd, rel=0.1)


@pytest.mark.parametrize("level", [0.0, 0.3, 0.6])
def test_a_baseline_is_drawn_as_often_as_it_is_likely(level):
    """A level must pay for the prior's width: without that, every chain has a baseline."""
    y = level + np.random.default_rng(3).standard_normal(20)
    n_chains, noise2 = 4000, 0.8
    rows = without_contexts(y)
    chains = Chains(rows, np.ones((n_chains, 2)), np.random.default_rng(0))
    chains.noise2[:] = noise2
    chains.sweep()
    plain = noise2 * np.eye(20)
    wide = plain + (y @ y / 20) * np.ones((20, 20))
    odds = multivariate_normal(cov=wide).logpdf(y) - multivariate_normal(cov=plain).logpdf(y)
    chance = expit(odds)
    error = np.sqrt(chance * (1 - chance) / n_chains)
    assert 0.1 < chance < 0.95
    assert chains.covariates.included.mean() == pytest.approx(chance, abs=4 * error)


@pytest.mark.parametrize("kind", WITH_COVARIATES)
def test_covariates_are_included_as_often_as_they_are_likely(kind):
    """Over many draws, against the density of y under each set of groups."""
    rows = align(history(**(WITH_COVARIATES[kind] | {"effects": 0.25 * EFFECTS, "noise": 0.7})))
    rows = rows.rows(1, 24)
    used = rows.intercept > 0
    y, z, n = rows.y[used], rows.beside[used], int(used.sum())
    n_chains, noise2 = 2000, 0.6
    chains = Chains(rows, np.ones((n_chains, DIM)), np.random.default_rng(0))
    level = np.tile(rows.y @ rows.beside, (n_chains, 1))
    counts = np.zeros((2, 2, 2))
    for _ in range(20):
        chains.covariates.draw(level, np.full(n_chains, noise2), chains.rng)
        np.add.at(counts, tuple(chains.covariates.included.astype(int).T), 1)
    size = np.mean(z**2, axis=0)
    size[0] = min(1.0, size[0])
    logs = np.zeros((2, 2, 2))
    for included in np.ndindex(logs.shape):
        prior = np.repeat(included, (1, *rows.groups)) * (y @ y / n) / size
        cov = noise2 * np.eye(n) + (z * prior) @ z.T
        logs[included] = multivariate_normal(cov=cov).logpdf(y)
    truth = np.exp(logs - logs.max())
    np.testing.assert_allclose(counts / counts.sum(), truth / truth.sum(), atol=0.02)
    assert (truth / truth.sum()).max() < 0.9


def weights_given(columns, y, precision, slab2):
    """Mean and covariance of normal weights, given y of a known precision."""
    gain = slab2 * columns.T @ precision
    return gain @ y, slab2 * np.eye(columns.shape[1]) - gain @ columns * slab2


def evidence(rows: AlignedRounds, chains: Chains, i: int) -> float:
    """Of chain i, by (7.8): y's density under its active lags, and their entropy.

    That all half-normal weights come out above 0 is the product of their own chances.
    """
    used = rows.intercept > 0
    y, c, z = rows.y[used], rows.intercept[used], rows.beside[used]
    signal = np.concatenate([np.zeros(rows.n_lags - 1), rows.contexts @ chains.theta[i]])
    windows = np.lib.stride_tricks.sliding_window_view(signal, len(rows.y))
    columns = windows[::-1].T[used]  # (n_rows, n_lags)
    w, noise2, slab2 = chains.w[i], chains.noise2[i], chains.slab2[i]
    active = w != 0
    m, n = int(active.sum()), len(y)
    y2 = y @ y / n
    told = z if 4 * z.shape[1] <= n else c[:, None]
    variance = np.mean((y - told @ np.linalg.lstsq(told, y)[0]) ** 2)
    size = np.mean(z**2, axis=0)
    size[0] = min(1.0, size[0])
    included = np.repeat(chains.covariates.included[i], (1, *rows.groups))
    beside = (z * (included * y2 / size)) @ z.T
    cov = np.eye(n) + columns[:, active] @ columns[:, active].T * (slab2 / noise2)
    cov += beside / noise2
    # sigma^2 ~ inverse gamma(15, 3 S^2) makes of the normal a t of 30 degrees of freedom
    total = multivariate_t(shape=cov * (0.2 * variance), df=30).logpdf(y)
    total += betaln(1 + m, 1 + rows.n_lags - m)
    if not chains.signed and m:
        mean, spread = weights_given(columns[:, active], y, np.linalg.inv(cov), slab2 / noise2)
        above = log_ndtr(mean / np.sqrt(noise2 * np.diag(spread)))
        total += m * np.log(2.0) + above.sum()
    off = noise2 * np.eye(n) + beside
    for k in range(rows.n_lags):
        left = y - columns @ np.where(np.arange(rows.n_lags) == k, 0.0, w)
        on = off + slab2 * np.outer(columns[:, k], columns[:, k])
        odds = multivariate_normal(cov=on).logpdf(left) - multivariate_normal(cov=off).logpdf(left)
        if not chains.signed:
            mean, spread = weights_given(columns[:, [k]], left, np.linalg.inv(on), slab2)
            odds += np.log(2.0) + log_ndtr(mean[0] / np.sqrt(spread[0, 0]))
        chance = expit(odds + np.log(chains.density[i] / (1 - chains.density[i])))
        total += entr(chance) + entr(1 - chance)
    return total


@pytest.mark.parametrize(
    "kind",
    [
        {"baseline": 0.3},
        {"spans": (1, 3), "baseline": 0.3},
        {"effects": 0.5 * EFFECTS, "baseline": 0.3},
        {"effects": 0.5 * EFFECTS, "spans": (1, 3)},
    ],
)
@pytest.mark.parametrize("signed", [True, False])
def test_chains_are_weighed_by_the_density_of_the_rewards_and_the_entropy(kind, signed):
    rows = align(history(n=30, noise=0.5, **kind))
    n_chains = 16
    rng = np.random.default_rng(1)
    w = np.abs(rng.standard_normal((n_chains, HORIZON)))
    w[rng.random((n_chains, HORIZON)) < 0.7] = 0.0
    w[:6] = LAG_WEIGHTS
    theta = THETA + 0.3 * rng.standard_normal((n_chains, DIM))
    chains = Chains(rows, theta, rng, signed, w)
    chains.sweep()
    assert 0 < chains.covariates.included.mean() < 1
    expected = np.array([evidence(rows, chains, i) for i in range(n_chains)])
    found = chains.evidence()
    assert expected.std() > 2
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-3)
