"""Noise that remembers: its autocorrelation is found, and taken out of rows and predictions."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.signal import lfilter

from lhb_engine.agents import anytime_fit, make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.design.coloured_noise import FEWEST, autocorrelation, innovations, whitened
from lhb_engine.design.moment_sums import session_moments
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.acceptance_and_alarm import LaterRows
from lhb_engine.posterior.correlated_posterior import misfit
from lhb_engine.posterior.fit_data import RowData
from lhb_engine.posterior.predictor import Predictor, residuals
from tests.examples import repeats
from tests.lhb_engine.played_histories import (
    DIM,
    HORIZON,
    KINDS,
    LAG_WEIGHTS,
    THETA,
    history,
    rewards_of,
)

MIXED = {**KINDS, "seven": {"spans": (7,)}, "one lag": {"n": 60, "keep": 0.7}}


def coloured(rho, n=600, n_parts=1, keep=1.0, seed=0, size=0.3):
    """Rounds in trajectories that are measured singly, with AR(1) noise of their own."""
    rng = np.random.default_rng(seed)
    parts, position = {}, 1
    for i in range(n_parts):
        xi = rng.uniform(-1, 1, (n, DIM))
        noise = lfilter([size], [1.0, -rho], rng.standard_normal(n + 50))[50:]
        seen = np.flatnonzero(rng.random(n) < keep)
        measured = Measurements.single(seen + 1, (rewards_of(xi) + noise)[seen])
        parts[str(i)] = Trajectory(xi, measured, positions=np.arange(position, position + n))
        position += n
    window = FitWindow(1, 1, n * n_parts, HORIZON, n * n_parts)
    return History(DIM, parts).over(window)


def fit(past):
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    return agent.fit(past)


@pytest.mark.parametrize("kind", MIXED)
def test_whitened_rows_leave_the_innovations(kind):
    """What the true parameters leave of a whitened row is the row's innovation."""
    past = history(**MIXED[kind])
    if kind == "one lag":
        past = past.over(replace(past.window, n_lags=1))
    rows = align(past)
    weights = LAG_WEIGHTS[: rows.n_lags]
    left = innovations(rows, residuals(rows, THETA, weights, np.array([0.3])), 0.6)
    white = whitened(rows, 0.6)
    used, again = rows.number > 0, white.number > 0
    assert used.sum() == again.sum() == rows.n_rows
    expected = dict(zip(rows.number[used].tolist(), left[used].tolist(), strict=True))
    of_white = residuals(white, THETA, weights, np.array([0.3]))[again]
    assert ((white.intercept > 0) == again).all()
    for number, value in zip(white.number[again].tolist(), of_white.tolist(), strict=True):
        assert value == pytest.approx(expected[number], abs=1e-12)


def test_a_row_is_predicted_from_the_one_before_it_in_its_trajectory():
    y = np.array([1.0, 2.0, 4.0, 8.0])
    parts = {
        "a": Trajectory(np.ones((5, 1)), Measurements.single(np.array([1, 2, 4, 5]), y)),
        "b": Trajectory(np.ones((1, 1)), Measurements.single(np.array([1]), y[:1])),
    }
    parts["b"] = replace(parts["b"], positions=np.array([6]))
    rows = align(History(1, parts).over(FitWindow(1, 1, 6, 1, 6)))
    scale = np.sqrt(0.75)
    found = innovations(rows, rows.y, 0.5)
    np.testing.assert_allclose(found, [scale, 1.5, 0.0, 4.0 * scale, 6.0, scale])


@pytest.mark.parametrize(
    "shape",
    [{}, {"n": 40, "n_parts": 20, "keep": 0.8}, *repeats({"keep": 0.7}, {"n": 40, "n_parts": 20})],
)
def test_autocorrelation_is_found_whatever_is_measured(shape):
    for rho in (0.0, 0.8):
        estimate = fit(coloured(rho, **shape))
        assert estimate.diagnostics["autocorrelation"] == pytest.approx(rho, abs=0.1)
        assert estimate.sigma_hat == pytest.approx(0.3, rel=0.15)  # of the innovations
        assert estimate.theta @ THETA > 0.98


def test_strong_correlation_is_seen_in_the_first_forty_rows():
    """Most of the regret under such noise falls before round 100."""
    found = [
        fit(coloured(0.9, n=40, seed=seed)).diagnostics["autocorrelation"] for seed in range(5)
    ]
    assert np.median(found) > 0.5
    assert min(found) > 0.0
    found = [
        fit(coloured(0.0, n=40, seed=seed)).diagnostics["autocorrelation"] for seed in range(5)
    ]
    assert found == [0.0] * 5


def test_few_rows_and_faint_correlations_count_for_nothing():
    rows = align(coloured(0.0, n=FEWEST + 1))
    turns = np.where(np.arange(FEWEST + 1) % 20 < 10, 1.0, -1.0)
    assert autocorrelation(rows, turns) > 0.5
    assert autocorrelation(rows, -1.0 * np.cos(np.pi * np.arange(FEWEST + 1))) == 0.0
    few = align(coloured(0.0, n=FEWEST))
    assert autocorrelation(few, turns[:-1]) == 0.0
    assert autocorrelation(rows, np.ones(FEWEST + 1)) == 0.0  # a level is no correlation


