"""What an estimate says of its own error is true, or is not said."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from tests.lhb_engine.played_histories import DIM, HORIZON, THETA, history


def fit(past):
    """Of sessions that tell that profiles are shared: else intervals are of all lags."""
    return make_agent("anytime", dim=DIM, horizon=HORIZON, profiles="shared").fit(past)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_the_true_direction_is_within_the_angle_that_is_said(noise):
    covered, sizes, angles = [], [], []
    for seed in range(40):
        estimate = fit(history(n=300, noise=noise, seed=seed))
        said = estimate.diagnostics["angle_95"]
        if said is None:
            continue
        assert estimate.diagnostics["angle"] < said
        assert "known to about" in estimate.message
        off = float(np.arccos(np.clip(estimate.theta @ THETA, -1.0, 1.0)))
        covered.append(off <= said)
        sizes.append(off / said)
        angles.append((off, estimate.diagnostics["angle"]))
    assert len(covered) > 30
    assert np.mean(covered) >= 0.9
    assert np.median(sizes) > 0.25  # nor is it said to be far off
    true, angle = np.sqrt(np.mean(np.square(angles), axis=0))
    assert 0.7 < true / angle < 1.4  # 40 angles in two dimensions: known to 8%


@pytest.mark.slow
def test_beside_a_season_the_angle_is_about_as_large_as_is_said():
    """A sine that nobody told of: what is left of it is no white noise (docs/model.md (7.25))."""
    season = 2.0 * np.sin(np.arange(300) * np.pi / 12)
    angles, covered = [], []
    for seed in range(20):
        past = history(n=300, noise=0.1, seed=seed)
        (part,) = past.trajectories.values()
        measured = replace(part.measurements, value=part.measurements.value + season)
        past = replace(past, trajectories={"0": replace(part, measurements=measured)})
        estimate = fit(past)
        said = estimate.diagnostics
        assert said["autocorrelation"] > 0.8
        if said["angle"] is None:
            continue
        off = float(np.arccos(np.clip(estimate.theta @ THETA, -1.0, 1.0)))
        angles.append((off, said["angle"]))
        covered.append(off <= said["angle_95"])
    assert len(angles) >= 10
    true, angle = np.sqrt(np.mean(np.square(angles), axis=0))
    assert 0.75 < angle / true < 1.35
    assert np.mean(covered) >= 0.9


def test_nothing_is_said_where_the_active_lags_are_not_known():
    """All lags are active, none of them clearly: the chains know only a part of the posterior."""
    for seed in range(5):
        past = history(n=150, weights=np.full(HORIZON, 1 / HORIZON), noise=0.5, seed=seed)
        estimate = fit(past)
        assert estimate.diagnostics["angle_95"] is None
        assert estimate.diagnostics["angle"] is None
        assert "known to about" not in estimate.message


def test_of_the_lags_called_active_at_most_one_in_ten_is_false():
    """On few rows. If half of the draws were enough, a third would be false."""
    true, false = 0, 0
    for seed in range(40):
        active = set(fit(history(n=60, noise=0.5, seed=seed)).active_lags)
        true += len(active & {2, 7})
        false += len(active - {2, 7})
    assert false <= 0.1 * (true + false)
    assert true >= 40
