"""Levels of trajectories integrated out of moments and rows, against dense least squares."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.level_moments import SPREADS, level_moments
from lhb_engine.design.levels import without_levels
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from tests.lhb_engine.played_histories import history

DIM, LAGS = 2, 3


def of_lengths(lengths, spans, seed=0):
    """Trajectories of some rounds, measured over spans of `spans` rounds, about their levels."""
    rng = np.random.default_rng(seed)
    parts, start = {}, 1
    for i, n in enumerate(lengths):
        first = np.arange(1, n - spans + 2, spans)
        value = rng.normal(size=len(first)) + spans * 3.0 * rng.normal()
        parts[str(i)] = Trajectory(
            rng.uniform(-1, 1, (n, DIM)),
            Measurements(first, first + spans - 1, value),
            positions=np.arange(start, start + n),
        )
        start += n
    return History(DIM, parts, levels=True).over(FitWindow(1, 1, start - 1, LAGS, start - 1))


def dense(past):
    """The rows [X, c, y], their trajectories, and c, written out round by round."""
    rows, owner = [], []
    for i, part in enumerate(past.trajectories.values()):
        m = part.measurements
        for a, b, y in zip(m.first, m.last, m.value, strict=True):
            row = np.zeros((LAGS, DIM))
            for t in range(a, b + 1):
                for lag in range(min(LAGS, t)):
                    row[lag] += part.contexts[t - 1 - lag]
            size = b - a + 1
            rows.append(np.concatenate([row.ravel(), [size], [y]]) / np.sqrt(size))
            owner.append(i)
    rows = np.array(rows)
    return rows, np.array(owner), rows[:, LAGS * DIM]


def covariance(owner, c, tau):
    return np.eye(len(owner)) + tau**2 * np.outer(c, c) * (owner[:, None] == owner)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    spans=st.integers(1, 2),
    tau=st.sampled_from([0.0, 0.1, 1.0, 30.0]),
)
def test_moments_are_those_of_generalised_least_squares(lengths, spans, tau):
    lengths = [*lengths, 4]  # at least one row, and all lags
    past = of_lengths(lengths, spans)
    rows, owner, c = dense(past)
    moments = level_moments(align(past))
    rho = tau**2 / (1 + tau**2)
    inverse = np.linalg.inv(covariance(owner, c, tau))
    expected = rows.T @ inverse @ rows
    np.testing.assert_allclose(moments.whitened(rho).matrix, expected, rtol=1e-9, atol=1e-9)
    left = without_levels(rows, owner, c, rho)
    np.testing.assert_allclose(left.T @ left, expected, rtol=1e-9, atol=1e-9)
    assert moments.n_rows == len(rows)


@pytest.mark.parametrize("spans", [1, 3])
def test_the_spread_is_that_of_the_largest_restricted_likelihood(spans):
    past = of_lengths([9, 4, 6, 9, 3, 7, 5, 8], spans, seed=1)
    rows, owner, c = dense(past)
    by = np.random.default_rng(0).normal(size=LAGS * DIM + 1)
    error = rows[:, -1] - rows[:, :-1] @ by
    costs, values = [], []
    for tau in SPREADS:
        inverse = np.linalg.inv(covariance(owner, c, tau))
        level = (c @ inverse @ error) / (c @ inverse @ c)
        left = error - level * c
        square = left @ inverse @ left
        log_det = -np.linalg.slogdet(inverse)[1]
        free = len(error) - 1
        costs.append(0.5 * (free * np.log(square) + log_det + np.log(c @ inverse @ c)))
        values.append(tau * np.sqrt(square / free))
    costs = np.array(costs)
    best = int(np.argmin(costs))
    credible = np.flatnonzero(costs <= costs[best] + 1.92)
    found = level_moments(align(past)).spread(by)
    assert found.tau == SPREADS[best] > 0
    expected = [values[i] for i in (best, credible[0], credible[-1])]
    np.testing.assert_allclose(found[1:], expected, rtol=1e-6)


def test_one_trajectory_has_no_level_beside_the_session_s():
    past = of_lengths([40], 1)
    found = level_moments(align(past))
    assert found.correlation(np.zeros(LAGS * DIM + 1)) == 0.0


def test_some_rows_are_those_of_a_smaller_history():
    past = replace(history(n=30, n_parts=4, spans=(1, 2)), levels=True)
    rows = align(past)
    late = rows.number > 60
    some, alone = (
        level_moments(rows, np.flatnonzero(late)).whitened(0.5),
        level_moments(rows.only(late)).whitened(0.5),
    )
    np.testing.assert_allclose(some.matrix, alone.matrix, rtol=1e-9, atol=1e-9)
