"""Seasons and trends as columns of a fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.covariates import Covariates, Seasonality
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
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
    known = Covariates((Seasonality(24, 2), Seasonality(168)), trend=True)
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
    known = Covariates((Seasonality(24),), trend=True)
    told = known.told(past)
    assert told.groups == (2, 1, 2, 1)
    for key, part in told.trajectories.items():
        rounds = part.first_round + np.arange(len(part.contexts))
        np.testing.assert_array_equal(part.covariates[:, :3], past.trajectories[key].covariates)
        np.testing.assert_array_equal(part.covariates[:, 3:], known.columns(rounds * 1.0))
    assert Covariates().told(past) is past


def test_named_columns_come_first_and_are_0_where_none_is_told():
    known = Covariates((Seasonality(24),), names=("rain", "wind"))
    assert known.groups == (1, 1, 2)
    assert known.labels == ("rain", "wind", "season 24, harmonic 1")
    told = known.told(history(n=50, n_parts=2))
    assert told.groups == (1, 1, 2)
    for part in told.trajectories.values():
        assert part.covariates.shape == (50, 4)
        assert not part.covariates[:, :2].any()
    past = history(n=50, effects=np.ones(3))
    with pytest.raises(ValueError, match="2 covariates, not 3"):
        Covariates(names=("rain", "wind", "sun")).told(past)


def test_what_was_measured_with_a_reward_is_in_its_row_and_no_other():
    """A row of three rounds has their sum, or what came with its reward, over the root of 3."""
    first = np.array([1, 4, 7, 9])
    last = np.array([3, 6, 8, 9])
    given = np.array([[np.nan, 5.0], [6.0, np.nan], [np.nan, np.nan], [9.0, 9.0]])
    measured = Measurements(first, last, np.ones(4), covariates=given)
    own = np.arange(20.0).reshape(10, 2)
    plain = Trajectory(np.ones((10, 1)), measured, covariates=own)
    past = History(
        1, {"a": plain, "b": replace(plain, measurements=Measurements(*[first[:1]] * 3))}
    )
    rows = align(replace(past, groups=(1, 1)).over(FitWindow(1, 1, 20, 1, 20)))
    sums = np.stack([own[a - 1 : b].sum(axis=0) for a, b in zip(first, last, strict=True)])
    expected = np.where(np.isnan(given), sums, given) / np.sqrt(last - first + 1)[:, None]
    found = rows.covariates[rows.number > 0]
    every = np.concatenate([expected, own[:1]])
    np.testing.assert_allclose(found[np.lexsort(found.T)], every[np.lexsort(every.T)])
    assert not rows.covariates[rows.number == 0].any()
    wrong = replace(measured, covariates=np.where(np.isnan(given), np.inf, given))
    past = History(1, {"a": replace(plain, measurements=wrong)}, groups=(1, 1))
    with pytest.raises(ValueError, match="finite"):
        align(past.over(FitWindow(1, 1, 10, 1, 10)))


@pytest.mark.parametrize(
    ("period", "harmonics"), [(1.5, 1), (np.inf, 1), (24, 13), (24, 0), (True, 1), (1000, 51)]
)
def test_what_is_no_season_is_refused(period, harmonics):
    with pytest.raises(ValueError, match="season"):
        Seasonality(period, harmonics)
