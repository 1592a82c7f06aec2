"""What a file says of where sums took in late values is checked by the rules of a reward."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from lhb_engine.agents.fit_cost import FitCost
from service.base.problems import Problem
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.import_file import fold_file
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import Records, exported, resealed

LATEST, N = 8, 20


@pytest.fixture(name="records")
def of_a_session_with_late_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    """Rounds 2 and 3 get one more value once they are old, and a value of these is corrected."""
    keep_sums_from(monkeypatch, LATEST)
    harness = ServiceHarness(tmp_path)
    harness.create(reward_mode="sum", reward_wait_seconds=2.0)
    for round in range(1, N + 1):
        harness.now += 1.0
        harness.decide()
        harness.reward(1.0, round=round, reward_id=f"r{round}")
    harness.reward(1.0, round=2, reward_id="late")
    harness.decide()
    harness.reward(1.0, round=3, reward_id="later")
    harness.reward(2.0, replaces="r3", reward_id="corrected")
    return [json.loads(line) for line in exported(harness).splitlines()[:-1]]


def value(records: Records, name: str) -> dict[str, Any]:
    return next(one for one in records if one.get("reward_id") == name)


def fold(records: Records) -> None:
    fold_file(io.BytesIO(resealed(records)), io.BytesIO(), False)


def test_a_true_file_is_taken(records: Records) -> None:
    told = {one["reward_id"]: one["late"] for one in records if "late" in one}
    assert told == {"late": N + 1, "later": N + 2, "corrected": N + 2}
    fold(records)
    del value(records, "late")["late"]  # as in files of earlier releases
    fold(records)


@pytest.mark.parametrize(
    ("name", "late", "why"),
    [
        ("late", 2, "elsewhere"),  # it had not left the latest rounds yet
        ("late", LATEST + 2, "elsewhere"),
        ("late", N + 3, "elsewhere"),  # the next value came earlier
        ("corrected", N + 1, "elsewhere"),
        ("corrected", N + 3, "not as many"),
        (f"r{N}", N + 1, "elsewhere"),
    ],
)
def test_a_place_that_no_value_had_is_refused(
    records: Records, name: str, late: int, why: str
) -> None:
    value(records, name)["late"] = late
    with pytest.raises(Problem, match=why) as caught:
        fold(records)
    assert caught.value.field == "measurement.late"


def test_a_copy_that_no_time_closes_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first fit adds up all rows, so that each stands in its round's place."""
    keep_sums_from(monkeypatch, LATEST)
    harness = ServiceHarness(tmp_path)
    harness.create(default_reward=0.0, reward_wait_seconds=2.0)
    for _ in range(N):
        harness.now += 1.0
        harness.decide()
    harness.reward(1.0, round=2)
    with harness.store.reader() as reader:
        assert next(reader.measurement_log((*harness.key, ""))).late == N + 1
        given = harness.session, {"default_reward": None}, False, FitCost(1e3, 1e3), harness.now
        copy, agent = copied_session(*given)
        file = b"".join(copy_session(reader, harness.session, copy, agent))
    assert b"late" not in file
    assert fold_file(io.BytesIO(file), io.BytesIO(), False)[0].session.n_measurements == 1


def test_a_total_of_a_slot_after_all_decisions_has_none() -> None:
    """There is no decision whose place could be looked up."""
    kept = Path(__file__).parent / "exports" / "1.0-clock.ndjson.gz"
    records = [json.loads(line) for line in gzip.decompress(kept.read_bytes()).splitlines()[:-1]]
    last = [one for one in records if one["record"] == "measurement"][-1]
    last |= {"first_round": 999, "last_round": 999, "at": 9e10}
    records[0]["session"]["schedule"]["n_slots"] = 1000
    fold(records)
    last["late"] = 1
    with pytest.raises(Problem, match="elsewhere"):
        fold(records)


@pytest.mark.parametrize("settings", [{"reward_mode": "single"}, {"default_reward": 0.0}])
def test_a_value_that_stands_in_its_place_has_none(
    records: Records, settings: dict[str, Any]
) -> None:
    """Where no time closes rounds; or of several rounds."""
    kept = [one for one in records if one.get("reward_id") not in ("late", "later", "corrected")]
    kept[0]["session"] |= {"reward_mode": "single", **settings}
    fold(kept)
    last = value(kept, "r2")
    last["late"] = LATEST + 3
    if "default_reward" in settings:
        fold(kept)
        kept.remove(value(kept, "r1"))
        last["first_round"], last["position"] = 1, 1
    with pytest.raises(Problem, match="elsewhere"):
        fold(kept)
