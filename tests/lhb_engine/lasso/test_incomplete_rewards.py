"""Fits on what real rewards are, held against the least-squares problem built by hand."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lhb_engine.design.fit_rows import differenced_rows, measured_rows
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.lasso.group_lasso import lambda_max, solve_group_lasso
from tests.examples import examples
from tests.lhb_engine.dense_algebra import celer_solution, toeplitz


def trajectory(rng, n, dim=2):
    """A trajectory measured with gaps and over spans of up to four rounds, in shuffled lengths."""
    spans, t = [], 1
    while t <= n:
        m = int(rng.integers(1, 5))
        if rng.random() < 0.7 and t + m - 1 <= n:
            spans.append((t, t + m - 1))
        t += m
    first = np.array([a for a, _ in spans], dtype=np.int64)
    last = np.array([b for _, b in spans], dtype=np.int64)
    values = rng.standard_normal(len(spans))
    return Trajectory(rng.standard_normal((n, dim)), Measurements(first, last, values))


def by_hand(parts, window):
    """Rows, values and intercept column of the measurements wholly inside the window."""
    rows, values, column = [], [], []
    for part in parts:
        T = toeplitz([part.contexts], window.n_lags)
        m = part.measurements
        for a, b, value in zip(m.first, m.last, m.value, strict=True):
            if part.numbering[a - 1] >= window.first and part.numbering[b - 1] <= window.last:
                size = np.sqrt(b - a + 1)
                rows.append(T[a - 1 : b].sum(axis=0) / size)
                values.append(value / size)
                column.append(size)
    X = np.array(rows).reshape(len(rows), window.n_lags * parts[0].contexts.shape[1])
    return X, np.array(values), np.array(column)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 12))
@example(363, 1, 1)  # no measurement lies wholly inside
def test_rows_are_those_built_by_hand(seed, n_parts, n_lags):
    rng = np.random.default_rng(seed)
    parts, taken = [], 0
    for n in rng.integers(20, 40, n_parts).tolist():
        part = trajectory(rng, n)
        positions = taken + np.arange(1, n + 1)
        taken += n
        parts.append(
            Trajectory(part.contexts, part.measurements, positions=positions.astype(np.int64))
        )
    window = FitWindow(1, 8, taken - 3, n_lags, taken)
    history = History(2, {str(i): p for i, p in enumerate(parts)}).over(window)
    rows = measured_rows(history)
    X, y, column = by_hand(parts, window)
    np.testing.assert_allclose(rows.design.toarray(), X, atol=1e-12)
    np.testing.assert_allclose(rows.y, y, atol=1e-12)
    np.testing.assert_allclose(rows.design.intercept, column, atol=1e-12)
    np.testing.assert_allclose(rows.design.square_sum, (X**2).sum(), rtol=1e-9)
    phi, v = rng.standard_normal((n_lags, 2)), rng.standard_normal(len(y))
    np.testing.assert_allclose(rows.design.matvec(phi), X @ phi.ravel(), atol=1e-10)
    np.testing.assert_allclose(rows.design.rmatvec(v).ravel(), X.T @ v, atol=1e-10)


def test_a_fit_on_spans_and_gaps_is_that_of_the_dense_problem():
    rng = np.random.default_rng(3)
    parts = [trajectory(rng, 150), trajectory(rng, 90)]
    window = FitWindow(1, 1, 150, 8, 150)
    rows = measured_rows(History(2, {"a": parts[0], "b": parts[1]}, window))
    X, y, column = by_hand(parts, window)
    unit = column / np.linalg.norm(column)
    centred = [v - np.multiply.outer(unit, unit @ v) for v in (X, y)]
    lam = 0.2 * lambda_max(rows.design, rows.y, fit_intercept=True)
    ours = solve_group_lasso(rows.design, rows.y, lam, fit_intercept=True, tol=1e-10)
    theirs = celer_solution(*map(np.ascontiguousarray, centred), lam, 2)
    np.testing.assert_allclose(ours.phi, theirs, atol=1e-5)
    assert ours.intercept == pytest.approx(column @ (y - X @ theirs.ravel()) / (column @ column))


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6))
def test_differenced_rows_are_those_built_by_hand(seed):
    rng = np.random.default_rng(seed)
    q = 8
    part = trajectory(rng, 4 * q)
    window = FitWindow(1, q + 1, 4 * q, q, 4 * q)
    rows = differenced_rows(History(2, {"": part}).over(window), q)
    T = toeplitz([part.contexts], q)
    m = part.measurements
    value = {(a, b): v for a, b, v in zip(m.first, m.last, m.value, strict=True)}
    X, y = [], []
    for (a, b), v in value.items():
        partner = (a - 2 * q, b - 2 * q)
        if a > 3 * q and partner in value and partner[0] > q and partner[1] <= 2 * q:
            size = np.sqrt(b - a + 1)
            early = T[partner[0] - 1 : partner[1]].sum(axis=0)
            X.append((T[a - 1 : b].sum(axis=0) - early) / size)
            y.append((v - value[partner]) / size)
    assert rows.design.n_rows == len(y)
    if y:
        np.testing.assert_allclose(rows.design.toarray(), X, atol=1e-12)
        np.testing.assert_allclose(rows.y, y, atol=1e-12)
        assert not rows.design.intercept.round(12).any()


def test_order_of_arrival_does_not_matter():
    """Measurements are kept sorted by round; the fit sees a set of rows."""
    rng = np.random.default_rng(4)
    part = trajectory(rng, 120)
    window = FitWindow(1, 1, 120, 10, 120)
    order = rng.permutation(len(part.measurements))
    m = part.measurements
    shuffled = Measurements(m.first[order], m.last[order], m.value[order])
    fits = [
        BlockLasso(None, True).estimate(
            measured_rows(History(2, {"": Trajectory(part.contexts, one)}, window)), window
        )
        for one in (m, shuffled)
    ]
    np.testing.assert_allclose(fits[0].lag_weights, fits[1].lag_weights, atol=1e-6)


@pytest.mark.parametrize("span", [1, 7])
def test_a_baseline_of_ten_does_not_hide_theta(span):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n, dim, n_lags = 2800, 4, 14
        theta = rng.standard_normal(dim)
        theta /= np.linalg.norm(theta)
        w = np.zeros(n_lags)
        w[rng.choice(n_lags, 3, replace=False)] = 1 / 3
        contexts = rng.uniform(-1, 1, (n, dim))
        reward = np.convolve(contexts @ theta, w)[:n] + 0.1 * rng.standard_normal(n) + 10
        first = np.arange(1, n + 1, span)
        totals = Measurements(first, first + span - 1, reward.reshape(-1, span).sum(axis=1))
        window = FitWindow(1, 1, n, n_lags, n)
        history = History(dim, {"": Trajectory(contexts, totals)}, window)
        estimate = BlockLasso(None, True).estimate(measured_rows(history), window)
        assert abs(estimate.theta @ theta) > 0.99
        assert estimate.intercept == pytest.approx(10, abs=0.1)
