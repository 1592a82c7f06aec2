"""The fit as people meet it: units, degenerate data, what it reports."""

import json

import numpy as np
import pytest
from scipy.stats import f as f_distribution

from lhb_engine.design.fit_rows import FitRows
from lhb_engine.design.lagged_design import LaggedDesign
from lhb_engine.history import FitWindow
from lhb_engine.lasso.fit import BlockLasso
from lhb_engine.lasso.regularization import entry_rms, noise_adaptive
from lhb_engine.lasso.standard_errors import intervals, said_of
from lhb_engine.simulation.environment import LongHorizonEnvironment
from lhb_engine.simulation.play import simulate

DIM, N_LAGS = 4, 30


def rows_of(seed, n=400, noise=0.1, contexts=None, signal=1.0, dim=DIM, n_lags=N_LAGS):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(dim)
    theta /= np.linalg.norm(theta)
    w = np.zeros(n_lags)
    w[rng.choice(n_lags, 3, replace=False)] = 1 / 3
    if contexts is None:
        contexts = rng.uniform(-1, 1, (n, dim))
    mean = signal * np.convolve(contexts @ theta, w)[:n]
    y = mean + noise * rng.standard_normal(n)
    return FitRows(LaggedDesign(contexts, n_lags), y, "full", 0), theta, w


def estimate(rows, fit_intercept=False, **options):
    window = FitWindow(1, 1, rows.design.n_rows, rows.design.n_lags, rows.design.n_rows)
    return BlockLasso(None, fit_intercept, **options).estimate(rows, window)


@pytest.mark.parametrize("by", [2.0**20, 2.0**-40, 1e6, 1e-6, 1e-150, 1e150])
def test_units_of_reward_do_not_matter(by):
    rows, *_ = rows_of(0)
    plain = estimate(rows)
    scaled = estimate(FitRows(rows.design, rows.y * by, "full", 0))
    assert scaled.active_lags == plain.active_lags
    for name in ("lag_weights", "sigma_hat", "lam", "lambda_max"):
        np.testing.assert_allclose(getattr(scaled, name), by * getattr(plain, name), rtol=1e-5)
    np.testing.assert_allclose(scaled.theta, plain.theta, rtol=1e-5)
    if np.log2(by).is_integer():
        np.testing.assert_array_equal(scaled.theta, plain.theta)


@pytest.mark.parametrize("by", [2.0**10, 1e3, 1e-9, 1e12])
def test_units_of_contexts_do_not_matter(by):
    rows, *_ = rows_of(1)
    plain = estimate(rows)
    scaled = estimate(FitRows(LaggedDesign(rows.design.contexts * by, N_LAGS), rows.y, "full", 0))
    assert scaled.active_lags == plain.active_lags
    np.testing.assert_allclose(scaled.theta, plain.theta, rtol=1e-5)
    np.testing.assert_allclose(scaled.lag_weights, plain.lag_weights / by, rtol=1e-5)


def test_features_of_unequal_scale_are_standardised_and_theta_is_in_the_user_s_units():
    rng = np.random.default_rng(2)
    unequal = np.array([1.0, 1e4, 1e-3, 1.0])
    contexts = rng.uniform(-1, 1, (400, DIM)) * unequal
    direction = np.array([0.5, -0.5, 0.5, 0.5]) / unequal
    y = np.convolve(contexts @ direction, [0, 0, 0.7, 0, 0.3])[:400]
    y += 0.05 * rng.standard_normal(400)
    rows = FitRows(LaggedDesign(contexts, 10), y, "full", 0)
    with_it = estimate(rows, standardize=True)
    found = np.outer(with_it.lag_weights, with_it.theta)[2] * unequal
    np.testing.assert_allclose(found, 0.7 * direction * unequal, atol=0.05)
    without = estimate(rows)
    missed = np.outer(without.lag_weights, without.theta)[2] * unequal
    assert abs(missed[2]) < 0.1 < abs(found[2])


def test_lambda_is_the_formula():
    rows, *_ = rows_of(3)
    fit = noise_adaptive(rows.design, rows.y)
    X = rows.design.toarray()
    sd = np.sqrt((X**2).mean())
    unit = sd * (np.sqrt(DIM) + np.sqrt(2 * np.log(N_LAGS))) / np.sqrt(len(rows.y))
    assert fit.lam == pytest.approx(0.5 * fit.sigma_hat * unit)
    assert fit.sigma_hat == pytest.approx(0.1, rel=0.15)
    centred = X - X.mean(axis=0)
    assert entry_rms(rows.design, True) == pytest.approx(np.sqrt((centred**2).mean()))


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_sigma_never_falls_below_its_floor(noise):
    rows, theta, _ = rows_of(4, noise=noise)
    fit = estimate(rows)
    assert fit.sigma_hat >= 0.02 * np.std(rows.y) * (1 - 1e-12)
    assert fit.theta @ theta > 0.9999


