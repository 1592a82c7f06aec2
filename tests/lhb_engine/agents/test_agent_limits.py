"""Agents at the limits: huge options, huge dims, scores that overflow."""

import json
import tracemalloc

import numpy as np
import pytest

from lhb_engine.agents import ALGORITHMS, OptionError, make_agent
from lhb_engine.agents.confidence_ellipsoid import Ellipsoid
from lhb_engine.design.levels import known_level
from lhb_engine.estimate import Estimate
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.randomness import Draw
from tests.examples import repeats

HUGE = 10**400  # an int that no float holds
LEARNERS = ["lin_ucb", "ucb_mp"]


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *(("ad_lasso", o) for o in ("c", "gamma", "L")),
        *((name, o) for name in LEARNERS for o in ("ridge", "confidence_width")),
        *(("sa_gd", o) for o in ("tol", "s", "n_steps", "L")),
        ("oracle", "theta"),
        ("oracle_w", "weights"),
    ],
)
@pytest.mark.parametrize("value", [HUGE, -HUGE, float("inf"), float("nan"), True, "1"])
def test_numbers_out_of_range_are_refused_by_name(name, option, value):
    value = [value] if option in ("theta", "weights") else value
    with pytest.raises(OptionError) as error:
        make_agent(name, dim=1, horizon=4, **{option: value})
    assert error.value.option == option


@pytest.mark.parametrize(
    ("name", "option"),
    [
        *(
            (name, flag)
            for name in ("doubling_lasso", "ad_lasso")
            for flag in ("fallback", "fit_intercept", "standardize", "standard_errors")
        ),
        ("anytime", "signed"),
    ],
)
@pytest.mark.parametrize("value", [1, 0, None, "true", []])
def test_a_flag_is_true_or_false_and_nothing_like_it(name, option, value):
    with pytest.raises(OptionError, match="true or false") as error:
        make_agent(name, dim=1, horizon=4, **{option: value})
    assert error.value.option == option


@pytest.mark.parametrize("name", LEARNERS)
def test_the_ellipsoid_s_options_have_bounds(name):
    for option, value in (("ridge", 0), ("ridge", 1e-320), ("confidence_width", 1e308)):
        with pytest.raises(OptionError, match=option):
            make_agent(name, dim=1, horizon=4, **{option: value})
    for option, value in (("ridge", 1e-9), ("ridge", 1e9), ("confidence_width", 0)):
        make_agent(name, dim=1, horizon=4, **{option: value})


@pytest.mark.parametrize("name", LEARNERS)
def test_a_dim_too_large_for_a_matrix_is_refused(name):
    make_agent(name, dim=1000, horizon=2)
    with pytest.raises(OptionError) as error:
        make_agent(name, dim=1001, horizon=2)
    assert error.value.option == "dim"
    assert {n for n, kind in ALGORITHMS.items() if kind.max_dim is not None} == set(LEARNERS)


def test_upper_bounds_hold_one_chunk_of_products():
    rng = np.random.default_rng(0)
    ellipsoid = Ellipsoid(400, 1.0)
    ellipsoid.update(rng.uniform(-1, 1, 400), 1.0)
    arms = rng.uniform(-1, 1, (60, 400))
    tracemalloc.start()
    scores = ellipsoid.upper_bounds(arms, 0.7)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6  # all at once: 77 MB a product
    for arm in (0, 17, 59):  # chunks of six arms and chunks of one agree to the last bit
        assert ellipsoid.upper_bounds(arms[arm : arm + 1], 0.7)[0] == scores[arm]
    order = rng.permutation(60)
    assert np.array_equal(ellipsoid.upper_bounds(arms[order], 0.7), scores[order])


def overflowing(name):
    """An agent that has learned something, and contexts whose scores overflow in places."""
    required = {"oracle": {"theta": [0.6, 0.8]}, "oracle_w": {"weights": [1.0]}}
    agent = make_agent(name, dim=2, horizon=6, **required.get(name, {}))
    agent.install(Estimate("ok", np.eye(4)[1], theta=np.array([0.6, 0.8]), active_lags=(1,)))
    contexts = np.full((3, 4, 2), 1.7e308)
    contexts[1, :, 1] *= -1
    contexts[2, 1:] = 0.5
    return agent, contexts


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_scores_that_overflow_leave_a_decision_possible(name):
    agent, contexts = overflowing(name)
    draws = [Draw(0, "", t) for t in (1, 2, 3)]
    choices = [agent.choose(c, draw) for c, draw in zip(contexts, draws, strict=True)]
    for choice in choices:
        assert np.isfinite(choice.scores).all()
        assert 0 < choice.propensity <= 1
    assert agent.choose_many(contexts, draws).tolist() == [choice.arm for choice in choices]


