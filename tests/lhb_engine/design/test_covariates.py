"""Seasons and trends as columns of a fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhb_engine.design.covariates import Seasonality, TimeCovariates
from tests.lhb_engine.played_histories import history


@given(st.floats(2, 1e6), st.integers(1, 3), st.integers(0, 10**9))
def test_a_season_repeats(period, harmonics, start):
    season = Seasonality(period, min(harmonics, int(period / 2)))
    rounds = start + np.arange(5.0)
    found = season.columns(rounds)
    assert found.shape == (5, 2 * season.harmonics)
    np.testing.assert_allclose(season.columns(rounds % period), found, atol=1e-6)
    np.testing.assert_allclose(found[:, ::2] ** 2 + found[:, 1::2] ** 2, 1.0)


def test_harmonics_are_sine_and_cosine_of_multiples():
    rounds = np.array([1.0, 7.0, 30.0])
    angle = 2 * np.pi * rounds / 24
    expected = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    np.testing.assert_allclose(Seasonality(24, 2).columns(rounds).T, expected, atol=1e-12)


def test_groups_and_labels_go_with_the_columns():
    known = TimeCovariates((Seasonality(24, 2), Seasonality(168)), trend=True)
    assert known.groups == (2, 2, 2, 1)
    assert known.labels == (
        "season 24, harmonic 1",
        "season 24, harmonic 2",
        "season 168, harmonic 1",
        "trend",
    )
    found = known.columns(np.array([3.0, 4.0]))
    assert found.shape == (2, sum(known.groups))
    assert found[:, -1].tolist() == [3.0, 4.0]


def test_a_history_is_told_by_the_rounds_of_each_trajectory():
    """Also where a window has cut the first rounds off, and after covariates it has already."""
    past = history(n=50, n_parts=2, effects=np.ones(3))
    known = TimeCovariates((Seasonality(24),), trend=True)
    told = known.told(past)
    assert told.groups == (2, 1, 2, 1)
    for key, part in told.trajectories.items():
        rounds = part.first_round + np.arange(len(part.contexts))
        np.testing.assert_array_equal(part.covariates[:, :3], past.trajectories[key].covariates)
        np.testing.assert_array_equal(part.covariates[:, 3:], known.columns(rounds * 1.0))
    assert TimeCovariates().told(past) is past


@pytest.mark.parametrize(
    ("period", "harmonics"), [(1.5, 1), (np.inf, 1), (24, 13), (24, 0), (True, 1), (1000, 51)]
)
def test_what_is_no_season_is_refused(period, harmonics):
    with pytest.raises(ValueError, match="season"):
        Seasonality(period, harmonics)