def test_sigma_holds_where_unknowns_exceed_rows():
    for seed in range(10):
        rows, *_ = rows_of(seed, n=60)
        assert estimate(rows).sigma_hat > 0.05


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_pure_noise_rarely_has_active_lags(fit_intercept):
    n_false = [
        len(estimate(rows_of(100 + s, n=n, signal=0.0)[0], fit_intercept).active_lags)
        for n in (60, 400)
        for s in range(20)
    ]
    assert np.mean([n > 0 for n in n_false]) <= 0.1
    assert max(n_false) <= N_LAGS / 10


def test_active_lags_are_the_true_ones_given_data():
    for seed in range(5):
        rows, _, w = rows_of(seed, n=1500)
        assert set(estimate(rows).active_lags) == set(np.flatnonzero(w).tolist())


def test_active_lags_under_greedy_play_are_true_at_the_rate_that_is_said():
    """Selected contexts have a mean, and any lag can stand for the mean reward they bring."""
    n_fits = n_wrong = n_found = 0
    for seed in range(12):
        world = LongHorizonEnvironment.draw(dim=5, horizon=60, sparsity=4, seed=seed)
        played = simulate("ad_lasso", world, n_rounds=900, seed=seed)
        for found in played.estimates:
            false = set(found.active_lags) - set(np.flatnonzero(world.weights).tolist())
            n_fits, n_wrong = n_fits + 1, n_wrong + bool(false)
            n_found += len(found.active_lags) if found is played.estimates[-1] else 0
    assert n_wrong <= 0.1 * n_fits
    assert n_found >= 0.9 * 12 * 4


