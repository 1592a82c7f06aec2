"""The table of what anytime says of its own error, at toy size."""

from dataclasses import replace

import numpy as np
import pytest

from clients.bench import certainty
from clients.bench.regret_scoreboard import BOARD
from lhb_engine.estimate import Estimate

SMALL = replace(BOARD[1], rounds=130, horizon=10, dim=2, arms=3, sparsity=2)


def test_the_table_counts_what_is_said_and_what_holds(monkeypatch):
    found = certainty.run([SMALL], range(3))[0]
    assert (found["world"], found["runs"]) == (SMALL.name, 3)
    assert 0 < found["said"] <= found["directions"]
    assert found["angle_95"] > found["true_angle"] > 0
    played = {0: ([(0.2, 0.1), (0.2, 0.3), (None, 2.0)], 2), 1: ([(0.4, 0.4)], 0)}
    monkeypatch.setattr(certainty, "play", lambda world, seed: played[seed])
    found = certainty.run([SMALL], range(2))[0]
    assert (found["directions"], found["said"], found["alarmed"]) == (4, 3, 1)
    assert found["covered"] == pytest.approx(2 / 3)
    assert found["true_angle"] == pytest.approx(np.sqrt((0.01 + 0.09 + 0.16) / 3))
    assert "| 3 of 4 | 0.67 |" in certainty.line(found)


def test_a_run_compares_each_direction_with_the_truth(monkeypatch):
    world = SMALL.draw(0)
    off = np.array([-world.theta[1], world.theta[0]])
    told = {"angle_95": 0.5, "alarm": True}
    estimates = [
        Estimate("ok", np.ones(1), theta=world.theta, last_round=99, diagnostics=told),
        Estimate("ok", np.ones(1), theta=off, last_round=100, diagnostics=told),
        Estimate("zero", np.zeros(1), last_round=120),
    ]
    run = type("Run", (), {"estimates": estimates})
    monkeypatch.setattr(certainty, "simulate", lambda *args, **options: run)
    found, alarms = certainty.play(SMALL, 0)
    assert found == [(0.5, pytest.approx(np.pi / 2))]
    assert alarms == 2
