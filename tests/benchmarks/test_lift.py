"""`lhb bench lift`."""

import pytest

from benchmarks.commands.agents import lift
from benchmarks.lift import WORLDS, run


def test_intervals_that_are_looked_at_every_day_hold_where_those_of_a_fixed_sample_do_not() -> None:
    alike = next(w for w in WORLDS if w.name == "users alike")
    (row,) = run([alike], n_experiments=40, n_users=200, first_seed=500)
    assert row["covered"] >= 0.9
    assert row["fixed_covered"] < 0.85
    assert 1.44 < row["width_ratio"] < 1.46
    assert row["variance_taken"] > 0.1


def test_a_world_may_be_measured_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lift(experiments=1, users=100, world="an effect")
    assert [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:]] == [
        "| an effect"
    ]
    with pytest.raises(SystemExit, match="there is no world 'elsewhere'; there are no effect,"):
        lift(world="elsewhere")


@pytest.mark.parametrize(
    ("name", "holds"), [("pays now, costs as much later", True), ("no burn-in", False)]
)
def test_blocks_of_slots_hold_where_actions_carry_over_once_their_first_slots_are_left_out(
    name: str, holds: bool
) -> None:
    world = next(w for w in WORLDS if w.name == f"blocks: {name}")
    (row,) = run([world], n_experiments=12, n_users=0, first_seed=600)
    assert (row["covered"] > 0.9) == holds
