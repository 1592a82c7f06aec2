"""A session with a clock that drops decisions finds what its twin finds that keeps them all."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents.fit_cost import FitCost
from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.commands.drop_rounds import drop_rounds, give_up_rounds, plan
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from service.rounds.stored_rows import n_given
from service.session.records import DecisionRow
from service.storage.transactions import Slices, Store
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.examples import on_one_database, repeats
from tests.service.fits.retention_twins import refused
from tests.service.fits.slot_world import DIM, LATE, SECONDS, START, World, make_small
from tests.service.service_harness import ServiceHarness
from tests.service.test_lift import sum_up
from tests.service.transfer.test_import_forgeries import checked, exported, resealed

KEPT = {"keep_days": 1 / 24}  # 60 slots
SHARED = {"profiles": "shared"}


@pytest.fixture
def harness(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    make_small(monkeypatch)
    store.slices = Slices(rows=11, page=7, pages=3)
    return ServiceHarness(tmp_path, store)


def drop(harness: ServiceHarness) -> bool:
    """What the sweeper does."""
    session = harness.session
    with harness.store.reader() as reader:
        found = plan(reader, session, harness.now, young=0.0)
    if found is None or not harness.run(give_up_rounds(session.key, found)):
        return False
    harness.run_large(drop_rounds(session.key, found.dropped_to))
    return True


def found(harness: ServiceHarness) -> list[Any]:
    """The estimates, but for the time that they took."""
    return [json.loads(one.estimate or "{}") | {"seconds": 0} for one in harness.estimates]


def decisions(harness: ServiceHarness) -> list[DecisionRow]:
    with harness.store.reader() as reader:
        known = reader.trajectories(harness.key)
        return [row for one in known for row in reader.decision_log((*harness.key, one.key))]


def n_dropped_slots(harness: ServiceHarness) -> int:
    with harness.store.reader() as reader:
        return reader.summed_for_good(harness.session)


def n_replayed(harness: ServiceHarness) -> int:
    """How many estimates are computed again; all others lack dropped rows, or erased ones."""
    with harness.store.reader() as reader:
        replay = replay_session(reader, harness.session)
    assert replay.differences == []
    return replay.estimates - replay.estimates_dropped - replay.estimates_erased


# what databases do alike is in tests/contracts/test_store_dropping.py
BOTH = [("sqlite", "trajectory"), ("postgres", "all")]


def lived(harness: ServiceHarness, url: str, totals: str, path: Path, kept: dict[str, Any]) -> Any:
    """What a session finds that goes through everything that may come."""
    harness.now, told = 1000.0, []
    options = {"most_stale": 0.15}
    world = World(harness, url, clock={"totals": totals}, options=options, **kept)
    n_drops = 0
    for _ in range(4):
        world.play(30)
        n_drops += bool(kept) and drop(harness)
    assert n_drops >= 2 * bool(kept)
    session = harness.session
    there = [row.position for row in decisions(harness)]
    assert sorted(there) == [*range(session.dropped_to + 1, session.n_rounds + 1)]
    assert session.n_dropped_measurements == 0
    world.total("", 1, 2, correct=True, reward_id="refund")  # of slots that are dropped
    last = max((row for row in decisions(harness) if row.trajectory == "a"), key=lambda r: r.round)
    harness.run(void_decision(harness.key, "a", last.event_id, harness.agents))
    world.play(20)
    assert n_replayed(harness) >= 3
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, harness.session))
    told.append(found(harness))
    made, _ = harness.import_file(path, content)
    assert made.id != harness.key[1]
    harness.key = made.key
    assert bool(world.kept()) == bool(kept)
    world.play(20)
    for name in ("b", *([""] if totals == "trajectory" else [])):
        harness.run_large(erase_trajectory(harness.key, name))
        world.forget(name)
        world.ask()
        world.play(20)
    drop(harness)
    world.play(10)
    assert n_replayed(harness) >= 2
    return [*told, found(harness)]


@pytest.mark.slow
@pytest.mark.parametrize(("database_url", "totals"), BOTH, indirect=["database_url"])
def test_a_session_that_drops_decisions_finds_the_same(
    harness: ServiceHarness, database_url: str, totals: str, tmp_path: Path
) -> None:
    whole, less = (lived(harness, database_url, totals, tmp_path, kept) for kept in ({}, KEPT))
    assert len(whole[1]) > len(whole[0]) > 10
    assert whole == less
    assert harness.session.n_dropped_rounds > 100


def copied(harness: ServiceHarness, world: World, path: Path, **asked: Any) -> dict[str, Any]:
    """The fit of a copy, which the harness then means."""
    source = harness.session
    copy, agent = copied_session(source, asked, False, FitCost(1e9, 1e9), harness.now)
    with harness.store.reader() as reader:
        content = b"".join(copy_session(reader, source, copy, agent))
    made, _ = harness.import_file(path, content)
    harness.key, compared = made.key, (made.trial.since, made.n_rounds)
    harness.tick()
    world.fit()
    world.play(30)
    assert n_replayed(harness) >= 1
    return {"found": found(harness), "compared": compared}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("database_url", "totals"), [BOTH[0], *repeats(BOTH[1])], indirect=["database_url"]
)
def test_a_copy_learns_of_dropped_slots(
    harness: ServiceHarness, database_url: str, totals: str, tmp_path: Path
) -> None:
    """With other settings it finds what a copy finds of a session that keeps all decisions."""
    settings = {"holdout": {"share": 0.3, "policy": "uniform"}, "features": ["x", "y", "z"]}
    asked = {"horizon": 4, "options": {"trend": True}}
    made = []
    for kept in ({}, KEPT):
        harness.now = 1000.0
        world = World(harness, database_url, clock={"totals": totals}, **settings, **kept)
        world.is_compared = bool(kept)  # whoever keeps all is compared with it, below
        world.play(110)
        sum_up(harness)
        assert drop(harness) == bool(kept)
        if kept:
            columns = {"repetition": 3}
            agree = (harness.session, columns, False, FitCost(1e9, 1e9), 0.0)
            refused("round_dropped", copied_session, *agree)
        made.append(copied(harness, world, tmp_path, **asked))
    whole, less = made
    assert less["found"] == whole["found"]
    assert len(whole["found"]) > 2
    n = whole["compared"][1]
    assert (whole["compared"], less["compared"]) == ((0, n), (n, n))


def compared(harness: ServiceHarness, url: str, totals: str, path: Path, kept: Any) -> list[Any]:
    """The sums of a comparison before and after an import, and without a person."""
    harness.now, told = 1000.0, []
    holdout = {"share": 0.5, "policy": "uniform", "planned_rounds": 1000, "guard": False}
    options = {"most_stale": 0.3}
    world = World(harness, url, clock={"totals": totals}, holdout=holdout, options=options, **kept)
    n_drops = 0
    for _ in range(4):
        world.play(30)
        sum_up(harness)
        n_drops += bool(kept) and drop(harness)
    assert n_drops >= bool(kept)
    content = exported(harness)
    assert (b'"record":"unit"' in content) == bool(kept)
    made, _ = harness.import_file(path, content)
    harness.key = made.key
    world.play(10)
    for name in ("", "b"):
        if name:
            harness.run_large(erase_trajectory(harness.key, name))
        sum_up(harness)
        with harness.store.reader() as reader:
            row = reader.lift_sums(harness.key)
        assert row is not None
        told.append((row.decided, row.measured, row.sums))
    return told


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("totals", ["all", "trajectory"])
def test_lift_is_that_of_a_session_that_keeps_all(
    harness: ServiceHarness,
    database_url: str,
    totals: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(World, "fit", lambda world: harness.make_fits(database_url))
    whole, less = (compared(harness, database_url, totals, tmp_path, kept) for kept in ({}, KEPT))
    assert whole == less


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_is_in_dropped_slots_stays(harness: ServiceHarness, database_url: str) -> None:
    """A void is refused, also of a late decision that is there."""
    world = World(harness, database_url, options={"most_stale": 0.15}, **KEPT)
    world.play(90)
    while not drop(harness) or not (late := _late(harness)):
        world.play(1)
    gone = refused(
        "round_dropped", harness.run, void_decision(harness.key, "a", "~1", harness.agents)
    )
    assert gone.field == "event_id"
    void = void_decision(harness.key, late[0].trajectory, late[0].event_id, harness.agents)
    n_measurements = harness.session.n_measurements
    assert "slot" in refused("round_dropped", harness.run, void).detail
    assert harness.session.n_measurements == n_measurements
    world.play(20)
    harness.run(change_session(harness.key, {"options": {"own": False, "levels": True}}))
    world.play(20)
    assert found(harness)[-1]["status"] == "ok"


@on_one_database
@pytest.mark.parametrize("begins", ["with", *repeats("without")])
def test_an_erased_person_leaves_totals_of_all(
    harness: ServiceHarness, database_url: str, begins: str
) -> None:
    """Dropped decisions, and late ones; also where a fit was under way as rows began to go."""
    kept = KEPT if begins == "with" else {}
    world = World(harness, database_url, options={"most_stale": 0.15, **SHARED}, **kept)
    world.play(90)
    if begins == "without":
        world.play(1)
        _, due = harness.run(ask_fit(harness.key, harness.agents))
        assert due is not None
        answer = world.answer(due.key)
        harness.run(change_session(harness.key, KEPT))
        assert world.kept() == []
        world.finish(due.key, answer)
        assert world.kept() == []  # nothing tells whose the sums are
        assert not drop(harness)
    while not drop(harness) or "b" not in {row.trajectory for row in _late(harness)}:
        world.play(1)
    n, last = harness.session.n_rounds, n_dropped_slots(harness)
    version = harness.session.model_version
    harness.run_large(erase_trajectory(harness.key, "b"))
    world.forget("b")
    session = harness.session
    n_left = sum(user != "b" for user, _, _ in world.chosen)
    assert (session.n_erased_rounds, session.n_rounds) == (n - n_left, n)
    assert {row.trajectory for row in world.kept()} == {"", "a"}
    sums: dict[int, Any] = {}
    for user, slot, context in world.chosen:
        if user != "b" and slot <= last:
            sums[slot] = sums.get(slot, 0.0) + context
    rows = b"".join(row.sums for row in world.kept() if not row.trajectory)
    table = np.frombuffer(rows).reshape(-1, 1 + n_given(session))[:, : 1 + DIM]
    assert np.array_equal(table, [[slot, *sums[slot]] for slot in sorted(sums)])
    world.play(20)
    assert session.model_version == version
    assert harness.session.model_version > version
    assert n_replayed(harness) > 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_files_are_refused_whose_slots_do_not_fit(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a file says how sums came about; but they are those of slots that are dropped."""
    options = {"most_stale": 0.3}
    world = World(harness, database_url, clock={"totals": "trajectory"}, options=options, **KEPT)
    monkeypatch.setattr(World, "fit", lambda world: harness.make_fits(database_url))
    world.play(110)
    assert drop(harness)
    records = [json.loads(line) for line in exported(harness).splitlines()[:-1]]
    places = [i for i, one in enumerate(records) if one["record"] == "slots"]
    first, end = places[0], max(i for i in places if not records[i]["trajectory"])
    checked(resealed(records))
    forged: list[tuple[str, int, dict[str, Any]]] = [
        ("record", first, {"last_slot": records[end]["last_slot"] + 1}),
        ("the end", end, {"decided": records[end]["decided"] - 1}),
        ("beyond", end, {"decided": records[end]["decided"] + 1}),
        ("nobody", places[-1], {"trajectory": "nobody"}),
        ("other slots", places[-1], {"decided": records[places[-1]]["decided"] - 1}),
        ("other sums", places[-1], {"sums": records[first]["sums"]}),
        ("cut", first, {"sums": records[first]["sums"][:-12]}),
        ("no numbers", first, {"sums": b64encode(np.full(4, np.nan).tobytes()).decode()}),
    ]
    for what, place, changes in forged:
        one = [*records]
        one[place] = {**one[place], **changes}
        with pytest.raises(Problem) as caught:
            checked(resealed(one))
        assert caught.value.code == "bad_import", what
    for less in (places, [i for i in places if i >= end and not records[i]["trajectory"]]):
        with pytest.raises(Problem, match="there are no s"):
            checked(resealed([record for i, record in enumerate(records) if i not in less]))


