"""Bands of draws are said where no interval is shown to hold, and marked so."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.posterior.profile_intervals import MOST_LAGS, drawn_intervals
from lhb_engine.posterior.rank_one_posterior import Posterior
from tests.lhb_engine.played_histories import DIM, HORIZON, LAG_WEIGHTS, THETA, history

RNG = np.random.default_rng(1)


def said(past, **options):
    return make_agent("anytime", dim=DIM, horizon=HORIZON, **options).fit(past)


def posterior(n_lags=3, n_draws=40, **others):
    thetas = np.array([0.6, 0.8]) + 0.1 * RNG.standard_normal((n_draws, 2))
    weights = 1.0 + 0.1 * RNG.standard_normal((n_draws, n_lags))
    known = {
        "theta": np.array([0.6, 0.8]),
        "weights": np.ones(n_lags),
        "draws": (thetas, weights),
        "n_features": 2,
    }
    rest = dict.fromkeys(("concentration", "inclusion", "sign", "effects", "included", "noise"))
    return Posterior(**(rest | known | others))


def holds(bands, values):
    low, high = np.moveaxis(np.array(bands), -1, 0)
    return (low <= values) & (values <= high)


@pytest.mark.parametrize("form", ["shared", "each"])
def test_a_fit_of_few_rows_has_bands_that_hold_its_estimate_and_are_marked(form):
    estimate = said(history(n=80), profiles=form)
    bands = estimate.intervals
    assert bands["drawn"]
    assert estimate.no_intervals.startswith("Too few rows")
    assert holds(bands["theta"], estimate.theta).all()
    lags = bands["lags"]
    assert {2, 7} <= {*lags}
    assert holds(bands["lag_weights"], estimate.lag_weights[lags]).all()
    assert np.abs(bands["theta"]).max() <= 1.0
    assert ("lag_profiles" in bands) == (form == "each")
    if form == "each":
        assert holds(bands["lag_profiles"], estimate.lag_profiles[:, :DIM]).all()
        assert holds(bands["lag_profiles"], np.outer(LAG_WEIGHTS, THETA)).mean() > 0.9
    assert holds(bands["theta"], THETA).all()
    assert holds(bands["lag_weights"], LAG_WEIGHTS[lags]).mean() > 0.9
    assert estimate.diagnostics["angle"] is None


def test_units_scale_bands():
    past = history(n=80)
    (part,) = past.trajectories.values()
    measured = replace(part.measurements, value=part.measurements.value * 2.0**20)
    other = replace(part, contexts=part.contexts * 2.0**10, measurements=measured)
    plain, scaled = (
        said(one).intervals for one in (past, replace(past, trajectories={"0": other}))
    )
    assert scaled["theta"] == plain["theta"]
    assert np.array_equal(scaled["lag_weights"], np.array(plain["lag_weights"]) * 2.0**10)


def test_bands_are_half_as_wide_again_as_draws():
    found = posterior(n_draws=4000)
    band = np.array(drawn_intervals([found])["lag_weights"])
    ends = np.quantile(found.along, (0.025, 0.975), axis=0).T
    middle = found.along.mean(axis=0)[:, None]
    np.testing.assert_allclose(band, middle + 1.5 * (ends - middle))


def test_weights_that_no_draw_has_below_0_have_no_band_below_0():
    found = posterior()
    near = replace(found, draws=(found.draws[0], RNG.exponential(1.0, (40, 3))))
    assert np.array(drawn_intervals([near])["lag_weights"]).min() == 0.0


def test_all_forms_that_may_hold_speak():
    found = posterior()
    phi = found.draws[0].sum(axis=1)[:, None, None] * np.array([[2.0, -1.0]] * 3)
    other = replace(found, form="smooth", draws=(phi.sum(axis=1), phi))
    alone, both = drawn_intervals([found]), drawn_intervals([found, other])
    other_way = np.array([2.0, -1.0]) / 5.0**0.5
    assert not holds(alone["theta"], other_way).any()
    assert holds(both["theta"], other_way).all()
    assert holds(both["theta"], found.theta).all()


def test_draws_of_shared_profiles_are_those_of_their_products():
    found = posterior()
    whole = replace(found, draws=(found.totals, found.phi))
    np.testing.assert_allclose(whole.along, found.along)
    np.testing.assert_allclose(whole.totals, found.totals)


def test_lags_that_draws_leave_out_have_no_band():
    """To be 0 in nearly all draws is not to be known to be 0."""
    found = posterior(3)
    draws = found.draws[1]
    draws[:, 1] = 0.0
    draws[2:, 2] = 0.0
    assert drawn_intervals([found])["lags"] == [0]
    draws[2, 2] = 0.1
    assert drawn_intervals([found])["lags"] == [0, 2]


def test_of_many_lags_those_that_reach_farthest_have_bands():
    n = 5 * MOST_LAGS
    weights = np.where(np.arange(n) % 5 == 3, 1.0, 0.1)
    draws = weights * (1.0 + 0.1 * RNG.standard_normal((40, n)))
    found = posterior(n, weights=weights, draws=(posterior(n).draws[0], draws))
    bands = drawn_intervals([found])
    assert bands["lags"] == list(range(3, n, 5))
    assert len(json.dumps(bands)) < 6000
