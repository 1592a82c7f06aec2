"""A theta that turns is told from one that is wrong, and from a level (docs/model.md (7.33))."""

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


def played(turn=0.0, seed=0, added=None):
    """Rounds in which theta turns steadily by an angle in all, with numbers added to rewards."""
    rng = np.random.default_rng(seed)
    xi, angle = rng.uniform(-1, 1, (N, DIM)), np.linspace(-turn / 2, turn / 2, N)
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


@pytest.mark.parametrize("wrong", [0.0, 0.5], ids=["right", "wrong"])
def test_a_theta_that_stays_is_known_from_all_rounds(wrong):
    """Wherever the estimate is wrong alike in all rows, nothing turns."""
    angle = np.cos(wrong) * THETA + np.sin(wrong) * ASIDE
    known = Predictor(LAG_WEIGHTS, angle, 0.0, NOISE, 500, True)
    assert [since(played(seed=seed), known) for seed in range(20)] == [None] * 20


def test_a_level_that_moves_is_no_turn():
    """Chosen contexts have a mean, which goes with the level."""
    level = np.where(np.arange(N) < 450, 0.0, 1.0)
    for seed in range(10):
        past = played(seed=seed, added=level)
        part = past.trajectories[""]
        greedy = Trajectory(part.contexts + THETA, part.measurements)
        rows = align(History(DIM, {"": greedy}).over(past.window))
        known = Predictor(LAG_WEIGHTS, THETA, -float(LAG_WEIGHTS.sum()), NOISE, 500, True)
        assert turned_since(known, rows, 1) is None


def test_a_fit_uses_the_rounds_since_theta_turned():
    turn = 0.6 * TURN
    past = played(turn, seed=1)
    agent = make_agent("anytime", dim=DIM, horizon=HORIZON)
    agent.install(agent.fit(past.over(FitWindow(1, 1, 500, HORIZON, 500))))
    found = agent.fit(past)  # 1.4 times as many rounds are not in
    assert found.first_round > 300
    assert found.diagnostics["since_round"] == found.first_round
    assert f"Theta turns: rounds before {found.first_round} speak for" in found.message
    now = np.cos(turn / 2) * THETA + np.sin(turn / 2) * ASIDE
    assert found.theta @ now > agent.theta @ now
    assert agent.fit(played(seed=1)).first_round == 1
