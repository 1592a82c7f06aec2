"""The guard of a holdout: it trips when the agent does harm, and is armed again by hand."""

import random
from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.sessions import change_session
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.service.service_harness import ServiceHarness
from tests.service.test_lift import sum_up

ARMS = np.array([[1.0, 0.0], [0.0, 1.0]])
HOLDOUT = {"share": 0.5, "policy": "default_arm", "planned_rounds": 300, "guard": True}
USERS = [f"u{i}" for i in range(100)]


def visit(harness: ServiceHarness, effect: float, seed: int, users: list[str] = USERS) -> list[str]:
    """A round of each user; whoever is played by the agent earns so much more. Who played."""
    rng = random.Random(seed)
    played = []
    for user in users:
        decision = harness.decide(user, contexts=ARMS, default_arm=1)
        by = str(decision.played_by)
        value = 1.0 + (effect if by == "agent" else 0.0) + rng.gauss(0, 0.1)
        harness.reward(value, user, round=decision.round)
        played.append(by)
    return played


def guard(harness: ServiceHarness) -> str:
    return harness.session.trial.guard


def arm(harness: ServiceHarness, how: str = "armed") -> None:
    harness.run(change_session(harness.key, {"guard": how}))


def test_everybody_plays_the_default_arm_once_lift_lies_below_zero(
    harness: ServiceHarness,
) -> None:
    harness.create(holdout=HOLDOUT)
    assert set(visit(harness, -0.5, 1)) == {"agent", "control"}
    assert guard(harness) == "armed"
    sum_up(harness)
    assert guard(harness) == "tripped"
    assert set(visit(harness, 0.0, 2)) == {"guard"}
    assert sum_up(harness).rounds == len(USERS)
    decision = harness.decide("u1", contexts=ARMS, default_arm=1)
    assert (decision.arm, decision.forced, decision.propensity) == (1, True, None)
    assert decision.agent_arm in (0, 1)
    with harness.store.reader() as reader:
        [entry] = [one for one in reader.audit(None, "", 9) if one.action == "guard_tripped"]
        assert (entry.actor, entry.subject) == ("guard", harness.key[1])
        assert reader.guards_tripped() == [("", 1)]
        assert replay_session(reader, harness.session).differences == []


def test_it_trips_where_users_leave_so_that_they_bring_less_in_all(
    harness: ServiceHarness,
) -> None:
    harness.create(holdout=HOLDOUT)
    played = visit(harness, 0.5, 1)
    stay = [user for user, by in zip(USERS, played, strict=True) if by == "control"]
    for seed in (2, 3):
        assert set(visit(harness, 0.5, seed, stay)) == {"control"}
    sums = sum_up(harness)
    earned = [sums.groups[name].means()[0] for name in ("agent", "control")]
    assert earned[0] > earned[1]
    assert guard(harness) == "tripped"


def test_armed_again_it_judges_what_came_since(harness: ServiceHarness, tmp_path: Any) -> None:
    """Neither the harm before nor late rewards of those rounds count again."""
    harness.create(holdout=HOLDOUT)
    visit(harness, -0.5, 1)
    late = harness.decide(USERS[0], contexts=ARMS, default_arm=1)
    sum_up(harness)
    arm(harness)
    assert guard(harness) == "armed"
    assert sum_up_all(harness) == 0
    harness.reward(-9.0, USERS[0], round=late.round)
    assert sum_up_all(harness) == 0
    assert set(visit(harness, 0.0, 2)) == {"agent", "control"}
    assert sum_up_all(harness) == len(USERS)
    assert guard(harness) == "armed"
    with harness.store.reader() as reader:
        exported = b"".join(export_session(reader, harness.session))
        assert reader.guards_tripped() == [("", 0)]
    before = sum_up(harness)
    session, _ = harness.import_file(tmp_path, exported)
    harness.key = session.key
    after = sum_up(harness)
    for name in ("agent", "control"):
        found, expected = after.groups[name].totals, before.groups[name].totals
        assert list(found) == list(expected)


def sum_up_all(harness: ServiceHarness) -> float:
    """Measured rounds of the comparison; nothing is stored of one that has none."""
    with harness.store.reader() as reader:
        from service.lift.add_to_sums import next_step

        if next_step(reader, harness.session) is None:
            return 0
    return sum_up(harness).rounds


@pytest.mark.parametrize(("effect", "more"), [(0.5, {}), (0.0, {}), (-0.5, {"guard": False})])
def test_it_does_not_trip_without_harm_or_where_there_is_none(
    harness: ServiceHarness, effect: float, more: Any
) -> None:
    harness.create(holdout={**HOLDOUT, **more})
    visit(harness, effect, 3)
    sum_up(harness)
    assert guard(harness) == ("off" if more else "armed")
    assert set(visit(harness, effect, 4)) == {"agent", "control"}


def test_arming_an_armed_guard_begins_anew_so_that_good_weeks_hide_no_harm(
    harness: ServiceHarness,
) -> None:
    harness.create(holdout=HOLDOUT)
    for seed in range(3):
        visit(harness, 0.5, seed)
    sum_up(harness)
    arm(harness)
    visit(harness, -0.5, 9)
    assert sum_up(harness).rounds == len(USERS)
    assert guard(harness) == "tripped"


def test_off_lets_the_agent_play_in_the_same_comparison(harness: ServiceHarness) -> None:
    harness.create(holdout=HOLDOUT)
    visit(harness, -0.5, 1)
    n = sum_up(harness).rounds
    arm(harness, "off")
    assert set(visit(harness, 0.0, 2)) == {"agent", "control"}
    assert sum_up(harness).rounds == 2 * n


def test_a_session_without_holdout_has_no_guard(harness: ServiceHarness) -> None:
    harness.create(mode="shadow")
    with pytest.raises(Problem) as caught:
        arm(harness)
    assert caught.value.field == "guard"
