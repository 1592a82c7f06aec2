"""What every store promises of rounds: found by number, id and time, and measured."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.history import FitWindow
from service.session.fit_schedule import Watermark
from service.session.records import DecisionRow, HiddenRows, VoidRow
from service.storage.reader import PAGE_BYTES, n_bytes
from service.storage.transactions import Store
from tests.contracts.sample_rows import (
    S1,
    T1,
    WINDOW,
    begin,
    changes,
    commit,
    decision,
    estimate,
    measurement,
    session,
    trajectory,
)
from tests.service.histories import read_history
from tests.service.service_harness import ServiceHarness


def test_decisions_are_found_by_round_number_event_and_time(store: Store) -> None:
    mine = decision(2, client_event_id="mine", digest=b"\0\xff", arm_id="x", forced=True)
    skipped = decision(3, arm=None, context=b"", scores=b"", propensity=None, next_fit_round=None)
    commit(store, session(), trajectory(), decision(1), mine, skipped, decision(1, "other"))
    transaction = begin(store)
    assert transaction.decision_by_event(T1, "mine") == mine
    assert transaction.decision_by_event(("t", "s1", "other"), "mine") is None
    assert transaction.decision_by_number(T1, 3) == skipped
    assert transaction.decision_by_number(T1, 4) is None
    assert transaction.decision_by_round(T1, 2) == mine
    assert transaction.decision_before(T1, 1002.5) == mine
    assert transaction.decision_before(T1, 1003.0) == skipped
    assert transaction.decision_before(T1, 1000.5) is None
    transaction.rollback()
    with store.reader() as reader:
        assert reader.decisions(T1, 0, 2) == [decision(1), mine]
        assert reader.decisions(T1, 2, 9) == [skipped]
        assert reader.decisions(T1, 0, 9, until=1) == [decision(1)]
        assert reader.decision(T1, "mine") == mine
        assert reader.decision(T1, "~1") == decision(1)
        assert reader.decision(T1, "~2") is None
        assert reader.decision(T1, "~9") is None


def test_a_read_of_large_rows_stops_early_and_goes_on_where_it_stopped(store: Store) -> None:
    large = np.arange(50_000, dtype=float).tobytes()  # 400 kB
    rows = [decision(i, context=large) for i in range(1, 10)]
    commit(
        store,
        session(),
        trajectory(),
        *rows,
        *(estimate(i, estimate="x" * 10**6) for i in (1, 2, 3)),
    )
    with store.reader() as reader:
        found: list[DecisionRow] = []
        while page := reader.decisions(T1, found[-1].round if found else 0, 1000):
            assert sum(map(n_bytes, page[:-1])) > PAGE_BYTES or len(page + found) == 9
            assert sum(map(n_bytes, page[:-2])) <= PAGE_BYTES
            found += page
        assert found == rows
        assert reader.decisions(T1, 0, 2) == rows[:2]
        assert [e.number for e in reader.estimates(S1, 0, 1000)] == [1, 2, 3]
        huge = PAGE_BYTES + 1
    commit(store, decision(10, context=b"\0" * huge), decision(11))
    with store.reader() as reader:
        assert [d.round for d in reader.decisions(T1, 9, 1000)] == [10, 11]  # at least one, and one


def test_an_event_id_and_a_reward_id_are_unique_in_their_trajectory(store: Store) -> None:
    commit(store, session(), decision(1, client_event_id="a"), measurement(1, reward_id="r"))
    other = measurement(1, None, "b", reward_id="r", position=2)
    commit(store, decision(1, "b", client_event_id="a"), other)
    taken = (measurement(3, reward_id="r"), measurement(3, position=2))
    for row in (decision(2, client_event_id="a"), *taken):
        transaction = begin(store)
        with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
            transaction.write(changes(row))
        transaction.rollback()


def test_positions_are_those_of_one_trajectorys_rounds(store: Store) -> None:
    ours = [decision(round, position=2 * round) for round in range(1, 6)]
    others = [decision(round, "b", position=2 * round - 1) for round in range(1, 6)]
    commit(store, session(), *ours, *others)
    transaction = begin(store)
    assert transaction.positions(T1, 2, 4) == [4, 6, 8]
    assert transaction.positions(T1, 4, 9) == [8, 10]
    assert transaction.positions(T1, 6, 9) == []
    transaction.rollback()


def test_measurements_are_found_by_the_rounds_they_share(store: Store) -> None:
    rows = [measurement(2), measurement(4, 6), measurement(9, reward_id="nine")]
    commit(store, session(), *rows)
    transaction = begin(store)
    expected = {(1, 1): None, (1, 2): rows[0], (3, 3): None, (5, 5): rows[1], (6, 8): rows[1]}
    expected |= {(7, 8): None, (1, 10): rows[2], (10, 20): None}
    for (first, last), found in expected.items():
        assert transaction.measurement_over(T1, first, last) == found
    assert transaction.measurement_by_id(T1, "nine") == rows[2]
    assert transaction.measurement_by_id(T1, "ten") is None
    transaction.rollback()
    with store.reader() as reader:
        assert reader.measurements(T1, 2, 8) == rows[:2]
        assert list(reader.measurement_log(T1)) == rows


def test_measured_rounds_are_counted_by_position(store: Store) -> None:
    commit(store, session(), trajectory(n_rounds=9), *(decision(i) for i in range(1, 10)))
    commit(store, measurement(1), measurement(4, 7))
    transaction = begin(store)
    assert transaction.count_measured(S1, 1, 9) == 5
    assert transaction.count_measured(S1, 5, 9) == 3
    assert transaction.count_measured(S1, 8, 9) == 0
    transaction.rollback()
    other = [decision(i, "b", position=9 + i) for i in range(1, 4)]
    commit(store, trajectory("b"), *other, measurement(2, None, "b", position=9))
    transaction = begin(store)
    assert transaction.count_measured(S1, 1, 12) == 6
    assert transaction.count_measured(S1, 7, 11) == 2
    assert transaction.count_measured(S1, 6, 10) == 2
    assert transaction.count_measured(S1, 12, 12) == 0
    transaction.rollback()


def test_rounds_are_closed_by_the_next_decision_of_their_trajectory(store: Store) -> None:
    commit(store, session(), trajectory(), *(decision(i) for i in range(1, 4)))
    commit(store, trajectory("b"), decision(1, "b", position=4, at=1002.0))
    transaction = begin(store)
    assert transaction.window_closed(S1, 1, 4, 4, 1002.0) == {"": 1, "b": 0}
    assert transaction.window_closed(S1, 1, 4, 4, 1003.0) == {"": 2, "b": 0}
    assert transaction.window_closed(S1, 1, 4, 2, 1003.0) == {"": 1}  # the others came later
    assert transaction.window_closed(S1, 1, 1, 4, 1003.0) == {"": 1}
    assert transaction.closed_at(S1, 1, 2) == 1003.0
    assert transaction.closed_at(S1, 1, 3) is None
    assert transaction.closed_at(S1, 1, 1) == 1002.0
    transaction.write(changes(measurement(2), measurement(3)))
    assert transaction.closed_at(S1, 1, 3) == 1002.0
    assert transaction.closed_at(S1, 2, 3) == 0.0
    transaction.rollback()


def test_trajectories_are_counted_apart(reopen: Callable[[], Store]) -> None:
    store = reopen()
    rows = [trajectory(key, n_measurements=i) for i, key in enumerate(("", "a", "ü"))]
    commit(store, session(), *rows)
    with store.reader() as reader:
        assert list(reader.trajectories(S1)) == rows
    rows[1] = replace(rows[1], n_rounds=8, measured_through=7, last_at=5000.5)
    commit(store, rows[1])
    transaction = begin(reopen())
    assert transaction.trajectory(("t", "s1", "a")) == rows[1]
    assert transaction.trajectory(("t", "s1", "b")) is None
    assert list(transaction.trajectories(S1)) == rows
    transaction.rollback()


def test_a_trajectory_counts_up_to_its_last_decision_that_is_shown(
    reopen: Callable[[], Store],
) -> None:
    """Its row may say less; rounds of a log that is being appended, or goes again, do not count."""
    store = reopen()
    rows = [trajectory(), trajectory("b"), trajectory("c", n_rounds=9, n_decisions=9)]
    commit(store, session(), *rows, *(decision(i) for i in range(1, 6)))
    commit(store, *(decision(i, "b", position=5 + i) for i in range(1, 4)), measurement(4))
    store = reopen()
    rows[0] = replace(rows[0], n_decisions=5, n_rounds=5, last_at=1005.0)
    for note in (None, 4, 3):
        if note is not None:
            commit(store, hidden=[HiddenRows(*S1, "", note, "w", 9.0)])
            rows[0] = replace(rows[0], n_decisions=note, n_rounds=note, last_at=1000.0 + note)
            store = reopen()
        transaction = begin(store)
        assert [transaction.trajectory((*S1, row.key)) for row in rows] == rows
        reader = transaction._transaction.reader
        assert [reader.trajectory((*S1, row.key)) for row in rows] == rows
        assert list(transaction.trajectories(S1)) == rows
        assert transaction.trajectories_from(S1, "b", 1) == rows[1:2]
        expected = {"": int(note != 3), "b": 0, "c": 0}
        assert transaction.measured_of_last(S1, "", "c", 1 + (note is None)) == expected
        transaction.rollback()


def test_a_history_has_the_window_its_lags_and_no_more_than_the_manifest(store: Store) -> None:
    commit(store, session(), trajectory(n_rounds=14), *(decision(i) for i in range(1, 15)))
    commit(store, *(measurement(i) for i in (8, 9, 10)), measurement(11, 13))
    commit(store, measurement(14))
    known = Watermark(9, 14, 0.0)
    with store.reader() as reader:
        history = read_history(reader, session(), WINDOW)
        limited = read_history(reader, session(), WINDOW, known)
        everything = read_history(reader, session(), FitWindow(1, 1, 14, 4, 14))
    assert everything.trajectories[""].measurements.last.tolist() == [8, 9, 10, 13, 14]
    part = history.trajectories[""]
    assert (part.first_round, part.last_round) == (6, 12)
    np.testing.assert_array_equal(part.contexts, [[i, 1 / 3] for i in range(6, 13)])
    assert part.numbering.tolist() == list(range(6, 13))
    assert part.measurements.first.tolist() == [9, 10]
    assert part.measurements.value.tolist() == [3.0, 10 / 3]
    assert limited.trajectories[""].measurements.first.tolist() == [9]


def test_a_window_has_the_rounds_of_all_its_trajectories(store: Store) -> None:
    turns = [*("", "a", "b") * 4]
    rows = [decision(1 + i // 3, name, position=1 + i) for i, name in enumerate(turns)]
    values = [measurement(1 + i // 3, None, name, position=1 + i) for i, name in enumerate(turns)]
    values[7] = measurement(2, 3, "a", position=8)
    values[4] = measurement(4, None, "a", position=5)
    del values[10]
    commit(store, session(), *(trajectory(name) for name in ("", "a", "b")), *rows, *values)
    with store.reader() as reader:
        assert [row[:3] for row in reader.window_rounds(S1, 7, 9, 1)] == [
            *(("", 2, 4), ("", 3, 7)),
            *(("a", 2, 5), ("a", 3, 8)),
            *(("b", 2, 6), ("b", 3, 9)),
        ]
        assert [row[:3] for row in reader.window_rounds(S1, 8, 8, 0)] == [("a", 3, 8)]
        assert [row[:3] for row in reader.window_measurements(S1, 7, 9, 0, 99)] == [
            *(("", 2, 2), ("", 3, 3)),
            ("a", 2, 3),
            *(("b", 2, 2), ("b", 3, 3)),
        ]
        assert [row[:3] for row in reader.window_measurements(S1, 11, 11, 1, 7)] == [("a", 4, 4)]
        taken = reader.taken(S1, 5, 7)
        assert [(one[0], one[2]) for one in taken] == [(5, False), (6, False), (7, False)]
        chosen = [one[:3] for one in reader.chosen(S1, 7, 9)]
        assert chosen == [("", 3, 7), ("a", 3, 8), ("b", 3, 9)]
    commit(store, VoidRow(*S1, "a", 3, 99, 1.0))
    with store.reader() as reader:
        assert [one.is_void for one in reader.chosen(S1, 7, 9)] == [False, True, False]


def test_a_history_takes_as_many_statements_for_one_trajectory_as_for_many(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = session(default_reward=0.5)
    commit(store, made, trajectory("t0"), decision(1, "t0", position=1))
    asked: list[str] = []

    def noted(run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda name, *values: asked.append(name) or run(name, *values)

    n_asked = []
    for n in (1, 30):
        names = [f"t{i}" for i in range(1, n)]
        rows = [decision(1, name, position=1 + i) for i, name in enumerate(names, 1)]
        commit(store, *map(trajectory, names), *rows)
        known = Watermark(0, n, 5000.0)
        asked.clear()
        with store.reader() as reader:
            for name in ("_all", "_each"):
                monkeypatch.setattr(reader, name, noted(getattr(reader, name)))
            history = read_history(reader, made, FitWindow(1, 1, n, 4, n), known)
        assert len(history.trajectories) == n
        n_asked.append(len(set(asked)))  # a statement may pass through both
    assert n_asked == [5, 5]


def test_floats_come_back_to_the_last_bit(store: Store) -> None:
    values = [0.1 + 0.2, 1e-308, 1.7976931348623157e308, 2**53 + 1.0, 1 / 3, 5e-324]
    commit(store, session(), *(measurement(i + 1, value=v) for i, v in enumerate(values)))
    with store.reader() as reader:
        assert [m.value for m in reader.measurement_log(T1)] == values


def test_what_is_left_unread_keeps_no_later_reader_in_the_past(
    store: Store, tmp_path: Path
) -> None:
    """A client hangs up in its export; what is acknowledged after that is seen by all."""
    harness = ServiceHarness(tmp_path, store)
    harness.create()
    harness.rounds(30, rewarded=False)
    with store.reader() as reader:
        left = reader.window_rounds(harness.key, 1, 30, 0)
        next(left)
    harness.rounds(1, rewarded=False)
    with store.reader() as other:
        assert len(list(other.window_rounds(harness.key, 1, 40, 0))) == 31
        left.close()  # type: ignore[attr-defined]
        assert len(list(other.window_rounds(harness.key, 1, 40, 0))) == 31
