"""What follows from the records is worked out: a file that says otherwise changes nothing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.base.problems import Problem
from service.commands.erase_trajectory import erase_trajectory
from service.commands.sessions import change_session
from tests.service.commands.slots import begin, taken
from tests.service.service_harness import OK, ServiceHarness
from tests.service.transfer.test_import_forgeries import (
    NAN,
    Forge,
    Records,
    checked,
    deeper,
    exported,
    forged,
    header,
    lived,
    part,
)


@pytest.fixture(scope="module")
def true_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return lived(tmp_path_factory.mktemp("lived"))


# what an import works out itself: what the file says of it changes nothing
IGNORED: list[Forge] = [
    *(header(n_rounds=v) for v in (57, 59, 10**13, 10**30, -1, 1.0)),
    *(header(estimate=v) for v in (1, 99)),
    *(header(model_version=v) for v in (-1, 50)),
    *(header(n_complete=v) for v in (0, 10**9)),
    header(n_estimates=0),
    header(n_trajectories=1),
    deeper("header", "session", "schedule", "open", value=[]),
    deeper("header", "session", "schedule", "open", 0, 0, "due", value=10**30),
    deeper("header", "session", "schedule", "open", 0, 0, "n_lags", value=10**9),
    deeper("header", "session", "schedule", "open", 0, 2, value=9.0),
    deeper("header", "session", "schedule", "current", "retry_at", value=5.0),
    part("trajectory", last_at=0.0),
    part("trajectory", measured_through=0),
    part("trajectory", key="b"),
    part("trajectory", n_decisions=10**13),
    part("trajectory", n_measurements=0),
    *(part("decision", epoch=v) for v in (10**30, 0, 9)),
    part("decision", number=7),
    part("decision", 4, next_fit_round=1),
    part("measurement", number=2),
    part("estimate", parent=1),
    part("estimate", model_version=7),
    part("estimate", number=2),
    part("estimate", epoch=7, due=10**6),
    *(part("agent", state={"version": 1, "theta": v}) for v in ([1, 2, 3], [1.0, 0.0], [NAN], 5)),
    part("agent", state={"version": 9, "theta": None}),
    lambda records: records.pop(),  # the agent
    lambda records: [records.pop(1) for _ in range(2)],  # the trajectories
]


def written(path: Path, content: bytes) -> list[Any]:
    """The records of the session that a file makes."""
    path.mkdir()
    harness = ServiceHarness(path)
    session, is_new = harness.import_file(path, content)
    assert is_new
    harness.key = session.key
    records = [json.loads(line) for line in exported(harness).splitlines()[:-1]]
    harness.store.close()
    del records[0]["session"]["id"]
    return records


@pytest.mark.parametrize("forge", IGNORED)
def test_what_is_worked_out_is_not_read(tmp_path: Path, true_file: bytes, forge: Forge) -> None:
    content = forged(true_file, forge)
    assert content != true_file
    assert written(tmp_path / "forged", content) == written(tmp_path / "true", true_file)


def test_a_kept_file_comes_out_as_it_went_in(tmp_path: Path) -> None:
    content = Path(__file__).with_name("exported.ndjson").read_bytes()
    records = [json.loads(line) for line in content.splitlines()[:-1]]
    del records[0]["session"]["id"]
    assert written(tmp_path / "a", content) == records


def test_complete_windows_without_their_fits_become_due(tmp_path: Path, true_file: bytes) -> None:
    """No server leaves a complete window waiting: its fit is due as soon as a timer looks."""

    def forge(records: Records) -> None:
        records[0]["session"]["schedule"] = {"current": None, "waiting": [], "n_slots": 0}
        records[:] = [r for r in records if r["record"] not in ("estimate", "agent")]
        for record in records:
            if record["record"] == "decision":
                record["model_version"] = 0

    harness = ServiceHarness(tmp_path)
    content = forged(true_file, forge)
    session, _ = harness.import_file(tmp_path, content)
    assert [window.window.due for window in session.schedule.open] == [4, 12, 28, 60]
    assert harness.effects.timed[session.key] <= harness.now
    harness.key, harness.now = session.key, 2000.0
    harness.tick()
    assert harness.session.fit_due == 28
    assert [due.key for due in harness.session.schedule.waiting] == [4, 12]
    harness.store.close()


@pytest.mark.parametrize("n_after", [0, 1])
def test_a_window_is_overdue_when_it_was_though_the_decision_that_said_so_is_erased(
    tmp_path: Path, n_after: int
) -> None:
    harness = ServiceHarness(tmp_path)
    harness.create(reward_wait_seconds=50.0)
    for name in ("a", "a", "a", "a", "b", *(["a"] * n_after)):
        harness.now += 1.0
        harness.decide(name)
    overdue_at = harness.now - n_after + 50.0
    harness.run_large(erase_trajectory(harness.key, "b"))
    before = harness.session.schedule.open
    assert [(one.window.due, one.overdue_at) for one in before] == [(4, overdue_at), (12, None)]
    content = exported(harness)
    session, _ = harness.import_file(tmp_path, content)
    assert session.schedule.open == before
    ahead = deeper("header", "session", "schedule", "open", 1, 2, value=1.0)
    assert checked(forged(content, ahead)).schedule.open[1].overdue_at is None
    for at in ("x", -1.0, NAN):
        told = deeper("header", "session", "schedule", "open", 0, 2, value=at)
        with pytest.raises(Problem):
            checked(forged(content, told))
    for told in (None, 5, [[1, 2]], [[{"due": []}, 1, None]], [[{}, 1]]):
        with pytest.raises(Problem) as refused:
            checked(forged(content, deeper("header", "session", "schedule", "open", value=told)))
        assert str(refused.value.field).startswith("header.session.schedule.open")
    harness.store.close()


def test_a_window_that_earlier_options_opened_is_imported_while_its_fit_is_due(
    tmp_path: Path,
) -> None:
    """It has all rounds, though fits by the options that are in force look at the last 20."""
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm="anytime")
    for _ in range(30):
        harness.decide()
    harness.run(change_session(harness.key, {"options": {"memory": 20}}))
    for _ in range(4):
        harness.decide()
        harness.tick()
    due = harness.session.schedule.waiting
    assert (due[-1].window.first, due[-1].window.due, due[-1].known.revision) == (1, 30, 1)
    session, _ = harness.import_file(tmp_path, exported(harness))
    assert [one.window for one in session.schedule.waiting] == [one.window for one in due]
    harness.store.close()


@pytest.mark.parametrize("mode", [{"reward_mode": "sum"}, {"default_reward": 0.0}], ids=str)
def test_windows_that_stay_open_across_changes_of_options_are_imported(
    tmp_path: Path, mode: dict[str, Any]
) -> None:
    """Those of all options, though none of the windows ahead that a change replaced."""
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm="anytime", reward_wait_seconds=600.0, **mode)
    for n, options in ((28, {"levels": True}), (5, {"memory": 20}), (17, {"memory": None})):
        for _ in range(n):
            harness.decide()
        harness.run(change_session(harness.key, {"options": options}))
    schedule = harness.session.schedule
    windows = [(one.window.first, one.window.due) for one in schedule.open]
    assert (windows[0], windows[-1]) == ((1, 8), (1, 57))
    assert {(1, 30), (15, 34), (31, 50)} <= {*windows}
    assert checked(exported(harness)).schedule == schedule
    harness.store.close()


def test_boundaries_that_were_passed_in_silence_have_no_window(tmp_path: Path) -> None:
    """After slot 18 comes slot 27: a fit is due after slot 20, none after 23 and 26."""
    harness = ServiceHarness(tmp_path)
    begin(harness)
    taken(harness, *(("a", 961.0 + 60 * (slot - 1)) for slot in (*range(1, 19), 27)))
    schedule = harness.session.schedule
    assert schedule.current is not None
    dues = [due.key for due in (*schedule.waiting, schedule.current)]
    assert (max(dues), [one.window.due for one in schedule.open]) == (20, [30])
    content = exported(harness)
    assert checked(content).schedule == schedule
    fewer = deeper("header", "session", "schedule", "n_slots", value=3)
    assert checked(forged(content, fewer)).schedule == schedule  # the records say it
    harness.store.close()


def learned(path: Path) -> bytes:
    """An agent that has learned more than its estimate says."""
    path.mkdir()
    harness = ServiceHarness(path)
    harness.create(algorithm="ucb_mp")
    harness.rounds(4)
    harness.finish(4, replace(OK, active_lags=(1,)))
    harness.rounds(3)
    content = exported(harness)
    harness.store.close()
    return content


LEARNED: list[tuple[str, Forge]] = [
    ("agent.state.ellipsoid", deeper("agent", "state", "ellipsoid", "moment", value=[1.0])),
    ("agent.state.ellipsoid", deeper("agent", "state", "ellipsoid", "inverse", value=[[1.0]])),
    ("agent.state.ellipsoid", deeper("agent", "state", "ellipsoid", "inverse", 0, value=[1.0])),
    ("agent.state.ellipsoid", deeper("agent", "state", "ellipsoid", "moment", 0, value=NAN)),
    ("agent.state.lag", deeper("agent", "state", "lag", value=4)),
    ("agent.state", deeper("agent", "state", "version", value=9)),
    ("agent.state", part("agent", state={"version": 1, "theta": None, "lag": None})),
    ("agent.record", lambda records: records.append(records[-1])),
    ("agent.state", lambda records: records[-1]["state"].pop("second_phase")),
]


@pytest.mark.parametrize(("field", "forge"), LEARNED)
def test_what_only_the_agent_knows_is_checked(tmp_path: Path, field: str, forge: Forge) -> None:
    content = learned(tmp_path / "true")
    with pytest.raises(Problem) as caught:
        checked(forged(content, forge))
    named = caught.value.field or ""
    assert named == field or named.startswith(f"{field}."), caught.value.detail


def test_the_direction_of_an_agent_that_learns_is_its_estimates(tmp_path: Path) -> None:
    content = learned(tmp_path / "true")
    other = forged(content, deeper("agent", "state", "theta", value=[1.0, 0.0]))
    assert written(tmp_path / "forged", other) == written(tmp_path / "b", content)
