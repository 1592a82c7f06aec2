"""Hidden rows on both databases: their notes, and erasing them a few at a time."""

from typing import Any

import pytest

from service.session.records import HiddenRows, LiftUnitRow, SlotSumsRow, VoidRow
from service.storage import transactions
from service.storage.ports import Changes, EraseCursor
from service.storage.transactions import Slices, Store
from tests.contracts.sample_rows import (
    S1,
    T1,
    commit,
    decision,
    estimate,
    measurement,
    session,
    trajectory,
)

GONE = HiddenRows(*S1, None, 0, None, 5.0)


def n_rows(store: Store) -> dict[str, int]:
    """How many rows each table has."""
    with store.reader() as reader:
        connection: Any = reader.connection  # type: ignore[attr-defined]
        counts = {}
        for table in (*transactions.TABLES, "sessions", "agent_states", "hidden_rows"):
            [(counts[table],)] = connection.execute(f"select count(*) from {table}").fetchall()
        return counts


def erase(store: Store, hidden: HiddenRows) -> list[int]:
    """Erase all; how many rows each call took, each in a transaction of its own."""
    place: EraseCursor | None = None
    taken = []
    while True:
        before = sum(n_rows(store).values())
        transaction = store.begin()
        place = transaction.erase(hidden, place)
        transaction.run(transaction.commit(Changes()))
        taken.append(before - sum(n_rows(store).values()))
        if place is None:
            return taken


def test_a_deleted_session_is_gone_at_once_and_its_rows_are_noted(store: Store) -> None:
    commit(store, session(name="n"), trajectory(), decision(1), states={S1: "{}"})
    commit(store, deleted=[S1], hidden=[GONE])
    with store.reader() as reader:
        assert reader.session(S1) is None
        assert reader.agent_state(S1) is None
        assert reader.session_named("t", "n") is None
        assert reader.hidden() == [GONE]
    commit(store, session("s2", name="n"))


@pytest.mark.parametrize("most", [1, 2, 3, 256])
def test_erasing_takes_all_of_a_session_and_nothing_else(store: Store, most: int) -> None:
    store.slices = Slices(rows=most)
    measured = measurement(1), measurement(1, 2, "b", position=2)
    rows = (decision(1), decision(2), decision(1, "b"), *measured)
    rows += (VoidRow(*S1, "b", 1, 7, 3.0),)
    commit(store, session(), trajectory(), trajectory("b"), *rows, estimate(1), estimate(2))
    other = session("s2"), trajectory(id="s2"), decision(1, id="s2")
    more = estimate(1, session_id="s2"), VoidRow("t", "s2", "", 1, 7, 3.0)
    commit(store, *other, measurement(1, session_id="s2"), *more)
    unit = LiftUnitRow(*S1, 0, "b", 0, 1.0, "1p0", "0p0")
    units = [unit, unit._replace(trajectory="", block=3), unit._replace(session_id="s2")]
    slots = [SlotSumsRow("t", id, "", 0, 9, b"") for id in ("s1", "s2")]
    commit(store, lift_units=units, slot_sums=slots)
    commit(store, deleted=[S1], hidden=[GONE])
    taken = erase(store, GONE)
    assert max(taken) == min(most, 13)
    assert sum(taken) == 13
    expected = dict.fromkeys(transactions.TABLES, 1) | {"sessions": 1, "agent_states": 0}
    assert n_rows(store) == {**expected, "hidden_rows": 1}
    commit(store, swept=[S1])
    with store.reader() as reader:
        assert reader.hidden() == []
        assert reader.session(("t", "s2")) == other[0]


@pytest.mark.parametrize("most", [2, 256])
def test_an_erased_trajectory_leaves_no_row(store: Store, most: int) -> None:
    """Its voids and its part of a comparison go too; those of the others stay."""
    store.slices = Slices(rows=most)
    for name in ("a", "b", ""):
        commit(store, *([session()] if name == "a" else []), trajectory(name), decision(1, name))
    commit(store, estimate(1), voids=[VoidRow(*S1, name, 1, i, 1.0) for i, name in enumerate("ab")])
    units = [(since, name) for since in (0, 7, 9) for name in ("a", "b")]
    commit(store, lift_units=[LiftUnitRow(*S1, *unit, 0, 1.0, "1p-1", "0p0") for unit in units])
    note = HiddenRows(*S1, "b", 0, None, 0.0)
    commit(store, hidden=[note])
    with store.reader() as reader:
        assert [row.key for row in reader.trajectories(S1)] == ["", "a"]
        assert reader.trajectory((*S1, "b")) is None
        assert [void.trajectory for void in reader.voids(S1, -1, 9)] == ["a"]
    erase(store, note)
    left = n_rows(store)
    assert (left["decisions"], left["trajectories"], left["estimates"]) == (2, 2, 1)
    assert (left["voids"], left["lift_units"]) == (1, 3)
    with store.reader() as reader:
        assert len(reader.lift_units(S1, 7, [("a", 0), ("b", 0)])) == 1


@pytest.mark.parametrize("most", [2, 256])
def test_rounds_after_one_of_a_trajectory_are_erased_alone(store: Store, most: int) -> None:
    store.slices = Slices(rows=most)
    names = ("", "b", "c")
    commit(store, session(), *(trajectory(name) for name in names), estimate(1))
    commit(store, *(decision(i, name) for name in names for i in (1, 2, 3, 4, 5)))
    measured = [(name, i) for name in names for i in (2, 3, 4)]
    commit(store, *(measurement(i, i, m, position=n) for n, (m, i) in enumerate(measured)))
    assert sum(erase(store, HiddenRows(*S1, "b", 2, "w", 0.0))) == 5
    with store.reader() as reader:
        assert [d.round for d in reader.decisions((*S1, "b"), 0, 9)] == [1, 2]
        assert [m.first_round for m in reader.measurements((*S1, "b"), 1, 9)] == [2]
        for name in ("", "c"):
            assert len(reader.decisions((*S1, name), 0, 9)) == 5
            assert len(reader.measurements((*S1, name), 1, 9)) == 3
        assert len(list(reader.trajectories(S1))) == 3
        assert len(reader.estimates(S1, 0, 9)) == 1


def test_large_rows_are_erased_by_their_bytes(store: Store) -> None:
    store.slices = Slices(n_bytes=100)
    wide = [decision(i, scores=bytes(80)) for i in range(1, 6)]  # 96 bytes with the context
    commit(store, session(), *wide)
    assert erase(store, GONE) == [2, 2, 1]
    with store.reader() as reader:
        assert reader.decisions(T1, 0, 9) == []


def test_a_note_is_written_anew_and_told_in_order(store: Store) -> None:
    other = HiddenRows("t", "s2", "b", 7, "w", 3.25)
    commit(store, hidden=[GONE, other])
    with store.reader() as reader:
        assert reader.hidden() == [other, GONE]
    commit(store, hidden=[other._replace(sweep_at=9.0, writer=None)])
    with store.reader() as reader:
        assert reader.hidden() == [GONE, other._replace(sweep_at=9.0, writer=None)]
    transaction = store.begin()
    assert transaction.hidden_rows(S1) == GONE
    assert transaction.hidden_rows(("t", "s3")) is None
    transaction.rollback()
