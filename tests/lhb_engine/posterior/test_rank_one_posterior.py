"""What is averaged over the posterior's draws."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.rank_one_posterior import context_scale, rank_one_posterior
from tests.lhb_engine.played_histories import history


@pytest.mark.parametrize("signed", [False, True])
def test_theta_is_where_the_mean_of_what_actions_are_worth_points(signed):
    """(7.9), (7.10): a draw by which actions are worth more counts for more."""
    found = rank_one_posterior(align(history(n=15, noise=1.0)), [1], signed=signed)
    thetas, weights = found.draws
    worth = weights.sum(axis=1)[:, None] * thetas
    lengths = np.linalg.norm(worth, axis=1)
    mean = worth.mean(axis=0)
    np.testing.assert_allclose(found.theta, mean / np.linalg.norm(mean), rtol=1e-9)
    # features have nearly one scale here, by which the posterior measures lengths
    assert found.concentration == pytest.approx(np.linalg.norm(mean) / lengths.mean(), rel=0.05)
    some = lengths > 0
    units = (worth[some] / lengths[some, None]).mean(axis=0)
    assert found.theta @ units < 0.99 * np.linalg.norm(units)  # it is not the mean direction


@pytest.mark.parametrize("n", [8, 200])
def test_features_are_scaled_by_their_size_and_by_eight_rows_of_the_common_one(n):
    """A feature that is always zero has the common size of the others."""
    rows = align(history(n=n))
    rows = replace(rows, contexts=rows.contexts * np.array([100.0, 0.0, 0.01]))
    size = np.sqrt((rows.contexts**2).sum(axis=0) / rows.n_rows)
    common = np.sqrt(size[0] * size[2])
    expected = size ** (n / (n + 8)) * common ** (8 / (n + 8))
    expected[1] = common
    np.testing.assert_allclose(context_scale(rows), expected)
    assert np.isfinite(rank_one_posterior(rows, [1]).theta).all()


ARMS = np.array([0.5, 0.3, 0.2, 0.1, 0.0, 0.4, 0.9, 0.8])
WEIGHTS = np.array([0.5, 0.0, 0.3, 0.0, 0.0, 0.2])


@pytest.mark.parametrize(("n_varied", "seed"), [(40, 3), (60, 4)])
def test_what_all_arms_share_says_nothing_of_what_stands_out(n_varied, seed):
    """Fixed arms have a feature each: one is 1 in every round, as the baseline is."""
    rng, n = np.random.default_rng(seed), 900
    varied = np.repeat(rng.integers(8, size=n), 4)[:n_varied]
    arms = np.append(varied, np.repeat(rng.choice([6, 7, 7, 7], n), 20))[:n]
    rewards = np.convolve(ARMS[arms], WEIGHTS)[:n] - 0.3 + 0.3 * rng.standard_normal(n)
    rounds = np.arange(1, n + 1)
    part = Trajectory(np.eye(8)[arms], Measurements(rounds, rounds, rewards))
    rows = align(History(8, {"": part}, FitWindow(1, 1, n, 20, n)))
    for data in (rows, session_moments(rows).whitened(0.0)):
        assert rank_one_posterior(data, [seed]).sign == 1.0
