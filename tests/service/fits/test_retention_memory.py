"""A session whose fits look back on its last rounds drops those that no fit uses any more."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.commands.decisions import void_decision
from service.commands.drop_rounds import give_up_rounds, plan
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from service.rounds.timeline import timeline_of
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.lhb_engine.sized_agents import register
from tests.service.fits.retention_twins import (  # noqa: F401
    DIM,
    HORIZON,
    Twins,
    refused,
    small_limits,
)
from tests.service.service_harness import ServiceHarness

pytestmark = pytest.mark.slow
MEMORY, LATEST, NAMES = 90, 64, ("", "a", "b")
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "levels": {"options": {"memory": MEMORY, "levels": True}},
    "sum": {"reward_mode": "sum"},
    "default": {"default_reward": 0.25},
    "own": {"options": {"own": True}},
    "large": {"options": {}},
}


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_fits_are_those_of_a_session_that_keeps_all(
    harness: ServiceHarness,
    settings: dict[str, Any],
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also after corrections, void decisions, an erased trajectory and a move."""
    if settings == SETTINGS["large"]:
        register(monkeypatch, "anytime", fits_from_sums=classmethod(lambda *_: False))
    memory = MEMORY if "memory" in settings.get("options", {"memory": MEMORY}) else LATEST
    body = {"options": {"memory": MEMORY}, "reward_wait_seconds": 8.0, **settings}
    twins = Twins(harness, database_url, {"keep_days": 1 / 24}, **body)
    n_drops = 0
    for _ in range(5):
        twins.play(50, NAMES)
        harness.now += 3600.0
        n_drops += twins.drop(1)
    assert n_drops >= 2
    kept, dropped = twins.session(0), twins.session(1)
    assert 250 - memory - 30 <= dropped.dropped_to <= 250 - memory
    assert dropped.dropped_to - dropped.n_dropped_rounds <= timeline_of(dropped).n_before(
        dropped
    ) * len(NAMES)
    assert twins.n_rows(0)["decisions"] - twins.n_rows(1)["decisions"] == dropped.n_dropped_rounds
    assert kept.n_complete == dropped.n_complete
    _change_the_past(twins)
    twins.play(30, NAMES)
    for key in twins.keys:
        harness.run_large(erase_trajectory(key, "b"))
    twins.waiting = [one for one in twins.waiting if one[2] != "b"]
    twins.play(30, ("", "a"))
    session = twins.session(1)
    with harness.store.reader() as reader:
        replay = replay_session(reader, session)
        file = b"".join(export_session(reader, session))
    assert replay.differences == []
    assert 0 < replay.estimates_dropped < replay.estimates - 3
    assert b'"record":"sums"' not in file
    moved, _ = harness.import_file(tmp_path, file)
    twins.keys.append(moved.key)
    twins.play(30, ("", "a"))
    harness.now += 3600.0
    assert twins.drop(1)
    assert twins.drop(2)
    twins.play(20, ("", "a"))


def _change_the_past(twins: Twins) -> None:
    """Correct a value that fits have used, and void a decision of which they know."""
    harness, position = twins.harness, twins.session(1).dropped_to + 20
    with harness.store.reader() as reader:
        keys = [(*twins.keys[1], one.key) for one in reader.trajectories(twins.keys[1])]
        rows = [row for key in keys for row in reader.decisions(key, 0, 999)]
        [late] = [row for row in rows if row.position == position]
        measured = [m for key in keys for m in reader.measurement_log(key)]
    places = {(row.trajectory, row.round) for row in rows if row.position > position}
    value = next(m for m in measured if (m.trajectory, m.first_round) in places)
    when = {"first_round": value.first_round, "last_round": value.last_round}
    for harness.key in twins.keys:
        if harness.session.reward_mode == "single":
            harness.reward(3.0, value.trajectory, correct=True, reward_id="c", **when)
        event = late.client_event_id or f"~{late.number}"
        harness.run(void_decision(harness.key, late.trajectory, event, harness.agents))
        harness.run(ask_fit(harness.key, harness.agents))
    twins.fit()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_memory_that_reaches_further_is_refused(
    harness: ServiceHarness, database_url: str
) -> None:
    """And no plan is carried out that a longer memory, or a fit that waits, stands against."""
    twins = Twins(
        harness, database_url, {"keep_days": 1e-9}, {"keep_days": 1e-9}, options={"memory": MEMORY}
    )
    twins.play(262, NAMES)
    with harness.store.reader() as reader:
        found = plan(reader, twins.session(1), harness.now, young=0.0)
    assert found is not None
    assert found.dropped_to <= 262 - MEMORY
    longer = {"options": {"memory": MEMORY + 60}}
    harness.run(change_session(twins.keys[1], longer))
    assert not harness.run(give_up_rounds(twins.keys[1], found))
    assert twins.drop(2)
    session = twins.session(2)
    for memory in (None, session.n_rounds - session.dropped_to + 1):
        change = change_session(session.key, {"options": {"memory": memory}})
        told = refused("bad_option", harness.run, change)
        assert told.field == "options.memory"
        assert f"up to position {session.dropped_to} are dropped" in told.detail
    change = change_session(session.key, {"options": {"trend": True}})  # learns all anew
    assert refused("bad_option", harness.run, change).field == "options"
    longest = {"options": {"memory": session.n_rounds - session.dropped_to}}
    harness.run(change_session(session.key, longest))
    refused("round_dropped", harness.reward, 1.0, event_id="~1")
    harness.run(ask_fit(session.key, harness.agents))
    assert twins.fit_one(2)["first_round"] == session.dropped_to + 1
    harness.reward(0.5, round=harness.decide(contexts=np.eye(DIM)).round)
