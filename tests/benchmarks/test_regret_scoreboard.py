"""The scoreboard at toy size: paired, reproducible, and the oracle's ratio to itself is 1."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.regret_scoreboard import (
    BOARD,
    HARDER,
    LIFE,
    TOLD,
    paired_interval,
    play,
    run,
    variant_of,
)
from lhb_engine.posterior.anytime_settings import AnytimeSettings
from tests.examples import repeats
from tests.lhb_engine.draw_little import little_drawn  # noqa: F401

SMALL = {"rounds": 40, "horizon": 10, "dim": 2, "arms": 3, "sparsity": 2}


def test_worlds_of_many_users_are_played_with_levels_and_without():
    worlds = [replace(w, **SMALL, users=2) for w in LIFE if w.users]
    assert [w.levels for w in worlds] == [0.0, 0.0, 5.0, 5.0]
    found = run(worlds, ["uniform"], range(1))["board"]
    oracles = [row["algorithms"]["oracle_w"]["regret"] for row in found]
    assert oracles[0] == oracles[1]
    assert oracles[0] != oracles[2]


@pytest.mark.parametrize(
    ("worlds", "n_seeds"), [((HARDER[7], TOLD[1]), 2), *repeats(((*HARDER, *TOLD), 1))]
)
def test_every_world_plays_and_is_scored(worlds, n_seeds):
    worlds = [replace(world, **SMALL) for world in worlds]
    found = run(worlds, ["anytime", "uniform"], range(n_seeds))
    assert [row["world"] for row in found["board"]] == [world.name for world in worlds]
    for row in found["board"]:
        oracle, ours = row["algorithms"]["oracle_w"], row["algorithms"]["anytime"]
        assert oracle["ratio"] == 1.0
        assert ours["ratio"] == np.mean(ours["regret"]) / np.mean(oracle["regret"])
        assert row["algorithms"]["uniform"]["mean"] > 0


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_jobs():
    worlds = [replace(BOARD[1], **SMALL)]
    one, two = (run(worlds, ["anytime"], range(2), jobs=jobs) for jobs in (1, 2))
    for found in (one, two):
        for played in found["board"][0]["algorithms"].values():
            played.pop("fit_seconds")
    assert one == two


def test_variants_are_played_beside_the_agent_as_it_is():
    worlds = [replace(BOARD[1], **SMALL)]
    same, other = "anytime sweeps=8,acceptance=2", "anytime kept=1,early_growth=2.0"
    found = run(worlds, ["anytime", same, other], range(3))["board"][0]["algorithms"]
    assert found[same]["regret"] == found["anytime"]["regret"]
    assert found[same]["less_anytime"] == [0.0, 0.0]
    less = np.subtract(found[other]["regret"], found["anytime"]["regret"])
    assert less.any()
    expected = [less.mean(), less.std(ddof=1) / np.sqrt(3)]
    np.testing.assert_allclose(found[other]["less_anytime"], expected)


def test_settings_are_changed_by_name():
    _, changed = variant_of("acceptance=inf,sweeps=10")
    assert (changed.acceptance, changed.sweeps) == (np.inf, 10)
    assert replace(changed, acceptance=2.0, sweeps=8) == AnytimeSettings()
    for wrong in ("speed=1", "sweeps=1.5", "acceptance"):
        with pytest.raises(ValueError):
            variant_of(wrong)


def test_a_variant_changes_options_and_settings():
    options, settings = variant_of("profiles=chosen,acceptance=inf")
    assert options == {"profiles": "chosen"}
    assert settings == AnytimeSettings(acceptance=np.inf)
    assert variant_of("") == ({}, AnytimeSettings())
    for wrong in ("profiles=all", "speed=1"):
        with pytest.raises(ValueError):
            variant_of(wrong)
    world = replace(BOARD[1], **SMALL)
    assert play(world, "anytime profiles=shared", 0)[0] == play(world, "anytime", 0)[0]


def test_the_interval_is_paired():
    oracle = np.random.default_rng(0).uniform(1, 100, 20)
    low, high = paired_interval(2.0 * oracle, oracle)
    np.testing.assert_allclose([low, high], 2.0)
