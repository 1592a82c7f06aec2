"""Levels of trajectories integrated out of moments and rows, against dense least squares."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.level_sums import LevelErrors, Levelled, level_moments
from lhb_engine.design.levels import without_levels
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from tests.examples import examples
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
    return History(DIM, parts, levels=100).over(FitWindow(1, 1, start - 1, LAGS, start - 1))


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


@settings(max_examples=examples(40), deadline=None, derandomize=True)
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

    free = len(error) - 1

    def at(tau: float) -> tuple[float, float]:
        """Minus twice the log likelihood without its part of the noise, and the square left."""
        inverse = np.linalg.inv(covariance(owner, c, tau))
        level = (c @ inverse @ error) / (c @ inverse @ c)
        left = error - level * c
        return np.log(c @ inverse @ c) - np.linalg.slogdet(inverse)[1], left @ inverse @ left

    def cost(log_tau: float, noise2: float) -> float:
        det, square = at(np.exp(log_tau))
        return 0.5 * (free * np.log(noise2) + square / noise2 + det)

    def least(value: float) -> float:
        """The cost of levels that differ so far, whatever the noise."""
        of = minimize_scalar(
            lambda t: cost(t, (value * np.exp(-t)) ** 2), bounds=(-3, 3), method="bounded"
        )
        return of.fun

    value = minimize_scalar(least, bounds=(0.1, 30.0), method="bounded").x
    limit = least(value) + 1.92
    low, high = (brentq(lambda v: least(v) - limit, value, end) for end in (1e-3, 1e3))
    moments = level_moments(align(past))
    found = moments.spread(by)
    np.testing.assert_allclose(found[1:], (value, low, high), rtol=0.01)
    rho = moments.correlation(by)
    assert np.sqrt(rho / (1.0 - rho)) == pytest.approx(found.tau, rel=0.015)


def test_with_many_levels_the_interval_is_as_narrow_as_they_tell():
    """Narrower than the steps of the spreads that are compared."""
    n_levels = 5000
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(40):
        levels = np.repeat(rng.normal(size=n_levels), 3)
        errors = levels + rng.normal(size=3 * n_levels)
        sums = errors.reshape(-1, 3).sum(axis=1)
        told = LevelErrors(
            *np.array([[3], [n_levels], [len(errors)], [sums.sum()], [sums @ sums / 3]])
        )
        rows = SimpleNamespace(matrix=np.array([[errors @ errors]]), n_rows=len(errors))
        said = {"begun": n_levels, "inexact": 0.0, "errors": lambda _, told=told: told}
        moments = SimpleNamespace(rows=rows, **said)
        found = Levelled.spread(moments, np.empty(0))
        covered += found.low <= 1.0 <= found.high
        assert found.low < found.value < found.high
        # sqrt(2 / n) of the variance of a mean of three, 4/3, over twice the spread
        assert (found.high - found.low) / 2 == pytest.approx(1.96 * 0.0135, rel=0.1)
    assert covered >= 34


def test_one_trajectory_has_no_level_beside_the_session_s():
    past = of_lengths([40], 1)
    found = level_moments(align(past))
    assert found.correlation(np.zeros(LAGS * DIM + 1)) == 0.0


def test_some_rows_are_those_of_a_smaller_history():
    past = replace(history(n=30, n_parts=4, spans=(1, 2)), levels=100)
    rows = align(past)
    late = rows.number > 60
    some, alone = (
        level_moments(rows, np.flatnonzero(late)).whitened(0.5),
        level_moments(rows.only(late)).whitened(0.5),
    )
    np.testing.assert_allclose(some.matrix, alone.matrix, rtol=1e-9, atol=1e-9)
