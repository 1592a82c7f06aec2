"""From moments the chains draw what they draw from rows, but for rounding."""

import numpy as np
import pytest

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.coloured_noise import whitened
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.posterior.gibbs_sampler import Chains
from lhb_engine.posterior.rank_one_posterior import context_scale, rank_one_posterior
from tests.examples import repeats
from tests.lhb_engine.played_histories import (
    DIM,
    HORIZON,
    LAG_WEIGHTS,
    THETA,
    WITH_COVARIATES,
    history,
)
from tests.lhb_engine.played_histories import KINDS as WITHOUT_COVARIATES

KINDS = WITHOUT_COVARIATES | WITH_COVARIATES
STATE = ("theta", "w", "noise2", "slab2", "density", "rest")


def rows_and_moments(kind, rho=0.0, **shape):
    rows = align(history(baseline=0.7, **(KINDS[kind] | shape)))
    return whitened(rows, rho), session_moments(rows).whitened(rho)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("rho", [0.0, 0.6])
@pytest.mark.parametrize("kind", KINDS)
def test_sweeps_and_evidence_are_those_of_the_rows(kind, rho, signed):
    both = []
    for data in rows_and_moments(kind, rho, noise=0.5):
        rng = np.random.default_rng(1)
        theta = rng.standard_normal((6, DIM))
        w = np.tile(LAG_WEIGHTS, (6, 1)) * (rng.random((6, HORIZON)) < 0.7)
        both.append(Chains(data, theta, rng, signed, w))
    for sweep in range(6):
        for chains in both:
            chains.sweep()
        for name in STATE:
            ours, theirs = (getattr(chains, name) for chains in both)
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-8, err_msg=name)
        ours, theirs = (chains.covariates.included for chains in both)
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(both[0].effects(), both[1].effects(), atol=1e-8)
        np.testing.assert_allclose(both[0].evidence(), both[1].evidence(), rtol=1e-8, atol=1e-6)
        if sweep == 3:
            for chains in both:
                chains.keep(np.array([5, 5, 0, 1, 1, 2]))
    assert both[0].covariates.included.mean() > 0
    assert (both[0].w != 0).any()
    assert ((both[0].w < 0).any()) == signed


@pytest.mark.parametrize("rho", [*repeats(0.0), 0.6])
@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_is_that_of_the_rows(kind, rho):
    rows, moments = rows_and_moments(kind, rho)
    np.testing.assert_allclose(context_scale(moments), context_scale(rows), rtol=1e-12)
    known = {"start": np.array([0.5, -0.5, 0.7]), "weights": LAG_WEIGHTS}
    for start in ({}, known):
        ours, theirs = (rank_one_posterior(data, [8, 5], **start) for data in (moments, rows))
        for name in ("theta", "weights", "inclusion", "effects", "included"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-7)
        for name in ("concentration", "sign", "noise"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-6), name
        for one, other in zip(ours.draws, theirs.draws, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        assert ours.theta @ THETA > 0.99


def test_sizes_of_contexts_and_rewards_do_not_matter():
    moments = session_moments(align(history(noise=0.1)))
    plain = rank_one_posterior(moments.rows, [8, 5])
    large = rank_one_posterior(moments.divided(np.full(DIM, 1e-6), 1e5).rows, [8, 5])
    np.testing.assert_allclose(large.theta, plain.theta, atol=1e-7)
    np.testing.assert_allclose(large.weights * 1e11, plain.weights, atol=1e-7)