def test_spans_of_one_length_are_compared_with_the_span_before():
    """Weekly sums of a rising line: the residual of a week is that of the week before."""
    past = history(n=1400, spans=(7,))
    (part,) = past.trajectories.values()
    m = part.measurements
    part = replace(part, measurements=replace(m, value=m.value + 0.1 * m.last))
    estimate = fit(replace(past, trajectories={"0": part}))
    assert estimate.diagnostics["autocorrelation"] > 0.9
    assert estimate.theta @ THETA > 0.99


def test_a_trend_is_not_taken_for_lags():
    estimates = []
    for seed in range(3):
        past = history(n=600, seed=seed)
        (part,) = past.trajectories.values()
        m = part.measurements
        part = replace(part, measurements=replace(m, value=m.value + 0.01 * m.first))
        estimates.append(fit(replace(past, trajectories={"0": part})))
    for estimate in estimates:
        assert estimate.diagnostics["autocorrelation"] > 0.9
        assert set(estimate.active_lags) == {2, 7}
        assert estimate.theta @ THETA > 0.99


def test_predictions_carry_the_autocorrelation_and_the_check_uses_it():
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    past = coloured(0.9, n=500)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 300, HORIZON, 300))))
    assert agent.prediction.autocorrelation > 0.8
    state = json.loads(json.dumps(agent.state()))
    again = type(agent).from_state(DIM, HORIZON, agent.options, state)
    assert again.state() == agent.state()
    estimate = again.fit(past.over(FitWindow(2, 1, 500, HORIZON, 500)))
    assert not estimate.diagnostics["alarm"]
    assert estimate.diagnostics["held_out_error"] == pytest.approx(1.0, abs=0.3)
    rows = align(past)
    blind = replace(agent.prediction, autocorrelation=0.0)
    assert (
        LaterRows.after(blind, rows).check(lambda: (THETA[None], LAG_WEIGHTS[None]))[
            "held_out_error"
        ]
        > 2.0
    )


def test_only_rows_after_the_last_one_seen_are_held_out():
    rows = align(history(n=100))
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(history(n=60)))
    later = LaterRows.after(agent.prediction, rows)
    assert rows.number[later.places].tolist() == list(range(61, 101))
    assert LaterRows.after(agent.prediction, align(history(n=60))) is None


@pytest.mark.parametrize("shape", [{}, {"keep": 0.7}, {"n": 40, "n_parts": 20, "keep": 0.8}])
@pytest.mark.parametrize("of", [RowData, session_moments])
def test_the_misfit_is_the_likelihood_of_normal_errors_at_its_best_variance(shape, of):
    """By the covariance rho^|s - t| of errors that follow each other, and 0 of others."""
    past = coloured(0.6, **{"n": 150, **shape})
    rows = align(past)
    data = of(rows)
    places = np.flatnonzero(rows.number > 0)
    left = residuals(rows, THETA, LAG_WEIGHTS, np.array([0.1]))[places]
    follows = rows.before[places] >= 0
    follows &= np.isin(places, rows.followers())
    run = np.cumsum(~follows)
    apart = np.abs(np.subtract.outer(np.arange(len(run)), np.arange(len(run))))

    def minus_twice_log(rho):
        covariance = np.where(run[:, None] == run, rho**apart, 0.0)
        variance = left @ np.linalg.solve(covariance, left) / len(left)
        return len(left) * np.log(variance) + np.linalg.slogdet(covariance)[1]

    def ours(rho):
        found = SimpleNamespace(theta=THETA, weights=LAG_WEIGHTS, effects=np.array([0.1]))
        return misfit(data, found, rho)

    for rho in (0.3, 0.9):
        expected = minus_twice_log(rho) - minus_twice_log(0.0)
        assert ours(rho) - ours(0.0) == pytest.approx(expected, rel=1e-6)


def test_what_a_wrong_direction_leaves_is_not_taken_for_noise():
    """Under lag weights that fade slowly its errors last, and with them the signal would go."""
    n = 200
    weights, theta = 0.9 ** np.arange(HORIZON), np.array([-0.6, -0.64, 0.48])
    past = history(n=n, noise=0.1, weights=weights)
    xi = past.trajectories["0"].contexts
    wrong = rewards_of(xi, weights, theta) - past.trajectories["0"].measurements.value
    assert np.corrcoef(wrong[1:], wrong[:-1])[0, 1] > 0.7
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.theta, agent.prediction = theta, Predictor(weights, theta, 0.0, 0.1, n // 2, True)
    estimate = agent.fit(past)
    assert estimate.diagnostics["autocorrelation"] == 0.0
    assert estimate.theta @ THETA > 0.999


def test_a_known_autocorrelation_is_compared_with_none_and_costs_no_other_fit(monkeypatch):
    calls = []
    true = anytime_fit.rank_one_posterior

    def counted(*args, **options):
        calls.append(args)
        return true(*args, **options)

    monkeypatch.setattr(anytime_fit, "rank_one_posterior", counted)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON, profiles="shared")
    past = coloured(0.9, n=500)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 300, HORIZON, 300))))
    assert len(calls) == 3  # with 0, with what it leaves, and with 0 to compare
    agent.fit(past.over(FitWindow(2, 1, 500, HORIZON, 500)))
    assert len(calls) == 5


def test_a_prediction_without_autocorrelation_is_read():
    """States of sessions from before there was any."""
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(history(n=100)))
    known = agent.prediction.to_json()
    assert "autocorrelation" not in known
    assert Predictor.from_json(known).autocorrelation == 0.0
