"""Intervals by least squares of all lags hold whatever the form of the lag profiles."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.fit_past import Part
from lhb_engine.design.moments import RowMoments
from lhb_engine.evaluation.credit import worth_interval
from lhb_engine.history import FitWindow
from lhb_engine.posterior.linearised_intervals import bound
from lhb_engine.posterior.profile_intervals import (
    TOO_FEW,
    LeastSquares,
    drawn_totals,
    misfit,
    profile_certainty,
    totals,
)
from lhb_engine.posterior.sparse_profiles import profile_posterior
from tests.lhb_engine.played_histories import DIM, history

PHI = np.array([[1.0, 0.5], [-0.8, 0.5], [-0.8, 0.4], [0.0, 0.3]])


def moments(rng, n=300, noise=0.5):
    x = rng.standard_normal((n, PHI.size))
    y = x @ PHI.ravel() + 0.7 + noise * rng.standard_normal(n)
    both = np.column_stack([x, np.ones(n), y])
    return RowMoments(both.T @ both, n, *PHI.shape)


def certainty_of(rows, found, active):
    told = LeastSquares.of(rows, found.n_features)
    return told if isinstance(told, str) else profile_certainty(told, found, active)


def test_bands_theta_and_angle_hold_in_19_of_20():
    rng = np.random.default_rng(0)
    total = PHI.sum(axis=0) / np.linalg.norm(PHI.sum(axis=0))
    found = profile_posterior(moments(rng), [1], "sparse", 2)
    bands, thetas, sums, angles = [], [], [], []
    split = np.stack([PHI[0], PHI[1:].sum(axis=0), PHI.sum(axis=0)], axis=1)
    for _ in range(200):
        rows = moments(rng)
        best = np.linalg.solve(rows.matrix[:-1, :-1], rows.matrix[:-1, -1])[:-1]
        estimate = replace(found, theta=total, weights=best.reshape(PHI.shape))
        said = certainty_of(rows, estimate, np.arange(2))
        bands.append((said.profiles[..., 0] <= PHI) & (said.profiles[..., 1] >= PHI))
        sums.append((said.sums[..., 0] <= split) & (said.sums[..., 1] >= split))
        thetas.append((said.theta[:, 0] <= total) & (said.theta[:, 1] >= total))
        told = LeastSquares.of(rows, 2)  # whose direction decides
        said = profile_certainty(told, replace(estimate, theta=told.theta), np.arange(2))
        angles.append(np.arccos(told.theta @ total) <= said.angle_95)
    assert 0.93 < np.mean(bands) < 0.97
    assert np.mean(thetas) > 0.95
    assert 0.93 < np.mean(sums) < 0.98
    assert 0.93 < np.mean(angles) < 0.98


def test_intervals_hold_the_estimates_which_are_shrunk():
    rows = moments(np.random.default_rng(3))
    found = profile_posterior(rows, [1], "sparse", 2)
    plain = certainty_of(rows, found, np.arange(2))
    shrunk = replace(found, weights=0.6 * found.weights)
    said = certainty_of(rows, shrunk, np.arange(2))
    for bands, values in (
        (said.profiles, shrunk.weights),
        (said.sums[:, 2], shrunk.weights.sum(axis=0)),
        (said.lag_weights, (shrunk.weights @ shrunk.theta)[:2]),
    ):
        assert ((bands[..., 0] <= values) & (values <= bands[..., 1])).all()
    assert (said.profiles[0, 0, 0], said.profiles[0, 0, 1]) == (
        pytest.approx(shrunk.weights[0, 0]),
        pytest.approx(plain.profiles[0, 0, 1]),
    )


def test_no_intervals_where_they_would_not_hold():
    rng = np.random.default_rng(1)
    data = moments(rng)
    found = profile_posterior(data, [1], "sparse", 2)
    active = np.arange(2)
    few = RowMoments(data.matrix, 99, *PHI.shape)
    assert "Too few rows" in certainty_of(few, found, active)
    assert "well enough" in certainty_of(moments(rng, noise=20.0), found, active)
    turned = replace(found, theta=np.array([1.0, 0.0]))
    assert "lags of their own" in certainty_of(data, turned, active)
    alike = data.matrix.copy()
    alike[1], alike[:, 1] = alike[0], alike[:, 0]
    alike[1, 1] = alike[0, 0]
    same = RowMoments(alike, 300, *PHI.shape)
    assert "told from each other" in certainty_of(same, found, active)


def test_shared_profiles_have_intervals_of_theta_but_no_bands():
    data = moments(np.random.default_rng(2))
    found = profile_posterior(data, [1], "sparse", 2)
    shared = replace(found, weights=found.weights @ found.theta, form="shared")
    said = certainty_of(data, shared, np.arange(2))
    assert said.profiles is None
    assert "lag_profiles" not in said.intervals()
    assert "lag_profiles" in certainty_of(data, found, np.arange(2)).intervals()


def data(x, y):
    both = np.column_stack([x, np.ones(len(x)), y])
    rows = RowMoments(both.T @ both, len(x), 1, x.shape[1])
    return SimpleNamespace(n_lags=1, rows=rows, summed=lambda: SimpleNamespace(rows=rows))


@pytest.mark.parametrize(("form", "wider"), [("sparse", 1.5), ("smooth", 2.25)])
def test_a_context_pays_within_what_draws_say_and_half_as_much_again(form, wider):
    """And half as much of that, where profiles may be too smooth."""
    rng = np.random.default_rng(3)
    found = replace(profile_posterior(moments(rng), [1], "sparse", 2), form=form)
    x = rng.standard_normal((200, 2))
    said = totals(data(x, x @ [3.0, 1.0]), [found])
    drawn = found.totals @ [1.0, -2.0]
    low, high = worth_interval(said, np.array([1.0, -2.0]))
    half = wider * 1.959964 * drawn.std(ddof=1)
    np.testing.assert_allclose([low, high], drawn.mean() + np.array([-half, half]), rtol=1e-5)
    assert low < PHI.sum(axis=0) @ [1.0, -2.0] < high


def test_where_two_forms_may_hold_a_context_pays_within_what_both_say():
    rng = np.random.default_rng(5)
    found = profile_posterior(moments(rng), [1], "sparse", 2)
    other = replace(found, draws=(found.draws[0], found.draws[1][:7] + 1.0))  # and fewer draws
    x, one = rng.standard_normal((200, 2)), np.array([1.0, 0.0])
    said = totals(data(x, x @ [3.0, 1.0]), [found, other])
    low, high = worth_interval(said, one)
    means = [form.totals[:, 0].mean() for form in (found, other)]
    assert (low + high) / 2 == pytest.approx(means[0])
    assert means[1] - means[0] == pytest.approx(4.0, abs=0.2)
    assert low < means[0] < means[1] < high


@pytest.mark.parametrize("is_unseen", [False, True])
def test_what_arms_have_in_common_is_not_known_and_their_difference_is(is_unseen):
    """One of two arms in each round, and a baseline: the two columns add up to the constant."""
    rng = np.random.default_rng(4)
    first = rng.integers(0, 2, 400).astype(float)
    x = np.column_stack([first, 1.0 - first])
    y = x @ [3.0, 1.0] + 0.1 * rng.standard_normal(400)
    if is_unseen:  # a third arm that was never chosen
        x = np.column_stack([x, np.zeros(400)])
    dim, rows = x.shape[1], data(x, y)
    found = profile_posterior(rows.rows, [1], "smooth", dim)
    said = totals(rows, [found])
    one, two, three = np.eye(3)[:, :dim]
    assert worth_interval(said, one) is None
    low, high = worth_interval(said, one - two)
    assert low < 2.0 < high < low + 0.3
    if is_unseen:
        assert worth_interval(said, three) is None
    many = replace(found, n_features=65)
    assert "64 features" in totals(rows, [many])


@pytest.mark.parametrize("off", [0.0, 0.1, 0.2])
def test_a_direction_far_from_least_squares_of_all_lags_is_said_to_be_as_far(off):
    rows = moments(np.random.default_rng(4), n=4000, noise=0.2)
    told = LeastSquares.of(rows, 2)
    turned = np.cos(off) * told.theta + np.sin(off) * np.array([-told.theta[1], told.theta[0]])
    found = profile_posterior(rows, [1], "sparse", 2)
    said = profile_certainty(told, replace(found, theta=turned), np.arange(2))
    least = profile_certainty(told, replace(found, theta=told.theta), np.arange(2))
    assert said.angle == pytest.approx(np.hypot(off, least.angle))
    assert said.angle_95 == pytest.approx(off + least.angle_95)
    for held in (told.theta, turned):
        assert ((said.theta[:, 0] <= held + 1e-12) & (held <= said.theta[:, 1] + 1e-12)).all()


def test_where_profiles_may_differ_intervals_are_those_of_all_lags_of_all_features():
    """Told that they do not, a fit knows the direction of few rows, and of many more closely."""
    windows = [FitWindow(1, 1, n, 24, n) for n in (120, 400)]
    few, many = (replace(history(n=w.last, noise=0.1), window=w) for w in windows)
    fits = [
        [make_agent("anytime", dim=DIM, horizon=24, profiles=told).fit(one) for one in (few, many)]
        for told in ("chosen", "shared")
    ]
    (early, late), (told_early, told_late) = fits
    assert (early.intervals["drawn"], early.no_intervals) == (True, TOO_FEW)
    assert "drawn" not in told_early.intervals
    assert late.diagnostics["angle"] > 1.5 * told_late.diagnostics["angle"]


def test_moments_of_too_many_unknowns_are_not_made():
    data = SimpleNamespace(n_lags=100, n_rows=10**6)  # which would fail to be summed
    found = SimpleNamespace(theta=np.zeros(11))
    assert Part.all_lags(SimpleNamespace(data=data), found, 0.0) == TOO_FEW


def test_what_least_squares_speak_against_widens_totals_of_shared_profiles():
    rng, x = np.random.default_rng(7), np.array([1.0, 0.0])
    found = replace(profile_posterior(moments(rng), [1], "sparse", 2), form="shared")
    told = LeastSquares.of(moments(rng, n=4000, noise=0.2), 2)
    off = replace(told, total=found.totals.mean(axis=0) + np.array([0.6, 0.8]))
    rows = data(rng.standard_normal((200, 2)), rng.standard_normal(200))
    (low, high), (near, above) = (
        worth_interval(totals(rows, [found], one), x) for one in (off, "few rows")
    )
    own = worth_interval(totals(rows, [replace(found, form="sparse")], off), x)
    assert own == pytest.approx((near, above))
    squares = ((high - low) / 2) ** 2 - ((above - near) / 2) ** 2
    assert squares == pytest.approx((1.5 * 1.96) ** 2 / 2, rel=0.01)  # half of 1 a feature
    said = [totals(rows, [found], one)["if_shared"] for one in (off, "few rows")]
    assert said == [False, True]
    assert not totals(rows, [found, replace(found, form="smooth")], "few rows")["if_shared"]


def test_only_what_is_beyond_chance_speaks_against_shared_profiles_in_gain():
    """And widens the draws by its square, half for each of two features."""
    rng = np.random.default_rng(7)
    found = replace(profile_posterior(moments(rng), [1], "sparse", 2), form="shared")
    told = LeastSquares.of(moments(rng, n=4000, noise=0.2), 2)
    middle, chance = found.totals.mean(axis=0), bound(told.spread)
    apart = {}
    for times in (0.9, 1.1, 20.0):
        off = replace(told, total=middle + times * chance * np.array([0.6, 0.8]))
        apart[times] = misfit([found], off, beyond=True)
        assert misfit([replace(found, form="smooth")], off) == 0.0
    assert apart[0.9] == misfit([found], "few rows") == 0.0
    expected = ((1.1 * chance) ** 2 - np.trace(told.spread)) / 2
    assert apart[1.1] == pytest.approx(expected)
    drawn = [drawn_totals([found], one) for one in (0.0, apart[20.0])]
    np.testing.assert_allclose(np.var(drawn[1] - drawn[0], axis=0), apart[20.0])
    np.testing.assert_allclose(drawn[1].mean(axis=0), drawn[0].mean(axis=0))


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_a_bound_is_that_of_any_unit(unit):
    covariance = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert bound(unit * covariance) == np.sqrt(unit) * bound(covariance) > 0.0
