"""A session that drops rows moves house, forgets people, and says what it cannot do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.design.level_sums import LevelSums
from lhb_engine.design.moments import Moments
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.transfer.file_format import export_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.fits.retention_twins import (  # noqa: F401
    ANYTIME,
    DIM,
    HORIZON,
    LoseSums,
    Twins,
    refused,
    small_limits,
)
from tests.service.service_harness import ServiceHarness

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "levels": {"options": {"levels": True, "zero_start": False}},
    "by time": {"reward_mode": "sum", "default_reward": 0.25},
    "repetition": {"dim": DIM + 1, "features": ["a", "b", "c"], "repetition": 2},
}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_corrected_session_that_keeps_all_rows_moves(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    """Its file has no sums: they are added up as they were, corrections out and in."""
    twins = Twins(harness, database_url, {})
    twins.play(120, ("a",))
    with harness.store.reader() as reader:
        rows = [*reader.measurement_log((*twins.keys[0], "a"))][50:80:10]
    for row in rows:
        rounds = {"first_round": row.first_round, "last_round": row.last_round}
        for harness.key in twins.keys:
            harness.reward(1.0, "a", correct=True, reward_id=f"c{row.position}", **rounds)
    twins.play(30, ("a",))
    with harness.store.reader() as reader:
        file = b"".join(export_session(reader, twins.session(1)))
    twins.keys[1] = harness.import_file(tmp_path, file)[0].key
    before = len(harness.estimates)
    twins.play(40, ("a",))
    assert len(harness.estimates) > before


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_fresh_value_is_corrected_alike_where_rows_are_dropped(
    harness: ServiceHarness, database_url: str
) -> None:
    """It goes into the sums and out again, as it does where all rows are there."""
    twins = Twins(harness, database_url, {"keep_rounds": 64})
    twins.play(150, ("a", "b"))
    assert twins.drop(1)
    for n in range(1, 6):
        twins.play(5, ("a",))
        with harness.store.reader() as reader:
            last = max(reader.measurement_log((*twins.keys[1], "a")), key=lambda row: row.position)
        rounds = {"first_round": last.first_round, "last_round": last.last_round}
        for harness.key in twins.keys:
            harness.reward(float(n), "a", correct=True, reward_id=f"c{n}", **rounds)
        twins.play(12, ("a", "b"))


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_session_moves_with_its_sums(
    harness: ServiceHarness, database_url: str, tmp_path: Path, settings: dict[str, Any]
) -> None:
    """Export, import, and go on as the session that keeps everything."""
    day = 1 / 24
    twins = Twins(harness, database_url, {"keep_days": day}, **settings)
    names = ("", "a")
    twins.play(30, ("gone", *names))
    twins.play(270, names)
    assert not twins.drop(1)  # all are of this hour
    harness.now += 86_400 * day
    twins.play(160, names)
    assert twins.drop(1)
    session = twins.session(1)
    assert 200 < session.dropped_to <= 300
    with harness.store.reader() as reader:
        file = b"".join(export_session(reader, session))
    moved, is_new = harness.import_file(tmp_path, file)
    assert is_new
    for name in ("dropped_to", "swept_to", "n_dropped_rounds", "n_dropped_measurements"):
        assert getattr(moved, name) == getattr(session, name), name
    assert (moved.n_rounds, moved.n_measurements) == (session.n_rounds, session.n_measurements)
    assert (moved.n_complete, moved.n_trajectories) == (session.n_complete, 3)
    with harness.store.reader() as reader:
        ours, theirs = reader.kept_sums(session.key), reader.kept_sums(moved.key)
        assert ours is not None
        assert theirs is not None
        assert ours[2:] == theirs[2:]
        assert list(reader.trajectories(session.key)) == [
            type(row)(*session.key, *[getattr(row, f) for f in row.__slots__[2:]])
            for row in reader.trajectories(moved.key)
        ]
        again = b"".join(export_session(reader, moved))
    assert _without_ids(again) == _without_ids(file)
    twins.keys.append(moved.key)
    twins.play(80, names)
    for old, new in (
        (b'"n_dropped_rounds":', b'"n_dropped_rounds":1'),
        (b'"settled":"', b'"settled":"A'),
        (b'"key":"gone"', b'"key":"."'),  # no key that a request can have
        (b'"measured_through":', b'"measured_through":-'),
    ):
        changed = _resealed(file.replace(old, new, 1))
        refused("bad_import", harness.import_file, tmp_path, changed)
    lines = [line for line in file.splitlines(True) if b'"record":"sums"' not in line]
    refused("bad_import", harness.import_file, tmp_path, _resealed(b"".join(lines)))


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_somebody_is_forgotten_as_far_as_rows_are_left(
    harness: ServiceHarness, database_url: str, settings: dict[str, Any]
) -> None:
    """Fits equal those from all rows but these, within rounding; dropped rows stay in the sums."""
    twins = Twins(harness, database_url, {"keep_rounds": 100}, **settings)
    has_levels = settings == SETTINGS["levels"]
    twins.play(200, ("", "b"))
    twins.play(120, ("", "ann", "b"))
    assert twins.drop(1)
    with harness.store.reader() as reader:
        assert reader.first_left((*twins.keys[1], "ann")) == 1  # all of it is there
    for harness.key in twins.keys:
        last = harness.decide("b", contexts=np.eye(DIM)).round
        harness.reward(0.1, "b", round=last, reward_id="last")
        assert harness.run(ask_fit(harness.key, harness.agents))[1] is not None
    running = run_fit(database_url, *twins.keys[1], twins.session(1).fit_due or 0, 0.0)
    sizes = [twins.n_rows(1)]
    for key in twins.keys:
        harness.run_large(erase_trajectory(key, "ann"))
    sizes.append(twins.n_rows(1))
    assert sizes[0]["decisions"] > sizes[1]["decisions"]
    session = twins.session(1)
    n_left = session.n_rounds - session.n_erased_rounds - session.n_dropped_rounds
    assert n_left == sizes[1]["decisions"]
    assert session.fit_due is not None
    assert running is not None
    assert running.sums is not None  # of the rows that are gone
    finish = FinishFit(session.key, session.fit_due, running, harness.agents, 5, 0.0)
    assert harness.run(finish) is None  # it is made again
    found = [twins.fit_one(i) for i in (0, 1)]
    assert found[0]["n_rows"] == found[1]["n_rows"]
    kept = [twins.kept(i) for i in (0, 1)]
    assert kept[0].n_settled == kept[1].n_settled
    is_by_time = kept[0].seen is None is kept[1].seen
    assert is_by_time == (settings == SETTINGS["by time"])
    for name in ("settled",) if is_by_time else ("settled", "seen"):
        kind = LevelSums if has_levels else Moments
        all_rows, less = (kind.from_bytes(getattr(row, name), (1 + session.dim,)) for row in kept)
        size = float(np.abs(all_rows.sums).max())
        np.testing.assert_allclose(less.sums, all_rows.sums, rtol=0, atol=1e-11 * size)
        for count in ("n_rows", "begun" if has_levels else "n_pairs"):
            assert getattr(less, count) == getattr(all_rows, count)
        if has_levels:
            np.testing.assert_allclose(less.counts, all_rows.counts, rtol=0, atol=1e-9)
    # dropped rounds of somebody cannot be told from the others' any more
    n_rows = found[1]["n_rows"]
    with harness.store.reader() as reader:
        left = reader.first_left((*session.key, "b"))
        gone = sum(
            1 for m in reader.measurement_log((*twins.keys[0], "b")) if m.last_round < (left or 0)
        )
    assert gone > 10
    harness.key = twins.keys[1]
    harness.run_large(erase_trajectory(twins.keys[1], "b"))
    for i in range(3):
        last = harness.decide(contexts=np.eye(DIM)).round
        harness.reward(0.1, round=last, reward_id=f"last-{i}")
    harness.run(ask_fit(harness.key, harness.agents))
    found_then = twins.fit_one(1)
    assert found_then["n_rows"] >= gone
    assert found_then["n_rows"] < n_rows


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_after_a_change_of_the_world(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums begin anew from rows that are there; dropping goes on."""
    keep_sums_from(monkeypatch, 300)
    told = {"adopts": False}  # a trend that is found is told only where no row is dropped
    twins = Twins(harness, database_url, {"keep_rounds": 300}, options=told)
    twins.play(700, ("",))
    assert twins.drop(1)
    twins.play(500, ("",), sign=-1.0)
    twins.drop(1)
    twins.play(400, ("",), sign=-1.0)
    assert twins.kept(1).first_round > 600
    assert twins.drop(1)
    twins.play(150, ("",), sign=-1.0)


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_needs_dropped_rows_fails_for_good(harness: ServiceHarness, database_url: str) -> None:
    twins = Twins(harness, database_url, {"keep_rounds": 100})
    twins.play(300, ("",))
    assert twins.drop(1)
    session = twins.session(1)
    refused("bad_option", harness.run, change_session(session.key, {"options": {"memory": 50}}))
    harness.run(change_session(session.key, {"keep_rounds": None}))  # no more are dropped
    assert not twins.drop(1)
    told = refused(
        "bad_option", harness.run, change_session(session.key, {"options": {"memory": 50}})
    )
    assert "memory" in told.detail
    with harness.store.reader() as reader:
        sums = reader.kept_sums(session.key)
    assert sums is not None
    twins.lose_sums(1)
    harness.run(ask_fit(harness.key, harness.agents))
    answer = run_fit(database_url, *session.key, harness.session.fit_due or 0, 0.0)
    assert answer is not None
    assert answer.is_final
    assert "are dropped" in (answer.reason or "")


def _without_ids(file: bytes) -> list[dict[str, Any]]:
    """The records of a file, less what an import makes anew."""
    records = [json.loads(line) for line in file.splitlines()][:-1]
    for name in ("id", "schedule", "request"):
        records[0]["session"].pop(name, None)
    for record in records:
        if record["record"] == "measurement":
            del record["number"]  # gaps in these are closed
    return [r for r in records if r["record"] != "agent"]


def _resealed(file: bytes) -> bytes:
    """A changed file with an end that fits."""
    from service.transfer.file_format import written

    lines = [json.loads(line) for line in file.splitlines()]
    return b"".join(written(r for r in lines if r["record"] != "end"))
