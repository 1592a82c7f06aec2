"""What every store promises of the sums of a session's past, and of the rows after them."""

from collections.abc import Callable
from typing import Any

import pytest

from lhb_engine.history import FitWindow
from service.rounds.history import PastByDecision
from service.session.fit_schedule import Watermark
from service.session.records import KeptSumsRow, SlotSumsRow
from service.storage.reader import Range, Reader
from service.storage.transactions import Store
from tests.contracts.sample_rows import S1, commit, decision, measurement, session, trajectory
from tests.lhb_engine.sized_agents import have_sizes


def rounds_in(reader: Reader, ranges: list[Range], until: int) -> list[tuple[Any, ...]]:
    """Trajectory, round and position of each decision."""
    found = reader.rounds_in(S1, ranges, until)
    return [row for columns in found for row in zip(*columns[:3], strict=True)]


@pytest.mark.parametrize("lacks", [None, 3, 4])
def test_one_range_of_rounds_is_read_with_contexts(store: Store, lacks: int | None) -> None:
    """In order of rounds, whatever the order of writing; those without an action are empty."""
    rows = [decision(n, "a", position=2 * n) for n in (4, 2, 5, 3, 1)]
    rows = [row._replace(context=b"") if row.round == lacks else row for row in rows]
    commit(store, session(), trajectory("a"), *rows)
    with store.reader() as reader:
        [columns] = reader.rounds_in(S1, [("a", 2, 9)], 9)
        assert [[*column] for column in columns[:3]] == [["a"] * 3, [2, 3, 4], [4, 6, 8]]
        kept = {row.round: row.context for row in rows}
        assert [*columns[3]] == [kept[2], kept[3], kept[4]]
        assert list(reader.rounds_in(S1, [("b", 1, 9)], 9)) == []


