"""Control groups and shadows of sessions with a clock: blocks of slots take turns."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.commands.sessions import change_session
from service.lift.add_to_sums import next_step
from service.lift.exact import nearest
from service.lift.sums import LiftSums
from service.lift.units import units_in_words
from service.rounds.timeline import in_rounds
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.service.commands.slots import begin, between
from tests.service.service_harness import ServiceHarness
from tests.service.test_lift import sum_up

ARMS = np.array([[1.0, 0.0], [0.0, 1.0]])
HORIZON = 3
HOLDOUT = {"share": 0.5, "policy": "uniform", "planned_rounds": 300, "guard": True}


def slots(
    harness: ServiceHarness, first: int, last: int, effect: float = 0.0, **forced: int
) -> dict[int, str]:
    """Two users decide in each slot, whose total comes when it is over. Who played each slot."""
    played = {}
    rng = random.Random(first)
    for slot in range(first, last + 1):
        harness.now = 900.0 + 60 * slot
        given = {"contexts": ARMS, "default_arm": 1, **forced}
        by = {str(harness.decide(user, **given).played_by) for user in ("a", "b")}
        [played[slot]] = by
        harness.now += 60
        value = 1.0 + rng.gauss(0, 0.1) + (effect if played[slot] == "agent" else 0.0)
        harness.reward(value, **between(harness.now - 60, harness.now))
    return played


def counted(sums: LiftSums) -> dict[str, tuple[int, float]]:
    return {name: (one.n_trajectories, nearest(one.totals[0])) for name, one in sums.groups.items()}


def expected(played: dict[int, str]) -> dict[str, tuple[int, float]]:
    """Of each group, its blocks of six slots, and their last four slots."""
    units: dict[str, dict[int, int]] = {"agent": {}, "control": {}}
    for slot, by in played.items():
        if (slot - 1) % 6 >= 2:
            block = (slot - 1) // 6
            units[by][block] = units[by].get(block, 0) + 1
    return {name: (len(blocks), float(sum(blocks.values()))) for name, blocks in units.items()}


def test_blocks_of_slots_fall_to_the_groups_for_everybody(
    harness: ServiceHarness, tmp_path: Path
) -> None:
    """A block's first slots, which still pay for the block before, are left out."""
    begin(harness, holdout=HOLDOUT, horizon=HORIZON)
    played = slots(harness, 1, 120)
    blocks = [{played[slot] for slot in range(i, i + 6)} for i in range(1, 121, 6)]
    assert all(len(block) == 1 for block in blocks)
    assert set(played.values()) == {"agent", "control"}
    sums = sum_up(harness)
    assert counted(sums) == expected(played)
    with harness.store.reader() as reader:
        exported = b"".join(export_session(reader, harness.session))
        assert replay_session(reader, harness.session).differences == []
    session, _ = harness.import_file(tmp_path, exported)
    harness.key = session.key
    again = sum_up(harness)
    for name, group in sums.groups.items():
        assert list(again.groups[name].totals) == list(group.totals)
        assert again.groups[name].products.tolist() == group.products.tolist()


def test_a_total_over_slots_of_two_blocks_is_left_out_and_a_correction_counts(
    harness: ServiceHarness,
) -> None:
    begin(harness, holdout=HOLDOUT, horizon=HORIZON)
    for slot in range(1, 14):
        harness.now = 900.0 + 60 * slot
        harness.decide("a", contexts=ARMS, default_arm=1)
    harness.reward(8.0, **between(960 + 60 * 3, 960 + 60 * 5))  # slots 4 and 5
    harness.reward(1.0, **between(960 + 60 * 5, 960 + 60 * 7))  # slots 6 and 7
    harness.reward(6.0, **between(960 + 60 * 3, 960 + 60 * 5), correct=True, reward_id="again")
    sums = sum_up(harness)
    assert (sums.rounds, sums.n_left_out) == (2.0, 1)
    assert sum(nearest(one.totals[1]) for one in sums.groups.values()) == 6.0


