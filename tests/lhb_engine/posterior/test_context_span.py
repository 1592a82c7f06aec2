"""Fits with fewer rounds than features: in the span of the contexts, and as costly as that."""

import tracemalloc

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.coloured_noise import whitened
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from lhb_engine.posterior.sweep_products import ContextSpan
from tests.examples import repeats


def wide_history(dim, n=30, *, n_lags=8, n_parts=1, keep=1.0, level=0.0, seed=0):
    """`n` rounds of `dim` features in each of `n_parts` trajectories; two lags are active."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(dim) / np.sqrt(dim)
    parts = {}
    for i in range(n_parts):
        xi = rng.uniform(-1, 1, (n, dim))
        y = np.convolve(xi @ theta, [0.0, 0.7, 0.3])[:n] + level
        y += 0.05 * rng.standard_normal(n)
        rounds = np.flatnonzero(rng.random(n) < keep) + 1
        where = np.arange(i * n + 1, (i + 1) * n + 1)
        measured = Measurements.single(rounds, y[rounds - 1])
        parts[str(i)] = Trajectory(xi, measured, positions=where)
    last = n * n_parts
    return History(dim, parts).over(FitWindow(1, 1, last, n_lags, last))


def in_all_features(monkeypatch):
    """Run chains in all features, whatever the contexts span."""
    whole = classmethod(lambda cls, contexts: cls(contexts, None))
    monkeypatch.setattr(ContextSpan, "of", whole)


KINDS = {
    "complete": {},
    "a missing reward": {"keep": 0.7, "level": 2.0},
    "trajectories": {"n": 6, "n_parts": 5, "level": -1.0},
}


@pytest.mark.parametrize(
    ("kind", "signed", "rho"),
    [
        *(("complete", False, 0.0), ("a missing reward", True, 0.0), ("trajectories", False, 0.6)),
        *repeats(
            *(("complete", True, 0.0), ("complete", False, 0.6)),
            *(("a missing reward", False, 0.0), ("a missing reward", False, 0.6)),
            *(("trajectories", False, 0.0), ("trajectories", True, 0.0)),
        ),
    ],
)
def test_the_span_gives_the_posterior_of_all_features(monkeypatch, kind, signed, rho):
    rows = whitened(align(wide_history(90, **KINDS[kind])), rho)
    start = np.random.default_rng(1).standard_normal(90)
    known = {"start": start, "weights": np.array([0.0, 0.5, 0.5])}
    for more in ({}, known):
        reduced = rank_one_posterior(rows, [8, 30], signed=signed, **more)
        with monkeypatch.context() as patch:
            in_all_features(patch)
            dense = rank_one_posterior(rows, [8, 30], signed=signed, **more)
        for name in ("theta", "weights", "inclusion", "effects", "included"):
            ours, theirs = getattr(reduced, name), getattr(dense, name)
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9, err_msg=name)
        for ours, theirs in zip(reduced.draws, dense.draws, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)
        for name in ("concentration", "sign", "noise"):
            assert getattr(reduced, name) == pytest.approx(getattr(dense, name), rel=1e-7), name


def test_estimates_of_a_run_are_those_of_all_features(monkeypatch):
    """The second fit starts from the first one and compares itself with it."""
    past = wide_history(150, 80, n_lags=6)

    def estimates():
        agent = make_agent("anytime", dim=150, horizon=6)
        first = agent.fit(past.over(FitWindow(1, 1, 70, 6, 70)))
        agent.install(first)
        return [first, agent.fit(past)]

    reduced = estimates()
    in_all_features(monkeypatch)
    for ours, theirs in zip(reduced, estimates(), strict=True):
        assert ours.status == theirs.status == "ok"
        assert ours.diagnostics.keys() == theirs.diagnostics.keys()
        for name, value in theirs.diagnostics.items():
            expected = value if value is None else pytest.approx(value, rel=1e-7)
            assert ours.diagnostics[name] == expected, name
        np.testing.assert_allclose(ours.theta, theirs.theta, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_rounds", [5, 20, 40])
def test_a_span_holds_every_context(n_rounds):
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((n_rounds, 20))
    contexts[2] = 0.0
    contexts[3] = contexts[1]
    span = ContextSpan.of(contexts)
    vectors = rng.standard_normal((3, 20))
    inside = span.inside(vectors)
    np.testing.assert_allclose(contexts @ vectors.T, span.coordinates @ inside.T, atol=1e-12)
    np.testing.assert_allclose(span.whole(inside, vectors), vectors, atol=1e-12)
    assert span.coordinates.shape[1] == min(n_rounds - 1, 20)


def test_memory_is_linear_in_features_beyond_the_rounds():
    """No matrix of features by features: 12 rounds of 1000 features once took 0.9 GB."""

    def peak_bytes(dim):
        past, agent = wide_history(dim, 12), make_agent("anytime", dim=dim, horizon=100)
        tracemalloc.start()
        agent.fit(past)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(100)
    few, many = peak_bytes(2000), peak_bytes(16_000)
    assert many < 9 * few
    assert many < 16_000 * 8 * 1000
