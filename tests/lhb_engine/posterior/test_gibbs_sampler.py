"""The sampler behind `anytime`: its rows, its residual, the proportions it draws in."""

import numpy as np
import pytest

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.fit_rows import measured_rows
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior import sweep_products
from lhb_engine.posterior.gibbs_sampler import Chains, gain, score_for
from tests.lhb_engine.played_histories import (
    DIM,
    KINDS,
    LAG_WEIGHTS,
    THETA,
    WITH_COVARIATES,
    history,
)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_place_are_the_rows_of_the_design(kind):
    past = history(**KINDS[kind])
    rows, dense = align(past), measured_rows(past)
    assert (rows.n_rows, rows.n_missing) == (dense.design.n_rows, dense.n_missing)
    phi = np.outer(LAG_WEIGHTS, THETA)
    signal = np.concatenate([np.zeros(rows.n_lags - 1), rows.contexts @ THETA])
    used = rows.intercept > 0
    values = np.convolve(signal, LAG_WEIGHTS)[rows.n_lags - 1 :][: len(rows.y)][used]
    expected = dense.design.matvec(phi)
    order = np.lexsort((dense.y, dense.design.intercept))
    ours = np.lexsort((rows.y[used], rows.intercept[used]))
    np.testing.assert_allclose(rows.y[used][ours], dense.y[order], atol=1e-12)
    np.testing.assert_allclose(rows.intercept[used][ours], dense.design.intercept[order])
    np.testing.assert_allclose(values[ours], expected[order], atol=1e-12)


@pytest.mark.parametrize("kind", KINDS | WITH_COVARIATES)
def test_chains_keep_their_residual_exact(kind):
    rows = align(history(**(KINDS | WITH_COVARIATES)[kind]))
    rng = np.random.default_rng(0)
    chains = Chains(rows, rng.standard_normal((4, DIM)), rng)
    for _ in range(3):
        chains.sweep()
        chains.covariates.draw(chains.rest, chains.noise2, rng)
        chains._draw_weights()
        for i in range(4):
            signal = np.concatenate([np.zeros(rows.n_lags - 1), rows.contexts @ chains.theta[i]])
            seen = np.convolve(signal, chains.w[i])[rows.n_lags - 1 :][: len(rows.y)]
            left = (rows.y - seen) * (rows.intercept > 0)
            np.testing.assert_allclose(chains.data.error[i], left, atol=1e-10)
            np.testing.assert_allclose(chains.rest[i], left @ rows.beside, atol=1e-9)
        assert (chains.w >= 0).all()


@pytest.mark.parametrize("signed", [False, True])
def test_chains_draw_lag_weights_in_their_true_proportions(signed):
    """Against the four sets of two lags, each integrated over a grid of their weights."""
    rng = np.random.default_rng(2)
    xi, y = rng.uniform(-1, 1, (12, 1)), 0.4 * rng.standard_normal(12)
    past = History(1, {"": Trajectory(xi, Measurements.single(np.arange(1, 13), y))})
    rows = align(past.over(FitWindow(1, 1, 12, 2, 12)))
    chains = Chains(rows, np.ones((200, 1)), np.random.default_rng(0), signed)
    noise2, slab2, density = 0.1, 0.3, 0.4
    for name, value in (("noise2", noise2), ("slab2", slab2), ("density", density)):
        setattr(chains, name, np.full(200, value))
    counts = np.zeros((2, 2))
    for _ in range(150):
        chains._draw_weights()
        on = (chains.w != 0).astype(int)
        np.add.at(counts, (on[:, 0], on[:, 1]), 1)
    grid = np.linspace(-4.0 if signed else 0.0, 4.0, 801)
    slab = np.exp(-0.5 * grid**2 / slab2)
    slab *= density / slab.sum()
    first, second = xi[:, 0], np.concatenate([[0.0], xi[:-1, 0]])
    spike = (grid == 0) * (1.0 - density)
    truth = np.zeros((2, 2))
    for i, a in enumerate((spike, slab)):
        for j, b in enumerate((spike, slab)):
            left = y - grid[:, None, None] * first - grid[None, :, None] * second
            likelihood = np.exp(-0.5 * (left**2).sum(axis=2) / noise2)
            truth[i, j] = a @ likelihood @ b
    np.testing.assert_allclose(counts / counts.sum(), truth / truth.sum(), atol=0.02)


@pytest.mark.parametrize("n_rounds", [8, 40])
def test_chains_stay_bounded_where_directions_outnumber_rows(n_rounds):
    """What data do not hold, the priors do: scale must not wander from theta into w and on."""
    rng = np.random.default_rng(0)
    xi, reward = rng.uniform(-1, 1, (n_rounds, 20)), rng.standard_normal(n_rounds)
    measured = Measurements.single(np.arange(1, n_rounds + 1), reward)
    past = History(20, {"": Trajectory(xi, measured)})
    rows = align(past.over(FitWindow(1, 1, n_rounds, min(n_rounds, 12), n_rounds)))
    chains = Chains(rows, rng.standard_normal((8, 20)), rng)
    for _ in range(200):
        chains.sweep()
        assert chains.w.max() < 1e3
    assert np.isfinite(chains.evidence()).all()


@pytest.mark.parametrize(("n_places", "n_lags"), [(1, 1), (40, 12), (7, 7)])
def test_lags_held_as_one_matrix_equal_those_by_transforms(n_places, n_lags):
    rng = np.random.default_rng(0)
    xi, w = rng.standard_normal((n_places, DIM)), rng.standard_normal((4, n_lags))
    error, theta = rng.standard_normal((4, n_places)), rng.standard_normal((4, DIM))
    dense = sweep_products.ShiftedContexts(xi, n_lags)
    by_transform = sweep_products.ShiftedContexts(xi, n_lags, most=0)
    for lags in (dense, by_transform):
        for i in range(4):
            each = np.array([np.convolve(w[i], x)[:n_places] for x in xi.T])
            np.testing.assert_allclose(lags.filtered(w)[i], each, atol=1e-12)
            signal = xi @ theta[i]
            back = [error[i, k:] @ signal[: n_places - k] for k in range(n_lags)]
            np.testing.assert_allclose(lags.correlated(error, theta)[i], back, atol=1e-12)
            mask = (error[i] > 0).astype(float)
            squares = [mask[k:] @ signal[: n_places - k] ** 2 for k in range(n_lags)]
            np.testing.assert_allclose(lags.squares(mask, signal[None])[0], squares, atol=1e-12)


@pytest.mark.parametrize("signed", [False, True])
def test_scores_and_gains_are_inverse(signed):
    score = np.linspace(0.0 if signed else -20.0, 9.0, 1001)
    np.testing.assert_allclose(score_for(gain(score, signed), signed), score, rtol=1e-3, atol=1e-3)


def test_evidence_where_no_lag_is_active():
    rows = align(history(n=40))
    chains = Chains(rows, np.ones((3, DIM)), np.random.default_rng(0))
    assert np.isfinite(chains.evidence()).all()
