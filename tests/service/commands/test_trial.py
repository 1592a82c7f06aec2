"""Who plays: the agent, a control group, or the caller; and what the log says of it."""

from typing import Any

import numpy as np
import pytest

from lhb_engine.randomness import Draw
from service.base.problems import Problem, ProblemCode
from service.commands.sessions import change_session
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.service.service_harness import ServiceHarness

ARMS = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
HALF = {"share": 0.5, "policy": "default_arm", "planned_rounds": 1000, "guard": False}
UNIFORM = {**HALF, "policy": "uniform"}


def decide(harness: ServiceHarness, trajectory: str = "", **more: Any) -> Any:
    return harness.decide(trajectory, contexts=ARMS, **more)


def test_a_trajectory_is_in_one_group_for_ever(harness: ServiceHarness) -> None:
    """Its group is the hash of its key, salted by the seed; control plays the default arm."""
    harness.create(holdout=HALF, horizon=2)
    names = [f"user-{i}" for i in range(60)]
    groups = {}
    for name in names * 2:
        decision = decide(harness, name, default_arm=2)
        assert groups.setdefault(name, decision.played_by) == decision.played_by
        assert (decision.arm == 2) >= (decision.played_by == "control")
        assert decision.forced == (decision.played_by == "control")
        assert (decision.propensity is None) == (decision.played_by == "control")
        is_control = Draw(1, name, 0).uniform("holdout") < 0.5
        assert decision.played_by == ("control" if is_control else "agent")
    assert 15 < list(groups.values()).count("control") < 45


def test_the_groups_of_another_seed_are_others(harness: ServiceHarness) -> None:
    groups = []
    for seed in (1, 2):
        harness.create(holdout=HALF, seed=seed)
        played = [decide(harness, f"user-{i}", default_arm=2).played_by for i in range(40)]
        groups.append(played)
    assert 5 < sum(a != b for a, b in zip(*groups, strict=True)) < 35


def test_the_default_trajectory_falls_into_blocks_longer_than_the_horizon(
    harness: ServiceHarness,
) -> None:
    harness.create(holdout=UNIFORM)  # the horizon is 4
    played = [decide(harness).played_by for _ in range(160)]
    blocks = [played[i : i + 8] for i in range(0, 160, 8)]
    assert all(len(set(block)) == 1 for block in blocks)
    assert 4 < sum(block[0] == "control" for block in blocks) < 16


def test_uniform_control_draws_every_arm_and_says_how_likely(harness: ServiceHarness) -> None:
    harness.create(holdout={**UNIFORM, "share": 0.99})
    rounds = [decide(harness, "a") for _ in range(60)]
    assert {one.played_by for one in rounds} == {"control"}
    assert {one.arm for one in rounds} == {0, 1, 2}
    assert {one.propensity for one in rounds} == {1 / 3}


def test_a_caller_that_forces_an_arm_plays_it_in_either_group(harness: ServiceHarness) -> None:
    harness.create(holdout=HALF)
    rounds = [decide(harness, f"user-{i}", forced_arm=1) for i in range(10)]
    assert {(one.played_by, one.arm) for one in rounds} == {("caller", 1)}


def test_a_round_without_action_belongs_to_its_group(harness: ServiceHarness) -> None:
    harness.create(holdout=HALF)
    for i in range(20):
        acted = decide(harness, f"user-{i}", default_arm=0)
        rest = harness.decide(f"user-{i}", contexts=None)
        assert (rest.played_by, rest.arm, rest.agent_arm) == (acted.played_by, None, None)
        assert not rest.forced


def test_a_shadow_is_asked_and_the_caller_plays(harness: ServiceHarness) -> None:
    """The agent's choice is the one that it would have made live, and is logged."""
    harness.create(mode="shadow", arms=["x", "y", "z"])
    shadow = [decide(harness, forced_arm="z") for _ in range(20)]
    assert {(one.played_by, one.arm, one.arm_id, one.forced) for one in shadow} == {
        ("caller", 2, "z", True)
    }
    harness.create()
    assert [one.agent_arm for one in shadow] == [decide(harness).arm for _ in range(20)]


@pytest.mark.parametrize(
    ("body", "more", "code", "field"),
    [
        ({"mode": "shadow"}, {}, ProblemCode.MISSING, "forced_arm"),
        ({"holdout": HALF}, {}, ProblemCode.MISSING, "default_arm"),
        ({"holdout": HALF}, {"default_arm": "x"}, ProblemCode.INVALID, "default_arm"),
        (
            {"holdout": HALF},
            {"default_arm": "x", "arm_ids": ["a", "b", "c"]},
            ProblemCode.OUT_OF_RANGE,
            "default_arm",
        ),
        ({}, {"forced_arm": "x"}, ProblemCode.INVALID, "forced_arm"),
    ],
)
def test_a_request_without_the_arm_that_may_be_played_is_refused(
    harness: ServiceHarness, body: Any, more: Any, code: ProblemCode, field: str
) -> None:
    """Whatever the group: else it would be refused for a share of trajectories only."""
    harness.create(**body)
    for name in ("a", "b", "c", "d"):
        with pytest.raises(Problem) as caught:
            decide(harness, name, **more)
        assert (caught.value.code, caught.value.field) == (code, field)
    assert harness.session.n_rounds == 0


def test_a_session_without_a_trial_says_nothing_of_it(harness: ServiceHarness) -> None:
    harness.create()
    decision = decide(harness, default_arm=1)
    assert (decision.played_by, decision.agent_arm) == (None, None)
    assert not harness.session.trial.is_on


def test_export_import_and_replay_know_who_played(harness: ServiceHarness, tmp_path: Any) -> None:
    harness.create(holdout=UNIFORM)
    for i in range(30):
        decide(harness, f"user-{i % 10}")
        harness.decide(f"user-{i % 10}", contexts=None)
        decide(harness, "forced", forced_arm=1)
    before = _log(harness)
    with harness.store.reader() as reader:
        exported = b"".join(export_session(reader, harness.session))
        assert replay_session(reader, harness.session).differences == []
    session, _ = harness.import_file(tmp_path, exported)
    harness.key = session.key
    assert _log(harness) == before
    assert {by for by, *_ in before} == {"agent", "control", "caller"}
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []
        row = harness.session
        row.seed += 1
        assert any("played_by is" in one for one in replay_session(reader, row).differences)


def test_a_shadow_that_began_later_is_known_by_its_rounds(
    harness: ServiceHarness, tmp_path: Any
) -> None:
    """Its rounds without action are the caller's, those before it nobody's."""
    harness.create()
    assert [decide(harness, "a", **more).played_by for more in ({}, {"forced_arm": 1})] == [
        None
    ] * 2
    harness.run(change_session(harness.key, {"mode": "shadow"}))
    decide(harness, "a", forced_arm=1)
    assert harness.decide("a", contexts=None).played_by == "caller"
    with harness.store.reader() as reader:
        exported = b"".join(export_session(reader, harness.session))
        assert replay_session(reader, harness.session).differences == []
    assert harness.import_file(tmp_path, exported)[1]


def _log(harness: ServiceHarness) -> list[tuple[Any, ...]]:
    with harness.store.reader() as reader:
        names = [one.key for one in reader.trajectories(harness.key)]
        rows = [row for name in names for row in reader.decisions((*harness.key, name), 0, 100)]
    return [(row.played_by, row.agent_arm, row.arm, row.propensity, row.round) for row in rows]