def test_ranges_of_rounds_are_read_at_once(store: Store) -> None:
    """Of several trajectories, up to a position, whatever is between the ranges."""
    turns = [*("", "a", "ü") * 6]
    rows = [decision(1 + i // 3, name, position=1 + i) for i, name in enumerate(turns)]
    values = [measurement(1 + i // 3, None, name, position=18 - i) for i, name in enumerate(turns)]
    commit(store, session(), *(trajectory(name) for name in ("", "a", "ü")), *rows, *values)
    ranges = [("a", 1, 2), ("a", 5, 9), ("ü", 4, 4), ("none", 1, 9)]
    with store.reader() as reader:
        expected = [("a", 1, 2), ("a", 2, 5), ("a", 5, 14), ("a", 6, 17), ("ü", 4, 12)]
        assert rounds_in(reader, ranges, 17) == expected
        assert rounds_in(reader, ranges[:2], 17) == expected[:4]  # by a statement each
        assert rounds_in(reader, ranges[2:], 17) == expected[4:]
        found = [(*row[:2], row[4]) for row in reader.measurements_in(S1, ranges, 14)]
        assert found == [("a", 2, 14), ("a", 5, 5), ("a", 6, 2), ("ü", 4, 7)]
        assert list(reader.rounds_in(S1, [], 17)) == []
        found = [(*row[:2], row[4]) for row in reader.measurements_after(S1, 13, 16)]
        assert found == [("", 2, 15), ("a", 2, 14), ("ü", 1, 16)]
        assert sorted(reader.window_spans(S1, 4, 8)) == [("", 2, 3), ("a", 2, 3), ("ü", 2, 2)]
        assert [reader.count_rounds(S1, *ends) for ends in ((4, 8), (1, 99), (19, 99))] == [
            5,
            18,
            0,
        ]


def test_a_history_of_what_came_after_some_sums_is_in_stretches(store: Store) -> None:
    """Late rewards of old rounds, their pairs, and the latest rounds with twice the lags."""
    rows = [decision(i) for i in range(1, 101)]
    late = {30: 101, 60: 102}
    values = [measurement(i, position=late.get(i, i)) for i in range(1, 101) if i != 10]
    commit(store, session(), trajectory(n_rounds=100), *rows, *values)
    window = FitWindow(1, 1, 100, 4, 100)
    known = Watermark(101, 100, 0.0)
    with pytest.MonkeyPatch.context() as patch, store.reader() as reader:
        have_sizes(patch, latest=10)
        found = PastByDecision(reader, session(), window, known).recent(99)
    old, new = found.trajectories.values()
    assert (old.first_round, old.last_round) == (26, 31)
    assert old.measurements.first.tolist() == [26, 27, 28, 29, 30, 31]
    assert old.measurements.position is not None
    assert old.measurements.position.tolist() == [26, 27, 28, 29, 101, 31]
    assert (new.first_round, new.last_round) == (83, 100)
    assert new.numbering.tolist() == list(range(83, 101))


def test_summed_slots_are_kept_until_some_slot(reopen: Callable[[], Store]) -> None:
    store, names = reopen(), ("", "x", "ü")
    rows = [
        SlotSumsRow("t", "s1", name, 10 * i, 9 + i, bytes([i])) for name in names for i in range(3)
    ]
    commit(store, session(), slot_sums=rows)
    commit(store, slot_sums=[again := rows[1]._replace(sums=bytes(100_000))])
    ranges = [("", 5, 20), ("ü", 0, 9), ("ü", 11, 21), ("y", 0, 99)]
    with reopen().reader() as reader:
        assert sorted(reader.slot_sums_in(S1, ranges, 99)) == [again, rows[2], rows[6], rows[8]]
        assert sorted(reader.slot_sums_in(S1, ranges, 19)) == [again, rows[6]]
        assert [*reader.slot_sums_in(("t", "s2"), ranges, 99)] == []
        found = [reader.last_slot_sums(S1, slot) for slot in (-1, 0, 19, 99)]
        assert found == [None, rows[0], again, rows[2]]
        assert [reader.last_slot_sums(S1, 99, n) for n in (8, 10)] == [None, again]
        before = dict(reader.stored_by_tenant())["t"]
    commit(store := reopen(), dropped_slots=[(S1, 1)])
    whole = [(name, 0, 99) for name in names]
    with store.reader() as reader:
        assert sorted(reader.slot_sums_in(S1, whole, 99)) == [rows[0], rows[3], rows[6]]
        assert before - dict(reader.stored_by_tenant())["t"] == 100_005
    commit(store := reopen(), erased_slots=[(*S1, "x")])
    with store.reader() as reader:
        assert sorted(reader.slot_sums_in(S1, whole, 99)) == [rows[0], rows[6]]


def test_decisions_are_read_by_position(store: Store) -> None:
    """Of all trajectories, in key order; the default one has no index by position."""
    turns = ["a", "", "b", "", "a", "", ""]
    numbers = [1, 1, 1, 2, 2, 3, 4]
    rows = [
        decision(number, name, position=1 + i)
        for i, (name, number) in enumerate(zip(turns, numbers, strict=True))
    ]
    commit(store, session(), *(trajectory(name) for name in ("", "a", "b")), *rows)
    with store.reader() as reader:
        after = [reader.unnamed_after(S1, position, 3) for position in (0, 1, 2, 4, 6)]
        assert after == [0, 0, 1, 2, 3]
        assert reader.unnamed_after(S1, 7, 3) >= 4
        found = [row[:4] for row in reader.timed_decisions(S1, 2, 6, 1)]
        assert found == [
            ("", 2, 4, 1002.0),
            ("", 3, 6, 1003.0),
            ("a", 2, 5, 1002.0),
            ("b", 1, 3, 1001.0),
        ]
        assert len(list(reader.timed_decisions(S1, 0, 7, 0))) == 7


def test_sums_are_replaced_and_go_with_their_session(reopen: Callable[[], Store]) -> None:
    store = reopen()
    row = KeptSumsRow("t", "s1", 3, 1, 9000, 8192, b"\x00\x01", b"\xff", 9001)
    with store.reader() as reader:
        assert reader.kept_sums(S1) is None
    commit(store, session(), row)
    commit(store, newer := row._replace(n_settled=12288, settled=b"\x02", seen=None, anew=7))
    with reopen().reader() as reader:
        assert reader.kept_sums(S1) == newer
        assert reader.kept_sums(("t", "s2")) is None
        before = dict(reader.stored_by_tenant())["t"]
    large = newer._replace(settled=bytes(50_001), seen=bytes(50_000))
    commit(reopen(), large)
    with reopen().reader() as reader:  # what a tenant has stored counts them
        assert dict(reader.stored_by_tenant())["t"] - before == 100_000
    store = reopen()
    commit(store, deleted=[S1])
    with store.reader() as reader:
        assert reader.kept_sums(S1) is None
