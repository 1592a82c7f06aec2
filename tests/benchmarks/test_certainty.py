"""The table of what anytime says of its own error, at toy size."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import certainty
from benchmarks.regret_scoreboard import BOARD
from benchmarks.worlds import IdealPoint, Interactions
from lhb_engine.estimate import Estimate
from lhb_engine.simulation.environment import OwnLags
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401

SMALL = replace(BOARD[1], rounds=130, horizon=10, dim=2, arms=3, sparsity=2)
HELD = {
    "theta": [True, False],
    "lag weights": [True],
    "angle": [False],
    "lag profiles": [],
}


def test_the_table_counts_what_is_said_and_what_holds(monkeypatch):
    found = certainty.run([SMALL], range(3))[0]
    assert (found["world"], found["runs"]) == (SMALL.name, 3)
    assert 0 < found["said"] <= found["directions"]
    assert found["said_angle"] > 0
    assert found["true_angle"] > 0
    assert found["theta"]["intervals"] == 2 * found["said"]
    played = {
        0: ([HELD, None, {**HELD, "theta": [True, True]}], [(0.2, 0.1), (0.2, 0.3)], 2),
        1: ([None], [], 0),
        2: ([{**HELD, "theta": [True, True], "lag weights": []}], [(0.4, 0.4)], 1),
    }
    monkeypatch.setattr(certainty, "play", lambda world, seed, algorithm, **_: played[seed])
    found = certainty.run([SMALL], range(3))[0]
    assert (found["directions"], found["said"], found["alarmed"]) == (5, 3, 2)
    assert found["theta"]["covered"] == pytest.approx(5 / 6)
    assert found["lag weights"]["intervals"] == 2
    assert found["said_angle"] == pytest.approx(np.sqrt((0.04 + 0.04 + 0.16) / 3))
    assert found["true_angle"] == pytest.approx(np.sqrt((0.01 + 0.09 + 0.16) / 3))
    assert "| 3 of 5 | 0.83 ± 0.11 (6) | 1.00 (2) | 0.00 ± 0.00 (3) |" in certainty.line(found)


def test_bands_of_draws_are_looked_at_alone():
    noisy = replace(SMALL, noise=0.3)
    said, drawn = (certainty.run([noisy], range(4), drawn=one)[0] for one in (False, True))
    assert said["said"] + drawn["said"] == said["directions"]
    assert said["said"] > 0
    assert drawn["said"] > 0
    assert drawn["lag weights"]["intervals"] == SMALL.sparsity * drawn["said"]  # that pay


def test_the_error_of_a_share_counts_runs_and_not_intervals():
    assert certainty.share([[True] * 50, [False] * 50])["error"] == pytest.approx(0.5)
    assert certainty.share([[True, False]] * 50)["error"] == 0.0
    assert certainty.share([[], []])["covered"] is None


def test_what_is_said_is_compared_with_the_truth():
    world = SMALL.draw(0)
    lag = int(np.argmax(world.weights))
    near = np.column_stack([world.theta - 0.1, world.theta + 0.1])
    w = float(world.weights[lag])
    intervals = {"theta": near.tolist(), "lags": [lag], "lag_weights": [[w - 0.1, w + 0.1]]}
    turned = np.array([-world.theta[1], world.theta[0]])
    off = np.cos(0.2) * world.theta + np.sin(0.2) * turned
    told = {"angle_95": 0.21, "angle": 0.1}
    right = Estimate("ok", world.weights, theta=off, diagnostics=told, intervals=intervals)
    assert certainty.held(right, world) == {
        "theta": [True, True],
        "lag weights": [True],
        "angle": [True],
        "lag profiles": [],
    }
    intervals = {
        "theta": (near + np.array([[0.2], [0.0]])).tolist(),
        "lags": [lag],
        "lag_weights": [[0, w / 2]],
        "lag_profiles": [[[w * x - 0.1, w * x + 0.1] for x in world.theta[:1]] + [[5.0, 6.0]]],
    }
    wrong = replace(right, intervals=intervals, diagnostics={"angle_95": 0.19, "angle": 0.1})
    assert certainty.held(wrong, world) == {
        "theta": [False, True],
        "lag weights": [False],
        "angle": [False],
        "lag profiles": [abs(world.weights[0] - w) * abs(world.theta[0]) <= 0.1, False],
    }
    assert certainty.held(replace(right, intervals=None), world) is None


@pytest.mark.parametrize("kind", [Interactions, IdealPoint])
def test_the_true_direction_has_the_products_that_count(kind):
    world = kind.draw(horizon=4, dim=3, sparsity=2, seed=0)
    products = ((0, 1), (2, 2))
    estimate = Estimate("ok", world.weights, theta=np.zeros(5), products=products)
    true, length = certainty.direction_of(world, estimate)
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (1000, 3))
    every = tuple((i, j) for i in range(3) for j in range(i, 3))
    columns = np.column_stack([x, *(x[:, i] * x[:, j] for i, j in every), np.ones(1000)])
    by = np.linalg.lstsq(columns, world.signals(x))[0]
    expected = np.append(by[:3], [by[3 + every.index(pair)] for pair in products])
    np.testing.assert_allclose(true * length, expected, atol=1e-9)


def test_a_product_that_pays_nothing_has_a_profile_of_0():
    world = OwnLags.draw(horizon=4, dim=2, sparsity=2, seed=0)
    theta = np.append(world.theta, 0.0)
    bands = np.repeat(np.append(world.profiles, np.zeros((4, 1)), axis=1)[..., None], 2, axis=-1)
    near = np.column_stack([theta, theta]).tolist()
    intervals = {"theta": near, "lags": [], "lag_weights": [], "lag_profiles": bands.tolist()}
    told = {"theta": theta, "products": ((0, 1),), "intervals": intervals}
    said = certainty.held(Estimate("ok", world.weights, **told), world)
    assert said["lag profiles"] == [True] * 12
    assert said["theta"] == [True] * 3


def test_a_run_is_looked_at_from_100_rounds_on(monkeypatch):
    world = SMALL.draw(0)
    turned = np.array([-world.theta[1], world.theta[0]])
    told = {"angle_95": 0.5, "angle": 0.3, "alarm": True}
    said = {"theta": [[-1.0, 1.0]] * 2, "lags": [], "lag_weights": []}
    estimates = [
        Estimate("ok", np.ones(1), theta=world.theta, last_round=99, diagnostics=told),
        Estimate("ok", np.ones(1), theta=turned, last_round=100, diagnostics=told, intervals=said),
        Estimate("ok", np.ones(1), theta=turned, last_round=110),
        Estimate("zero", np.zeros(1), last_round=120),
    ]
    run = type("Run", (), {"estimates": estimates})
    monkeypatch.setattr(certainty, "simulate", lambda *args, **options: run)
    found, angles, alarms = certainty.play(SMALL, 0)
    said = HELD | {"theta": [True, True], "lag weights": []}
    assert found == [said, None]
    assert angles == [(0.3, pytest.approx(np.pi / 2))]
    assert alarms == 2


def test_ad_lasso_s_standard_errors_are_in_the_same_table():
    found = certainty.run([replace(SMALL, rounds=300)], range(3), algorithm="ad_lasso")[0]
    assert 0 < found["said"] <= found["directions"]
    assert found["theta"]["intervals"] == 2 * found["said"]
    assert (found["angle"]["covered"], found["said_angle"]) == (None, None)
