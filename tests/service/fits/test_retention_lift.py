"""A comparison goes on from its sums where the rows that made these are dropped."""

import json
from pathlib import Path
from typing import Any

import pytest

from service.base.problems import Problem
from service.commands.drop_rounds import give_up_rounds, plan
from service.commands.erase_trajectory import erase_trajectory
from service.lift.add_to_sums import next_step
from service.lift.watch import keep_lift
from service.rounds.retention import Plan
from service.session.records import LiftSumsRow
from service.transfer.file_format import export_session, written
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.fits.retention_twins import Twins, small_limits  # noqa: F401
from tests.service.service_harness import ServiceHarness

pytestmark = pytest.mark.slow
HOLDOUT = {
    "holdout": {"share": 0.5, "policy": "uniform", "planned_rounds": 1000, "guard": False},
    "options": {"memory": 90},
}
NAMES = ("", "a", "b")


def sum_up(twins: Twins, i: int) -> LiftSumsRow:
    """Take all steps of a session's comparison; return its sums."""
    harness, key = twins.harness, twins.keys[i]
    while True:
        with harness.store.reader() as reader:
            step = next_step(reader, twins.session(i))
            row = reader.lift_sums(key)
        if step is None:
            assert row is not None
            return row._replace(session_id="")
        assert harness.run(keep_lift(key, step)) is not None


def file_of(twins: Twins, i: int) -> list[dict[str, Any]]:
    with twins.harness.store.reader() as reader:
        lines = [*export_session(reader, twins.session(i))]
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize(
    ("settings", "database_url"),
    [(HOLDOUT, "sqlite"), *((HOLDOUT | {"options": {}}, kind) for kind in ("sqlite", "postgres"))],
    ids=["memory", "sums", "sums on PostgreSQL"],
    indirect=["database_url"],
)
def test_lift_is_that_of_a_session_that_keeps_all(
    harness: ServiceHarness, settings: dict[str, Any], database_url: str, tmp_path: Path
) -> None:
    """Sums and line are equal to the bit, also after an import and an erased trajectory."""
    twins = Twins(harness, database_url, {"keep_days": 1 / 24}, **settings)
    n_drops = 0
    for _ in range(8):
        twins.play(40, NAMES)
        harness.now += 3600.0
        assert sum_up(twins, 0) == sum_up(twins, 1)
        n_drops += twins.drop(1)
    assert n_drops >= 2
    assert twins.session(1).n_dropped_rounds > 100
    content = b"".join(written(iter(file_of(twins, 1))))
    moved, _ = harness.import_file(tmp_path, content)
    twins.keys.append(moved.key)
    assert b"".join(written(iter(file_of(twins, 2)))).count(b'"unit"') == content.count(b'"unit"')
    twins.play(40, NAMES)
    assert sum_up(twins, 0) == sum_up(twins, 1) == sum_up(twins, 2)
    for key in twins.keys:
        harness.run_large(erase_trajectory(key, "b"))
    sums = [sum_up(twins, i) for i in range(3)]
    assert sums[0] == sums[1] == sums[2]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_who_asks_for_the_lift_of_a_session_without_a_trial_may_move_it(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    """GET .../lift and .../shadow sum up where something is compared; else an export had sums."""
    twins = Twins(harness, database_url, {"keep_days": 1 / 24}, options={"memory": 90})
    for _ in range(2):
        twins.play(80, NAMES)
        with harness.store.reader() as reader:
            assert next_step(reader, twins.session(1)) is None
    harness.now += 3600.0
    assert twins.drop(1)
    records = file_of(twins, 1)
    moved, _ = harness.import_file(tmp_path, b"".join(written(iter(records))))
    twins.keys.append(moved.key)
    assert len(file_of(twins, 2)) == len(records)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("mode", ["live", "shadow"])
def test_rounds_stay_until_they_are_in_the_sums(
    harness: ServiceHarness, database_url: str, mode: str
) -> None:
    """A plan ends before the first round that lift lacks, and one that was made before is late."""
    settings: dict[str, Any] = {"options": {"memory": 40}, "keep_days": 1 / 24, "dim": 2}
    settings |= {"mode": "shadow"} if mode == "shadow" else {"holdout": HOLDOUT["holdout"]}
    played = {"forced_arm": 0} if mode == "shadow" else {}
    harness.create(algorithm="anytime", **settings)
    twins = Twins.__new__(Twins)
    twins.harness, twins.keys = harness, [harness.key]
    for _ in range(200):
        decision = harness.decide(**played)
        if decision.round != 7:
            harness.reward(1.0, round=decision.round)
    harness.make_fits(database_url)
    harness.now += 4000.0
    session = harness.session

    def planned() -> Plan | None:
        with harness.store.reader() as reader:
            return plan(reader, session, harness.now, young=0.0)

    assert planned() is None  # nothing is summed
    sum_up(twins, 0)
    found = planned()
    assert found is not None
    assert found.dropped_to > 100
    harness.reward(5.0, round=7)
    assert not harness.run(give_up_rounds(session.key, found))
    assert planned() is None  # the reward of round 7 is not in the sums
    before = json.loads(sum_up(twins, 0).sums)
    again = planned()
    assert again is not None
    assert harness.run(give_up_rounds(session.key, again))
    assert json.loads(sum_up(twins, 0).sums) == before


FORGED: dict[str, tuple[str, dict[str, Any], str]] = {
    "earlier": ("lift", {"decided": 1}, "lift.decided"),
    "later": ("lift", {"decided": 10**6}, "lift.decided"),
    "rewards to come": ("lift", {"measured": 10**6}, "lift.measured"),
    "huge number": ("unit", {"reward": "1p99999"}, "unit.reward"),
    "below the unit": ("unit", {"reward": "1p-2000"}, "unit.reward"),
    "rounds beyond": ("unit", {"rounds": 10**30}, "unit.rounds"),
    "a point of no time": ("lift", {"points": [[1.0, 0.0, 0.0, 0.0, 1e12]]}, "lift.points"),
    "another comparison": ("unit", {"since": 3}, "unit.since"),
    "nobody": ("unit", {"trajectory": "zz"}, "unit.block"),
    "no such block": ("unit", {"block": 10**6}, "unit.block"),
    "a name that no database keeps": ("trajectory", {"key": "a\0"}, "trajectory.key"),
    "no count": ("trajectory", {"n_rounds": -1}, "trajectory.n_rounds"),
    "no time": ("trajectory", {"last_at": 1e12}, "trajectory.last_at"),
}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_forged_sums_are_refused(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    twins = Twins(harness, database_url, {"keep_days": 1 / 24}, **HOLDOUT)
    twins.play(160, NAMES)
    harness.now += 3600.0
    sum_up(twins, 1)
    assert twins.drop(1)
    records = file_of(twins, 1)

    def refused(changed: list[dict[str, Any]]) -> str | None:
        with pytest.raises(Problem) as caught:
            harness.import_file(tmp_path, b"".join(written(iter(changed))))
        return caught.value.field

    for kind, change, field in FORGED.values():
        at = max(i for i, record in enumerate(records) if record["record"] == kind)
        changed = [record | change if i == at else record for i, record in enumerate(records)]
        assert refused(changed) == field, change
    [lift] = (record for record in records if record["record"] == "lift")
    units = [record for record in records if record["record"] == "unit"]
    rest = [record for record in records if record["record"] not in ("lift", "unit")]
    assert refused(rest) == "header.session.dropped_to"
    assert refused([*rest, lift, lift]) == "lift.record"
    assert refused([*rest, units[0], lift]) == "unit.since"
    assert refused([*rest, lift, units[0], units[0]]) == "unit.block"
