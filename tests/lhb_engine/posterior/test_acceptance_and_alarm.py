"""Acceptance: an installed estimate yields to a new one unless that is clearly worse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhb_engine.agents.anytime import Anytime
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import moments_of
from lhb_engine.posterior.acceptance_and_alarm import LaterMoments, LaterRows
from lhb_engine.posterior.predictor import Predictor, residuals
from tests.lhb_engine.played_histories import LAG_WEIGHTS, THETA, history


@pytest.mark.parametrize(("errors", "refused"), [(-3.0, False), (1.8, False), (2.2, True)])
def test_only_what_is_worse_by_two_standard_errors_is_refused(errors, refused):
    """(7.11): some excess is chance. The new baseline is tuned to an excess of so many errors."""
    rows = align(history(n=120, noise=0.5))
    old = Predictor(LAG_WEIGHTS, THETA, 0.0, 0.5, 60, True)
    since = LaterRows.after(old, rows)
    left = residuals(rows, THETA, LAG_WEIGHTS, np.zeros(1))[since.places]

    def excess(level):
        """In standard errors, for a new estimate that is off by `level` in every round."""
        change = (left - level) ** 2 - left**2
        return change.mean() / (change.std(ddof=1) / np.sqrt(len(change)))

    best = left.mean()  # the level that predicts these rows best
    grid = np.linspace(best, best + 1.0, 4001)[1:] if errors > 0 else np.array([best])
    level = grid[np.abs([excess(x) - errors for x in grid]).argmin()]
    if errors > 0:
        assert excess(level) == pytest.approx(errors, abs=0.01)
    new = Predictor(LAG_WEIGHTS, THETA, float(level), 0.5, 120, True)
    assert since.is_better_than(new, Anytime.settings.acceptance) == refused


@pytest.mark.parametrize("settled", [True, False])
def test_only_a_settled_estimate_raises_an_alarm(settled):
    """Before it has two rows a lag, large errors say that it is wrong, and no more."""
    rows = align(history(n=120, noise=0.05))
    off = Predictor(LAG_WEIGHTS, THETA, 3.0, 0.05, 60, settled)
    agreed = np.tile(THETA, (4, 1)), np.tile(LAG_WEIGHTS, (4, 1))
    found = LaterRows.after(off, rows).check(lambda: agreed)
    assert found["held_out_error"] > 100
    assert found["alarm"] is settled


@given(
    st.integers(0, 49),
    st.floats(-1.0, 1.0),
    st.floats(-3.0, 3.0),
    st.sampled_from([0.0, 0.5]),
)
def test_whether_rewards_still_rise_with_scores_is_known_from_moments_too(seed, share, level, rho):
    """It is the sign of the slope of rewards on scores, whatever the level of the rewards."""
    past = history(n=160, seed=seed)
    value = past.trajectories["0"].measurements.value
    value[80:] = level + share * value[80:]
    rows = align(past)
    known = Predictor(LAG_WEIGHTS, THETA, 0.3, 0.1, 80, True, rho)
    found = LaterRows.after(known, rows)
    assert found is not None
    moments = LaterMoments(known, moments_of(rows, found.places))
    assert moments.still_rises == found.still_rises
    if (share > 0.05 or share < -0.05) and rho == 0.0:
        assert found.still_rises == (share > 0)
