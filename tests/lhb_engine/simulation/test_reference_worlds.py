"""The reference worlds are what their files say, and oracle_w still gets its committed regret."""

import json
from importlib.resources import files

import numpy as np
import pytest

from lhb_engine.simulation.play import simulate
from tests.lhb_engine.simulation.reference_worlds import REFERENCE_WORLDS, load_world


@pytest.mark.parametrize("name", REFERENCE_WORLDS)
def test_oracle_w_gets_the_committed_regret(name):
    world = load_world(name)
    env = world.environment
    played = simulate(
        "oracle_w",
        env,
        n_rounds=world.n_rounds,
        seed=0,
        options={"weights": env.weights.tolist()},
    )
    # least squares may differ in the last bits between LAPACKs, and an arm with them
    assert played.regret[-1] == pytest.approx(world.oracle_w_regret, rel=1e-3)


@pytest.mark.parametrize("name", REFERENCE_WORLDS)
def test_a_world_survives_its_file(name):
    world = load_world(name)
    file = files("tests.lhb_engine.simulation.reference_worlds") / f"{name}.json"
    assert world.to_json() == json.loads(file.read_text())
    assert np.linalg.norm(world.environment.theta) == pytest.approx(1)
    assert world.environment.weights.sum() == pytest.approx(1)


def test_there_are_five_worlds_and_no_others():
    assert len(REFERENCE_WORLDS) == 5
    with pytest.raises(KeyError):
        load_world("flat")
