"""Checks and whole fits from moments are those from rows."""

from dataclasses import replace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.history import FitWindow
from lhb_engine.posterior import fit_data
from lhb_engine.posterior.acceptance_and_alarm import LaterMoments, LaterRows
from lhb_engine.posterior.fit_data import RowData, later_rows, moments_pay
from lhb_engine.posterior.predictor import Predictor
from tests.lhb_engine.draw_little import draw_little
from tests.lhb_engine.played_histories import (
    DIM,
    EFFECTS,
    HORIZON,
    KINDS,
    LAG_WEIGHTS,
    THETA,
    WITH_COVARIATES,
    history,
)
from tests.lhb_engine.posterior.test_coloured_noise import coloured


@pytest.fixture
def by_moments(monkeypatch):
    """Return a switch: whether all fits work from moments, or from rows."""

    def switch(on):
        monkeypatch.setattr(fit_data, "moments_pay", lambda rows: on)

    return switch


@pytest.mark.parametrize(("old_rho", "new_rho"), [(0.0, 0.0), (0.6, 0.6), (0.0, 0.8)])
@pytest.mark.parametrize("kind", KINDS | WITH_COVARIATES)
def test_held_out_checks_are_those_of_the_rows(by_moments, kind, old_rho, new_rho):
    rows = align(history(noise=0.5, baseline=0.4, **(KINDS | WITH_COVARIATES)[kind]))
    cut = int(rows.number.max()) // 2
    effects = EFFECTS if rows.groups else np.zeros(0)
    old = Predictor(LAG_WEIGHTS * 0.9, THETA, 0.2, 0.4, cut, True, old_rho, effects=effects * 0.95)
    new = Predictor(LAG_WEIGHTS * 1.1, THETA, 0.5, 0.4, 2 * cut, True, new_rho, effects=effects)
    by_moments(False)
    rows_say = later_rows(old, rows)
    by_moments(True)
    moments_say = later_rows(old, rows)
    assert isinstance(rows_say, LaterRows)
    assert isinstance(moments_say, LaterMoments)
    assert moments_say.n_rows == rows_say.n_rows
    assert moments_say.mean_square == pytest.approx(rows_say.mean_square, rel=1e-9)
    excess, error = rows_say.excess(new)
    found, found_error = moments_say.excess(new)
    assert found == pytest.approx(excess, rel=1e-7, abs=1e-12)
    assert found_error == pytest.approx(error, rel=0.35)  # of normal errors, not of these
    rng = np.random.default_rng(0)
    thetas = THETA + 0.1 * rng.standard_normal((9, DIM))
    weights = LAG_WEIGHTS + 0.1 * rng.random((9, HORIZON))
    doubt = rows_say.doubt(thetas, weights)
    assert moments_say.doubt(thetas, weights) == pytest.approx(doubt, rel=1e-7)
    draws = lambda: (thetas, weights)  # noqa: E731
    assert moments_say.check(draws) == pytest.approx(rows_say.check(draws), rel=1e-7)
    assert later_rows(replace(old, last_round=10**6), rows) is None


def test_the_error_of_an_excess_is_right_on_average():
    """(10.8) against the spread of the excess itself over 300 histories."""
    old = Predictor(LAG_WEIGHTS * 0.9, THETA, 0.0, 0.4, 100, True)
    new = Predictor(LAG_WEIGHTS * 1.2, THETA, 0.1, 0.4, 200, True)
    found = []
    for seed in range(300):
        rows = align(history(n=200, noise=0.5, seed=seed))
        later = np.flatnonzero(rows.number > 100)
        since = LaterMoments(old, session_moments(rows, places=later))
        found.append(since.excess(new))
    means, errors = np.array(found).T
    assert errors.mean() == pytest.approx(means.std(), rel=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_autocorrelation_is_that_of_the_rows(kind):
    rows = align(history(noise=0.5, **(KINDS[kind] | {"n": 1200})))
    y = np.where(rows.number > 0, rows.y + 2.0 * np.sin(np.arange(len(rows.y)) / 20), 0.0)
    rows = replace(rows, y=y)
    for level in (0.0, 1.0):
        one = RowData(rows).autocorrelation(THETA, LAG_WEIGHTS * 0.5, np.array([level]))
        other = session_moments(rows).autocorrelation(THETA, LAG_WEIGHTS * 0.5, np.array([level]))
        assert other == pytest.approx(one, abs=1e-9)
    assert 0 < other < 1


@pytest.mark.parametrize("rho", [0.0, 0.8])
@pytest.mark.parametrize("shape", [{}, {"keep": 0.7}, {"n": 60, "n_parts": 10}])
def test_a_run_of_fits_is_that_from_rows(by_moments, rho, shape, monkeypatch):
    draw_little(monkeypatch)
    past = coloured(rho, **shape)
    last = past.window.last
    runs = []
    for on in (False, True):
        by_moments(on)
        agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
        estimates = []
        for i, due in enumerate((last // 3, last // 2, last)):
            estimates.append(agent.fit(past.over(FitWindow(i + 1, 1, due, HORIZON, due))))
            agent.install(estimates[-1])
        runs.append(estimates)
    assert runs[0][-1].status == "ok"
    for ours, theirs in zip(*runs, strict=True):
        assert ours.status == theirs.status
        assert ours.diagnostics.keys() == theirs.diagnostics.keys()
        assert ours.active_lags == theirs.active_lags
        if theirs.theta is not None:
            np.testing.assert_allclose(ours.theta, theirs.theta, atol=1e-6)
            np.testing.assert_allclose(ours.lag_weights, theirs.lag_weights, atol=1e-6)
        for name in ("sigma_hat", "intercept", "n_rows"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-6), name
        for name, value in theirs.diagnostics.items():
            expected = value if value is None else pytest.approx(value, abs=1e-5)
            assert ours.diagnostics[name] == expected, name


def test_rows_are_kept_where_they_are_few_or_unknowns_many():
    rows = align(history(n=400))
    assert moments_pay(rows)
    assert not moments_pay(rows.rows(1, 200))
    wide = replace(rows, contexts=np.zeros((400, 100)))  # 1200 unknowns
    assert not moments_pay(wide)