def _late(harness: ServiceHarness) -> list[DecisionRow]:
    """Decisions that are there of slots whose sums stay."""
    clock = harness.session.clock
    assert clock is not None
    last = n_dropped_slots(harness)
    return [row for row in decisions(harness) if clock.slots.at(row.at) <= last]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_plan_is_late_where_the_sums_have_gone(
    harness: ServiceHarness, database_url: str
) -> None:
    """By a void, or an erasure, before it is carried out; the last days stay, slot by slot."""
    world = World(harness, database_url, options={"most_stale": 0.15}, keep_rounds=60)
    world.play(80)
    with harness.store.reader() as reader:
        held = plan(reader, harness.session, harness.now, young=0.0)
    assert held is not None
    harness.run(void_decision(harness.key, "a", "~3", harness.agents))
    assert not harness.run(give_up_rounds(harness.key, held))
    world.play(4)
    world.ask()
    days = 40 * SECONDS / 86_400
    harness.run(change_session(harness.key, {"keep_rounds": None, "keep_days": days}))
    assert drop(harness)
    assert START + SECONDS * n_dropped_slots(harness) <= harness.now - 40 * SECONDS
    world.play(LATE)
    assert n_replayed(harness) > 0
    harness.decide("a", contexts=np.ones((2, DIM)), at=harness.now)