DEGENERATE = {
    "constant contexts": np.ones((200, DIM)),
    "constant feature": np.column_stack([np.ones(200), np.random.default_rng(0).uniform(size=200)]),
    "collinear features": np.outer(np.random.default_rng(1).standard_normal(200), [1.0, 2.0]),
    "collinear lags": np.tile(np.array([[1.0, 0.5], [-1.0, 0.2]]), (100, 1)),
    "one round only": np.eye(200, 2),
    "zero contexts": np.zeros((200, 2)),
    "huge": 1e12 * np.random.default_rng(2).standard_normal((200, 2)),
    "tiny": 1e-200 * np.random.default_rng(3).standard_normal((200, 2)),
    "one huge value": np.vstack([np.full((1, 2), 1e12), np.ones((199, 2)) * 1e-3]),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("standardize", [False, True])
def test_degenerate_contexts_get_a_finite_answer_or_a_reason(name, fit_intercept, standardize):
    contexts = DEGENERATE[name]
    y = np.random.default_rng(5).standard_normal(200)
    rows = FitRows(LaggedDesign(contexts, 12), y, "full", 0)
    fit = estimate(rows, fit_intercept, standardize=standardize, standard_errors=True)
    assert fit.status == "ok" or fit.message
    json.dumps(fit.to_json(), allow_nan=False)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(
    "y", [np.zeros(50), np.full(50, -3.0), np.full(50, 1e12), np.full(50, 1e-300)]
)
def test_equal_rewards_are_no_data(y, fit_intercept):
    contexts = np.random.default_rng(6).standard_normal((50, 2))
    fit = estimate(FitRows(LaggedDesign(contexts, 3), y, "full", 0), fit_intercept)
    assert fit.status == "insufficient_data"
    assert "equal" in fit.message


@pytest.mark.parametrize(("beyond", "is_said"), [(0.9, False), (1.1, True)])
def test_a_weight_is_said_a_standard_error_beyond_the_limit_of_its_test(beyond, is_said):
    freedom, n_lags = 300, 50
    limit = np.sqrt(3 * f_distribution.ppf(1 - 0.1 / n_lags, 3, freedom))  # Scheffe's
    errors = {
        "lags": [0, 7],
        "theta": [1.0, 0.0, 0.0],
        "theta_error": [0.0, 0.1, 0.1],
        "lag_weights": [(limit + beyond) * 0.02, 0.5],
        "lag_weights_error": [0.02, 0.01],
        "freedom": freedom,
    }
    said = said_of(errors, n_lags)
    assert isinstance(said, dict) == is_said
    if is_said:
        assert said["lag_weights_error"] == pytest.approx([0.022, 0.011])
        assert said["theta_error"] == pytest.approx([0.0, 0.11, 0.11])
        found = intervals(said)
        half = 1.968 * 0.011  # t with 300 degrees of freedom
        assert found["lag_weights"][1] == pytest.approx([0.5 - half, 0.5 + half], rel=1e-4)
        assert found["lags"] == [0, 7]


def test_what_a_fit_reports():
    rows, *_ = rows_of(7, n=1000)
    fit = estimate(rows, standard_errors=True)
    assert fit.duality_gap <= 1e-6
    assert 0 < fit.lam < fit.lambda_max
    assert 1 <= fit.diagnostics["active_condition"] < 2
    assert fit.singular_ratio > 3
    assert fit.sign_margin > 0.9
    assert fit.message == ""
    assert len(fit.diagnostics["standard_errors"]["lag_weights"]) == len(fit.active_lags)
    json.dumps(fit.to_json(), allow_nan=False)


def test_few_rows_come_with_a_plain_sentence():
    rows, *_ = rows_of(8, n=25)
    assert "few for 30 lags" in estimate(rows).message


@pytest.mark.slow
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_standard_errors_cover(fit_intercept):
    """Nominal 95% intervals hold the truth in 90 to 98% of 300 worlds."""
    inside = []
    for seed in range(300):
        rows, theta, w = rows_of(1000 + seed, n=600)
        e = estimate(rows, fit_intercept, standard_errors=True).diagnostics["standard_errors"]
        errors = np.array([*(e["theta"] - theta), *(e["lag_weights"] - w[e["lags"]])])
        widths = 1.96 * np.array([*e["theta_error"], *e["lag_weights_error"]])
        inside.append(np.mean(np.abs(errors) <= widths))
    assert 0.90 <= np.mean(inside) <= 0.98


def test_no_active_lag_spends_no_degrees_of_freedom():
    rows, *_ = rows_of(9, n=24, signal=0.0, dim=8)
    rms = float(np.sqrt(np.mean(rows.y**2)))
    fit = noise_adaptive(rows.design, rows.y, level=100.0)
    assert not fit.result.phi.any()
    assert fit.sigma_hat == pytest.approx(rms, rel=1e-9)
    centred = noise_adaptive(rows.design, rows.y, level=100.0, fit_intercept=True)
    assert not centred.result.phi.any()
    assert centred.sigma_hat == pytest.approx(np.std(rows.y, ddof=1), rel=1e-9)


@pytest.mark.parametrize("dim", [1, 3])
def test_a_baseline_needs_a_row_of_its_own(dim):
    for n, fit_intercept, enough in (
        (2 * dim - 1, False, False),
        (2 * dim, False, True),
        (2 * dim, True, False),
        (2 * dim + 1, True, True),
    ):
        rows, *_ = rows_of(10, n=n, dim=dim)
        fit = estimate(rows, fit_intercept)
        assert ("measured rows" in fit.message) == (not enough)
        assert fit.status != "insufficient_data" or not enough


@pytest.mark.slow
def test_beside_lags_that_only_just_stand_out_nothing_is_said():
    """Fifteen equal lags: those that are called active are the ones that noise made larger."""
    n_silent, inside = 0, []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        contexts = rng.uniform(-1, 1, (600, DIM))
        theta, w = np.full(DIM, 0.5), np.arange(N_LAGS) % 2 / 15
        noise = 0.1 + 0.2 * (seed % 3)  # from what stands out to what hardly does
        y = np.convolve(contexts @ theta, w)[:600] + noise * rng.standard_normal(600)
        rows = FitRows(LaggedDesign(contexts, N_LAGS), y, "full", 0)
        found = estimate(rows, standard_errors=True)
        assert (found.intervals is None) == bool(found.no_intervals)
        if found.intervals is None:
            n_silent += len(found.active_lags) > 0
            assert found.diagnostics["standard_errors"] is None
            continue
        low, high = np.array(found.intervals["lag_weights"]).T
        true = w[found.intervals["lags"]]
        inside += [*(low <= true) & (true <= high)]
    assert n_silent > 50
    assert len(inside) > 300
    assert 0.9 <= np.mean(inside) <= 0.99
