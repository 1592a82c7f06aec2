"""The presample as one more feature: its columns, from rows and from moments."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.coloured_noise import whitened
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.design.presample import with_presample
from lhb_engine.history import Trajectory
from lhb_engine.posterior.rank_one_posterior import rank_one_posterior
from tests.lhb_engine.played_histories import DIM, HORIZON, KINDS, history


def lagged_past(past):
    """How much of each row's lags is before round 1, (n_rows, HORIZON), written out."""
    rows = []
    for part in past.trajectories.values():
        m = part.measurements
        for a, b in zip(m.first.tolist(), m.last.tolist(), strict=True):
            before = [sum(t - lag < 1 for t in range(a, b + 1)) for lag in range(HORIZON)]
            rows.append(np.array(before) / np.sqrt(b - a + 1))
    return np.array(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_the_presample_is_seen_where_lags_reach_before_round_1(kind):
    past = history(**KINDS[kind])
    plain, rows = align(past), align(with_presample(past))
    assert rows.n_lags == HORIZON
    places = np.flatnonzero(rows.number > 0)
    places = places[np.argsort(rows.number[places], kind="stable")]
    found = np.array([[rows.contexts[p - lag, DIM] for lag in range(HORIZON)] for p in places])
    np.testing.assert_allclose(found, lagged_past(past), atol=1e-12)
    moments, before = session_moments(rows), session_moments(plain)
    own = np.arange(HORIZON * (DIM + 1)).reshape(HORIZON, -1)[:, :DIM].ravel()
    kept = np.append(own, [HORIZON * (DIM + 1), HORIZON * (DIM + 1) + 1])
    expected = before.widened(HORIZON).sums
    np.testing.assert_allclose(moments.sums[:, kept[:, None], kept], expected, atol=1e-9)
    assert (rows.n_rows, rows.n_missing) == (plain.n_rows, plain.n_missing)
    gram = moments.rows.gram.reshape(HORIZON, DIM + 1, HORIZON, DIM + 1)[:, DIM, :, DIM]
    np.testing.assert_allclose(gram, found.T @ found, atol=1e-9)


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_differences_of_rows_take_the_presamples_too(rho):
    rows = align(with_presample(history(n=40)))
    white = whitened(rows, rho)
    later = session_moments(rows).whitened(rho)
    places = np.flatnonzero(white.number > 0)
    lagged = np.array([[white.contexts[p - lag] for lag in range(HORIZON)] for p in places])
    lagged = lagged.reshape(len(places), -1)
    np.testing.assert_allclose(later.gram, lagged.T @ lagged, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_moments_draw_the_same(kind):
    rows = align(with_presample(history(**KINDS[kind])))
    data = rows, session_moments(rows).rows
    both = [rank_one_posterior(one, [1, 2], value_before=1.0) for one in data]
    assert both[0].n_features == DIM
    assert len(both[0].theta) == DIM + 1
    for name in ("theta", "weights", "effects"):
        one, other = (getattr(each, name) for each in both)
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_part_of_a_trajectory_keeps_its_rounds():
    past = history(n=60)
    [part] = past.trajectories.values()
    rows = part.measurements.between(40, 60)
    late = Trajectory(part.contexts[20:], rows, 21, part.numbering[20:])
    cut = replace(past, trajectories={"0": late})
    whole, some = align(with_presample(past)).rows(40, 60), align(with_presample(cut))
    shown = whole.number > 0
    np.testing.assert_array_equal(whole.round[shown], some.round[some.number > 0])
    assert not some.contexts[:, DIM].any()