def test_where_totals_are_of_trajectories_these_fall_to_the_groups(
    harness: ServiceHarness,
) -> None:
    begin(harness, holdout=HOLDOUT, horizon=HORIZON, clock={"totals": "trajectory"})
    played: dict[str, set[Any]] = {}
    for slot in range(1, 15):
        harness.now = 900.0 + 60 * slot
        for i in range(12):
            decision = harness.decide(f"u{i}", contexts=ARMS, default_arm=1)
            played.setdefault(f"u{i}", set()).add(decision.played_by)
    harness.now += 60
    for user in played:
        harness.reward(14.0, user, **between(960, 960 + 60 * 14))
    assert all(len(by) == 1 for by in played.values())
    groups = [str(by) for [by] in played.values()]
    found = counted(sum_up(harness))
    assert found == {name: (n, 14.0 * n) for name in found if (n := groups.count(name))}
    assert 0 < groups.count("control") < 12


def test_slots_of_the_guard_do_not_count_and_armed_again_a_comparison_begins(
    harness: ServiceHarness,
) -> None:
    begin(harness, holdout=HOLDOUT, horizon=HORIZON)
    n, played = 0, {}
    while harness.session.trial.guard == "armed":
        assert n < 1200
        played |= slots(harness, n + 1, n + 120, effect=-0.9)
        n += 120
        before = sum_up(harness)
    assert set(slots(harness, n + 1, n + 12).values()) == {"guard"}
    harness.now += 60
    last = played.pop(n)  # in the slot of the fall somebody else may have played
    assert last in ("agent", "control")
    assert counted(sum_up(harness)) == counted(before)
    assert before.rounds in (sum(n for _, n in expected(played).values()) + i for i in (0, 1))
    harness.run(change_session(harness.key, {"guard": "armed"}))
    since = harness.session.schedule.n_slots
    played = slots(harness, since + 1, since + 60)
    pure = {slot: by for slot, by in played.items() if slot >= since + HORIZON}
    assert counted(sum_up(harness)) == expected(pure)


def test_a_shadow_counts_for_nobody_until_the_agent_plays(harness: ServiceHarness) -> None:
    begin(harness, holdout=HOLDOUT, horizon=HORIZON, mode="shadow")
    assert set(slots(harness, 1, 24, forced_arm=0).values()) == {"caller"}
    sums = sum_up(harness)
    assert (sums.rounds, sums.shadow.n_rounds) == (0.0, 48)
    harness.run(change_session(harness.key, {"mode": "live"}))
    since = harness.session.schedule.n_slots
    played = slots(harness, since + 1, since + 60)
    pure = {slot: by for slot, by in played.items() if slot >= since + HORIZON}
    assert counted(sum_up(harness)) == expected(pure)
    harness.run(change_session(harness.key, {"mode": "shadow"}))
    slots(harness, since + 61, since + 72, forced_arm=0)
    assert sum_up(harness).rounds <= sum(n for _, n in expected(pure).values())


@pytest.mark.parametrize("n", [0, 2])
def test_a_shadow_goes_live_before_and_after_its_first_slot(
    harness: ServiceHarness, n: int
) -> None:
    begin(harness, holdout=HOLDOUT, horizon=HORIZON, mode="shadow")
    if n:
        slots(harness, 1, n, forced_arm=0)
    harness.run(change_session(harness.key, {"mode": "live", "guard": "armed"}))
    played = slots(harness, n + 2, n + 30)
    assert set(played.values()) <= {"agent", "control"}
    assert sum_up(harness).rounds > 0
    with harness.store.reader() as reader:
        assert next_step(reader, harness.session) is None


@pytest.mark.parametrize(
    ("seconds", "one", "many"),
    [
        (3600, "an hour", "hours"),
        (60, "a minute", "minutes"),
        (90, "a slot of 90 s", "slots of 90 s"),
    ],
)
def test_texts_call_a_round_what_it_is(
    harness: ServiceHarness, seconds: int, one: str, many: str
) -> None:
    begin(harness, holdout=HOLDOUT, horizon=HORIZON, clock={"slot_seconds": seconds})
    assert units_in_words(harness.session) == f"blocks of 6 {many}"
    text = in_rounds(harness.session, "+1 a round, from 3 rounds; since round 2")
    assert text == f"+1 {one}, from 3 {many}; since {one.split(' ', 1)[1]} 2"
