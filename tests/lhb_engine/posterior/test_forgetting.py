"""A theta that turns is told from one that is wrong, and from a level (docs/model.md (7.33))."""

from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.design.aligned_rounds import align
from lhb_engine.history import FitWindow, History, Measurements, Trajectory
from lhb_engine.posterior.forgetting import turned_since
from lhb_engine.posterior.predictor import Predictor
from tests.lhb_engine.played_histories import DIM, HORIZON, LAG_WEIGHTS, THETA

NOISE, N = 0.1, 600
ASIDE = np.linalg.svd(THETA[np.newaxis])[2][-1]
KNOWN = Predictor(LAG_WEIGHTS, THETA, 0.0, NOISE, 500, True)
TURN = np.pi / 4


def played(turn=0.0, seed=0, added=None, at=None, varied=1.0):
    """Rounds in which theta turns steadily by an angle in all, with numbers added to rewards.

    With a round `at` theta turns there, all at once. Chosen contexts that are `varied` less lie
    about theta.
    """
    rng = np.random.default_rng(seed)
    xi, angle = rng.uniform(-1, 1, (N, DIM)), np.linspace(-turn / 2, turn / 2, N)
    xi = varied * xi + (1.0 - varied) * THETA
    angle = angle if at is None else np.where(np.arange(1, N + 1) < at, 0.0, turn)
    thetas = np.outer(np.cos(angle), THETA) + np.outer(np.sin(angle), ASIDE)
    reward = np.convolve(np.sum(xi * thetas, axis=1), LAG_WEIGHTS)[:N]
    reward += NOISE * rng.standard_normal(N) + (0.0 if added is None else added)
    part = Trajectory(xi, Measurements.single(np.arange(1, N + 1), reward))
    return History(DIM, {"": part}).over(FitWindow(2, 1, N, HORIZON, N))


def since(past, known=KNOWN, first=1):
    return turned_since(known, align(past), first)


def test_a_theta_that_turns_is_known_from_the_latest_rounds():
    found = [since(played(TURN, seed)) for seed in range(10)]
    assert None not in found
    assert min(found) > N // 2 - 10
    assert since(played(TURN), first=400) is None  # few rounds do not tell


@pytest.mark.parametrize("at", [200, 560])
@pytest.mark.parametrize("of_features", [False, True], ids=["shared", "profiles"])
def test_a_theta_that_turns_at_once_is_known_from_then_on(at, of_features):
    """Profiles of features that do nothing before the turn say nothing of lags after it."""
    known = KNOWN
    if of_features:
        theta = np.array([1.0, 0.0, 0.0])
        nothing = 1e-3 * np.outer(LAG_WEIGHTS[::-1], [0.0, 1.0, 1.0])
        known = replace(KNOWN, theta=theta, lag_weights=np.outer(LAG_WEIGHTS, theta) + nothing)
    aside = np.pi / 2
    found = [since(played(aside, seed, at=at), known) for seed in range(10)]
    assert at - 12 <= min(found) <= max(found) <= at + HORIZON


def test_of_two_turns_the_later_one_counts():
    first = played(np.pi / 2, at=250).trajectories[""].measurements.value
    both = played(
        np.pi / 2,
        at=250,
        added=played(np.pi / 2, at=450).trajectories[""].measurements.value - first,
    )
    assert since(both) >= 440


@pytest.mark.parametrize("wrong", [0.0, 0.5], ids=["right", "wrong"])
def test_a_theta_that_stays_is_known_from_all_rounds(wrong):
    """Wherever the estimate is wrong alike in all rows, nothing turns."""
    angle = np.cos(wrong) * THETA + np.sin(wrong) * ASIDE
    known = Predictor(LAG_WEIGHTS, angle, 0.0, NOISE, 500, True)
    assert [since(played(seed=seed), known) for seed in range(20)] == [None] * 20


@pytest.mark.parametrize(("varied", "step"), [(0.5, 1.0), (0.1, 1.0), (0.5, -0.3)])
def test_a_level_that_moves_is_no_turn(varied, step):
    """Chosen contexts have a mean, which goes with the level."""
    level = np.where(np.arange(N) < 450, 0.0, step)
    found = [since(played(seed=seed, added=level, varied=varied)) for seed in range(10)]
    assert found == [None] * 10


@pytest.mark.parametrize("mean", [2.0, -2.0])
def test_rows_that_choices_before_the_first_round_pay_count_no_more(mean):
    pays = np.zeros(N)
    pays[: HORIZON - 1] = mean * np.cumsum(LAG_WEIGHTS[:0:-1])[::-1]
    found = [since(played(seed=seed, added=pays)) for seed in range(10)]
    assert found == [HORIZON] * 10
    assert [since(played(seed=s, added=np.roll(pays, N // 2))) for s in range(10)] == [None] * 10


def swinging(step, seed):
    """Errors that forget a part `step` of themselves a round; a walk forgets nothing."""
    errors = 0.3 * np.random.default_rng([9, seed]).standard_normal(N)
    return np.array([*accumulate(errors, lambda last, one: (1.0 - step) * last + one)])


@pytest.mark.parametrize(("step", "rho"), [(0.3, 0.7), (0.0, 0.0), (0.0, 0.9)])
def test_errors_that_last_are_no_turn(step, rho):
    known = replace(KNOWN, autocorrelation=rho, noise=0.3)
    for varied in (1.0, 0.2):
        past = (played(seed=s, added=swinging(step, s), varied=varied) for s in range(10))
        assert [since(one, known) for one in past] == [None] * 10


def test_a_turn_is_found_though_its_errors_were_taken_for_ones_that_last():
    known = replace(KNOWN, autocorrelation=0.9)
    assert None not in [since(played(np.pi / 3, seed, at=560), known) for seed in range(10)]


def test_no_older_rounds_count_after_newer_ones():
    """Neither after an alarm, of which no window of the rows since knows anything."""
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(played(np.pi / 2, at=300).over(FitWindow(1, 1, 500, HORIZON, 500))))
    agent.install(agent.fit(played(np.pi / 2, at=300).over(FitWindow(2, 1, 540, HORIZON, 540))))
    newer = agent.prediction.since_round
    assert newer > 290
    for noise in (0.0, 3.0):
        late = np.where(np.arange(N) < 540, 0.0, noise) * np.random.default_rng(5).standard_normal(
            N
        )
        found = agent.fit(played(np.pi / 2, at=300, added=late))
        assert found.diagnostics["alarm"] == (noise > 0.0)
        assert found.diagnostics["since_round"] >= newer


def test_a_fit_uses_the_rounds_since_theta_turned():
    turn = 0.6 * TURN
    past = played(turn, seed=1)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 500, HORIZON, 500))))
    found = agent.fit(past)  # 1.4 times as many rounds are not in
    assert found.first_round > 300
    assert found.diagnostics["since_round"] == found.first_round
    assert f"has changed: rounds before {found.first_round} count no more" in found.message
    now = np.cos(turn / 2) * THETA + np.sin(turn / 2) * ASIDE
    assert found.theta @ now > agent.theta @ now
    assert agent.fit(played(seed=1)).first_round == 1
