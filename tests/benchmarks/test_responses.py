"""`lhb bench responses`."""

import numpy as np
import pytest

from benchmarks.commands.agents import responses
from benchmarks.responses import WORLDS, ResponsesWorld, play


def test_intervals_of_users_and_groups_are_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    responses(seeds=2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2 : 2 + len(WORLDS)]] == [
        f"| {world.name}" for world in WORLDS
    ]


def test_users_of_few_rounds_are_held_as_often_as_is_said() -> None:
    """Without what is not known of the spread, 0.91 are."""
    few = ResponsesWorld(60, 10, 0.3)
    held = [np.mean(found["users"]) for seed in range(20) if "users" in (found := play(few, seed))]
    assert len(held) > 15
    assert np.mean(held) == pytest.approx(0.945, abs=0.02)