def test_a_score_that_overflows_counts_as_none():
    agent, contexts = overflowing("oracle")
    choice = agent.choose(contexts[0], Draw(0, "", 1))
    assert (choice.scores == 0).all()
    assert choice.propensity == 1 / 4
    assert agent.choose(contexts[2], Draw(0, "", 1)).scores[0] == 0


@pytest.mark.parametrize("name", LEARNERS)
def test_observing_what_overflows_changes_nothing(name):
    agent, _ = overflowing(name)
    contexts = np.array([[1.0, 0.5], [1e200, 1e200], [0.1, 0.2]])
    past = History(2, {"": Trajectory(contexts, Measurements.single(np.arange(1, 4), np.ones(3)))})
    lag = agent.lag if name == "ucb_mp" else 0
    agent.observe(past, "", 1 + lag, 1.0)
    before = agent.state()
    for round, reward in ((2, 1.0), (3, np.nan), (3, np.inf)):
        agent.observe(past, "", round + lag, reward)
        assert agent.state() == before
    agent.observe(past, "", 3 + lag, 1.0)
    assert agent.state() != before


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"oracle"}))
def test_a_direction_that_is_not_finite_is_not_installed(name):
    agent, _ = overflowing(name)
    before = agent.state()
    broken = Estimate("ok", np.eye(4)[2], theta=np.array([np.nan, 1.0]), active_lags=(2,))
    agent.install(broken)
    assert agent.state() == before


N_ROUNDS, HORIZON, THETA = 150, 12, np.array([0.6, -0.64, 0.48])
FITTING = {
    "ad_lasso": [{}, {"reg": "theory", "c": 1e-3}, {"reg": "theory", "c": 1e9}],
    "doubling_lasso": [
        {"reg": "theory", "c": 1e-9},
        {"standardize": True, "standard_errors": True},
    ],
    "oracle_w": [{"weights": [0.0, 0.0, 0.7, 0.3]}],
    "sa_gd": [{}],
    "sw_mp": [{}],
    "ucb_mp": [{"rows": "ad_lasso"}],
}


def fits(name, options, contexts_by, rewards_by):
    """All fits of 150 rounds in the model, in other units."""
    rng = np.random.default_rng(3)
    contexts = rng.uniform(-1, 1, (N_ROUNDS, 3))
    y = np.convolve(contexts @ THETA, [0, 0, 0.7, 0.3])[:N_ROUNDS]
    y += 0.01 * rng.standard_normal(N_ROUNDS)
    singles = Measurements.single(np.arange(1, N_ROUNDS + 1), y / np.abs(y).max() * rewards_by)
    history = History(3, {"": Trajectory(contexts * contexts_by, singles)})
    agent = make_agent(name, dim=3, horizon=HORIZON, **options)
    found, n = [], 0
    while (window := agent.next_fit(n)).due <= N_ROUNDS:
        found.append(agent.fit(history.over(window)))
        n = window.due
    return found


CASES = [(name, options) for name, several in FITTING.items() for options in several]


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("contexts_by", [1e-320, *repeats(1e-200, 1e200), 1.7e308])
@pytest.mark.parametrize("rewards_by", [1e-320, 1.0, 1e300, 1.7e308])
def test_a_fit_at_a_float_s_limits_is_finite_or_says_why(name, options, contexts_by, rewards_by):
    estimates = fits(name, options, contexts_by, rewards_by)
    assert len(estimates) >= 3
    for estimate in estimates:
        json.dumps(estimate.to_json(), allow_nan=False)
        assert (estimate.status == "ok") == (estimate.theta is not None)
        assert estimate.status == "ok" or estimate.message
        if estimate.theta is not None:
            assert np.linalg.norm(estimate.theta) == pytest.approx(1)
    last = estimates[-1]
    if "reg" not in options and abs(np.log10(rewards_by) - np.log10(contexts_by)) < 300:
        assert last.theta @ THETA > 0.7, "units decide nothing"


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_lag_weight_beyond_a_float_is_said(name, options):
    message = fits(name, {**options, **({"c": 1e-9} if "reg" in options else {})}, 1e-200, 1e200)
    assert message[-1].status == "insufficient_data"
    assert "apart in size" in message[-1].message


