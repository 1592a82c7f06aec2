"""The table of what choices earn, beside what is true."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import gain as table
from benchmarks.regret_scoreboard import World
from lhb_engine.context_sets import latest_kept
from lhb_engine.estimate import Estimate
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401


def test_the_truth_of_a_direction_is_that_of_its_choices():
    world = World("plain", dim=2, arms=3).draw(1)
    found = Estimate("ok", world.weights, theta=-world.theta, last_round=200)
    sets = {number: world.contexts(number, number)[0] for number in latest_kept(200)}
    worst = table.truth(world, found, sets)
    found = replace(found, theta=world.theta)
    best = table.truth(world, found, sets)
    pays = world.weights.sum() * np.array([s @ world.theta for s in sets.values()])
    assert best[0] == pytest.approx(pays.max(axis=1).mean() - pays.mean())
    assert best[1] == pytest.approx(pays.max(axis=1).mean() - pays.mean(axis=0).max())
    assert worst[2] == pytest.approx(pays.max(axis=1).mean() - pays.min(axis=1).mean())
    assert (best[2], best[3], worst[3]) == (0.0, 1.0, 0.0)
    found = replace(found, candidates=np.array([world.theta, -world.theta]))
    assert table.truth(world, found, sets)[0] == pytest.approx((best[0] + worst[0]) / 2)


def test_a_row_counts_the_fits_that_hold(monkeypatch):
    fits = {
        1: [dict.fromkeys((*table.SAID, "best_is_right"), (1.0, 1.5, 0.0, 2.0))],
        2: [dict.fromkeys((*table.SAID, "best_is_right"), (1.0, 2.5, 2.0, 3.0))] * 3,
    }
    monkeypatch.setattr(table, "play", lambda name, seed: fits[seed])
    [row] = table.run(["weak"], [1, 2])
    assert (row["fits"], row["over_chance"]["true"]) == (4, 1.0)
    assert row["over_chance"]["said"] == pytest.approx(2.25)
    assert row["over_chance"]["holds"] == pytest.approx(0.25)
    # one run is 1 less 0.25 off, the other 3 times 0.25
    assert row["over_chance"]["error"] == pytest.approx(0.75 * np.sqrt(2.0) / 4)


def test_what_is_said_of_the_best_choice_is_judged_by_tenths_of_it():
    some = np.array([[0.2, 0.31, 0.0, 1.0], [0.4, 0.39, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]])
    low, high = table.tenths([some, np.array([[0.3, 0.35, 0.0, 1.0]])])
    # both runs are 0.05 off on average; of one fit each 0.06 beside that
    assert low == "Best is right: true 0.300, said 0.350 ± 0.000 of 3"
    assert high == "Best is right: true 1.000, said 1.000 ± 0.000 of 1"
    [line] = table.tenths([some[:1], some[1:2]])
    assert line == "Best is right: true 0.300, said 0.350 ± 0.042 of 2"


def test_a_run_says_and_is_judged():
    judged = table.play("weak", 3)
    assert judged
    said = {*table.SAID, "best_is_right", "in_all", "over_next"}
    assert all(set(fit) == said for fit in judged)