@pytest.mark.parametrize("name", [n for n in FITTING if n != "oracle_w"])
def test_powers_of_two_change_no_bit(name):
    plain, scaled = fits(name, {}, 1.0, 1.0), fits(name, {}, 2.0**40, 2.0**-30)
    for a, b in zip(plain, scaled, strict=True):
        assert a.status == b.status
        assert a.active_lags == b.active_lags
        if a.theta is not None:
            np.testing.assert_array_equal(a.theta, b.theta)
            np.testing.assert_array_equal(a.lag_weights * 2.0**-70, b.lag_weights)


def checked_twice(contexts_by, rewards_by, base=0.0, *, dim=3, horizon=5, users=4, **options):
    """The second fit of `anytime` of some users' rounds, with what the checks say."""
    rng, parts, n = np.random.default_rng(4), {}, 0
    agent = make_agent("anytime", dim=dim, horizon=horizon, **options)
    for user in range(users):
        contexts = rng.uniform(-1, 1, (15, dim))
        y = contexts.sum(axis=1) + 0.1 * rng.standard_normal(15)
        singles = Measurements.single(np.arange(1, 16), base + y * rewards_by)
        given = np.column_stack([contexts * contexts_by, np.ones(15), np.zeros((15, dim))])
        parts[f"{user}"] = Trajectory(given, singles, positions=np.arange(n + 1, n + 16))
        n += 15
    history = History(dim, parts).over(FitWindow(1, 1, n, horizon, n))
    for _ in range(2):
        estimate = agent.checked_fit(history)
        json.dumps(estimate.to_json(), allow_nan=False)
        agent.install(estimate)
    for key, part in parts.items():
        json.dumps([one.tolist() for one in agent.response(key, part) or ()], allow_nan=False)
    return estimate


MIXED = np.array([1e12, 1.0, 1.0])
DUSTY = np.array([1.0, 1e-130, 1.0])


@pytest.mark.parametrize(
    ("contexts_by", "rewards_by", "base", "options"),
    [
        (1e-160, 1.0, 0.0, {"zero_start": False, "levels": True}),
        (1e-160, 1.0, 0.0, {"zero_start": False, "levels": True, "own": True}),
        (1e-160, 1.0, 0.0, {"zero_start": False, "profiles": "each", "signed": True}),
        (5e-324, 1.0, 0.0, {"zero_start": False, "memory": 40}),
        (1e12, 5e-324, 0.0, {"profiles": "each"}),
        (1.0, 1e-200, 0.0, {"own": True, "levels": True}),
        (MIXED, 1.0, 1e9, {"own": True, "profiles": [[0, 1]], "users": 12}),
        (DUSTY, 1.0, 0.0, {"own": True, "users": 12}),
    ],
)
def test_anytime_fits_and_checks_at_a_float_s_limits(contexts_by, rewards_by, base, options):
    estimate = checked_twice(contexts_by, rewards_by, base, **options)
    assert estimate.theta is not None or estimate.message


def test_a_level_is_known_of_numbers_whose_squares_are_none():
    errors, column = np.array([2.0, 1.0]), np.ones(2)
    value, error = known_level(errors, column, 1.0, 0.5)
    small = known_level(errors * 1e-200, column, 1e-200, 0.5e-200)
    assert small == pytest.approx((value * 1e-200, error * 1e-200))
    assert (value, error) == pytest.approx((3 / 2.25, 0.5 / 1.5))


@pytest.mark.parametrize("options", [{}, {"levels": True}, {"profiles": "each"}])
def test_a_level_far_above_what_rewards_vary_by_costs_no_digits(options):
    """The second fit is judged, too, by the errors of the first."""
    plain = checked_twice(1.0, 1.0, 2.0**14, users=12, **options)
    far = checked_twice(1.0, 1.0, 2.0**30, users=12, **options)
    assert far.theta == pytest.approx(plain.theta, abs=1e-3)
    assert far.lag_weights == pytest.approx(plain.lag_weights, abs=1e-3)
    assert far.sigma_hat == pytest.approx(plain.sigma_hat, rel=1e-2)
    assert far.intercept - 2.0**30 == pytest.approx(plain.intercept - 2.0**14, abs=1e-2)
    assert (far.forms or {}).keys() == (plain.forms or {}).keys()
    for name, form in (far.forms or {}).items():
        assert form["effects"][0] - 2.0**30 == pytest.approx(
            plain.forms[name]["effects"][0] - 2.0**14, abs=1e-2
        )
