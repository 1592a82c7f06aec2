"""What every store promises: DESIGN 5's truth, whole or not at all."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lhb_engine.history import FitWindow
from service.records import (
    Decision,
    DueFit,
    EstimateRecord,
    Measurement,
    OpenWindow,
    Schedule,
    Session,
    Trajectory,
)
from service.storage.ports import Changes, Keys, Store, Transaction
from service.storage.urls import open_store

WINDOW = FitWindow(2, 9, 12, 4, 12)


@pytest.fixture
def reopen(database_url: str) -> Iterator[Callable[[], Store]]:
    """Opens the same database again, after closing it."""
    opened: list[Store] = []

    def open_again() -> Store:
        while opened:
            opened.pop().close()
        opened.append(open_store(database_url))
        return opened[0]

    yield open_again
    while opened:
        opened.pop().close()


@pytest.fixture
def store(reopen: Callable[[], Store]) -> Store:
    return reopen()


def session(id: str = "s1", **changes: Any) -> Session:
    made = Session(
        tenant="t",
        id=id,
        name=None,
        algorithm="ad_lasso",
        dim=2,
        horizon=4,
        seed=2**53 - 1,
        options={"c": 0.1, "deep": [1, None, "x"]},
        reward_mode="single",
        reward_wait_seconds=0.25,
        default_reward=None,
        refit="background",
        request='{"dim": 2}',
        created_at=1700000000.123456,
        schedule=Schedule(open=[OpenWindow(WINDOW, 3, 12.5)]),
    )
    return replace(made, **changes)


def decision(round: int, trajectory: str = "", *, id: str = "s1", **changes: Any) -> Decision:
    made = Decision(
        tenant="t",
        session_id=id,
        trajectory=trajectory,
        round=round,
        number=round,
        position=round,
        client_event_id=None,
        digest=None,
        arm=1,
        arm_id=None,
        context=np.array([round, 1 / 3]).tobytes(),
        scores=np.array([0.1, 0.2]).tobytes(),
        propensity=0.5,
        explored=False,
        forced=False,
        epoch=1,
        model_version=0,
        next_fit_round=12,
        at=1000.0 + round,
    )
    return made._replace(**changes)


def measurement(
    first: int, last: int | None = None, trajectory: str = "", **changes: Any
) -> Measurement:
    made = Measurement(
        tenant="t",
        session_id="s1",
        trajectory=trajectory,
        first_round=first,
        last_round=first if last is None else last,
        number=first,
        value=first / 3,
        reward_id=None,
        at=2000.0,
    )
    return made._replace(**changes)


def trajectory(key: str = "", id: str = "s1", **changes: Any) -> Trajectory:
    return replace(Trajectory("t", id, key, n_decisions=3, n_rounds=3, last_at=1003.0), **changes)


def changes(*rows: Any, **more: Any) -> Changes:
    out = Changes(**more)
    for row in rows:
        if isinstance(row, Session):
            out.new_sessions.append(row)
        elif isinstance(row, Trajectory):
            out.trajectories[row.tenant, row.session_id, row.key] = row
        elif isinstance(row, Decision):
            out.decisions.append(row)
        elif isinstance(row, Measurement):
            out.measurements.append(row)
        else:
            out.estimates.append(row)
    return out


def commit(store: Store, *rows: Any, **more: Any) -> None:
    transaction = begin(store)
    transaction.write(changes(*rows, **more))
    transaction.commit()


def begin(store: Store) -> Transaction:
    transaction = store.begin()
    transaction.prefetch(Keys(sessions={("t", "s1")}, trajectories={("t", "s1", "")}))
    return transaction


S1 = ("t", "s1")
T1 = ("t", "s1", "")


def test_a_session_comes_back_as_it_went(reopen: Callable[[], Store]) -> None:
    store = reopen()
    made = session(name="shop", default_reward=-0.5)
    commit(store, made)
    for get in (lambda: store, reopen):
        again = get()
        with again.reader() as reader:
            assert reader.session(S1) == made
            assert reader.session(("", "s1")) is None
            assert reader.session(("t", "s2")) is None
        transaction = begin(again)
        assert transaction.session(S1) == made
        assert transaction.session_named("t", "shop") == made
        assert transaction.session_named("", "shop") is None
        transaction.rollback()


def test_counters_and_the_rest_of_a_session_change_apart(reopen: Callable[[], Store]) -> None:
    store = reopen()
    commit(store, session())
    counted = session(n_rounds=5, n_trajectories=2, n_complete=4)
    commit(store, counts={S1: counted})
    with store.reader() as reader:
        assert reader.session(S1) == counted
    due = DueFit(WINDOW, {"": 7, "a": 2}, {"": 3}, "complete", 1234.5, 1, 99.5)
    changed = replace(
        counted,
        name="new",
        archived_at=5.5,
        n_estimates=3,
        estimate=2,
        model_version=1,
        schedule=Schedule([OpenWindow(WINDOW, 1, None)], due, [due]),
    )
    commit(store, sessions={S1: changed}, counts={S1: changed})
    with reopen().reader() as reader:
        assert reader.session(S1) == changed
        [(key, fit_due, wake_at)] = reader.unfinished()
        assert (key, fit_due, wake_at) == (S1, 12, 99.5)


def test_unfinished_lists_only_what_waits(store: Store) -> None:
    idle = session("s2", schedule=Schedule([OpenWindow(WINDOW)]))
    commit(store, session("s1"), idle)
    with store.reader() as reader:
        assert reader.unfinished() == [(S1, None, 12.5)]


def test_what_is_not_committed_does_not_exist(store: Store) -> None:
    commit(store, session(), trajectory())
    transaction = begin(store)
    found = transaction.session(S1)
    assert found is not None
    found.n_rounds = 99
    moved = transaction.trajectory(T1)
    assert moved is not None
    moved.n_rounds = 99
    transaction.write(changes(decision(1), counts={S1: found}))
    assert transaction.decision_by_round(T1, 1) == decision(1)
    with store.reader() as reader:
        assert reader.decisions(T1, 0, 10) == []
        assert reader.session(S1) == session()
    transaction.rollback()
    transaction = begin(store)
    assert transaction.session(S1) == session()
    assert transaction.trajectory(T1) == trajectory()
    assert transaction.decision_by_round(T1, 1) is None
    transaction.rollback()


def test_a_failed_write_can_be_rolled_back(store: Store) -> None:
    commit(store, session(), decision(1))
    transaction = begin(store)
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        transaction.write(changes(decision(2), decision(1)))
    transaction.rollback()
    commit(store, decision(2))
    with store.reader() as reader:
        assert [d.round for d in reader.decisions(T1, 0, 10)] == [1, 2]


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


def test_an_event_id_and_a_reward_id_are_unique_in_their_trajectory(store: Store) -> None:
    commit(store, session(), decision(1, client_event_id="a"), measurement(1, reward_id="r"))
    commit(store, decision(1, "b", client_event_id="a"), measurement(1, None, "b", reward_id="r"))
    for row in (decision(2, client_event_id="a"), measurement(2, reward_id="r")):
        transaction = begin(store)
        with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
            transaction.write(changes(row))
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
    commit(store, trajectory("b"), *other, measurement(2, None, "b"))
    transaction = begin(store)
    assert transaction.count_measured(S1, 1, 12) == 6
    assert transaction.count_measured(S1, 7, 11) == 2
    transaction.rollback()


def test_rounds_are_closed_by_the_next_decision_of_their_trajectory(store: Store) -> None:
    commit(store, session(), trajectory(), *(decision(i) for i in range(1, 4)))
    commit(store, trajectory("b"), decision(1, "b", position=4, at=1002.0))
    transaction = begin(store)
    assert transaction.closed_rounds(S1, 1002.0) == {"": 1}
    assert transaction.closed_rounds(S1, 1003.0) == {"": 2}
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
        assert reader.trajectories(S1) == rows
    rows[1] = replace(rows[1], n_rounds=8, measured_through=7, last_at=5000.5)
    commit(store, rows[1])
    transaction = begin(reopen())
    assert transaction.trajectory(("t", "s1", "a")) == rows[1]
    assert transaction.trajectory(("t", "s1", "b")) is None
    assert transaction.trajectories(S1) == rows
    transaction.rollback()


def estimate(number: int, **more: Any) -> EstimateRecord:
    made = EstimateRecord("t", "s1", number, 1, 4, "ok", None, "{}", 0, 1, "{}", "{}", 5.5)
    return made._replace(**more)


def test_estimates_and_agent_states(store: Store) -> None:
    rows = [estimate(1), estimate(2, status="failed", reason="why", estimate=None), estimate(3)]
    commit(store, session(), *rows, states={S1: '{"theta": [0.1]}'})
    with store.reader() as reader:
        assert reader.estimates(S1, 0, 2) == rows[:2]
        assert reader.estimates(S1, 2, 9) == rows[2:]
        assert reader.estimate(S1, 2) == rows[1]
        assert reader.estimate(S1, 4) is None
        assert reader.agent_state(S1) == '{"theta": [0.1]}'
        assert reader.agent_state(("t", "s2")) is None
    commit(store, states={S1: "{}"})
    transaction = begin(store)
    assert transaction.agent_state(S1) == "{}"
    transaction.rollback()


def test_sessions_are_listed_by_creation_and_tenant(store: Store) -> None:
    rows = [session(f"s{i}") for i in range(5)]
    rows[3].archived_at = 7.0
    commit(store, *rows, session("s9", tenant="other"))
    with store.reader() as reader:
        assert [s.id for s in reader.sessions("t", "", 2, False)] == ["s0", "s1"]
        assert [s.id for s in reader.sessions("t", "s1", 9, False)] == ["s2", "s4"]
        assert [s.id for s in reader.sessions("t", "s1", 9, True)] == ["s2", "s3", "s4"]
        assert [s.id for s in reader.sessions("other", "", 9, True)] == ["s9"]


def test_deletion_takes_all_of_a_session_and_nothing_else(store: Store) -> None:
    rows = (decision(1), measurement(1), estimate(1))
    commit(store, session(name="n"), trajectory(), *rows, states={S1: "{}"})
    commit(store, session("s2"), trajectory(id="s2"), decision(1, id="s2"))
    commit(store, deleted=[S1])
    with store.reader() as reader:
        assert reader.session(S1) is None
        assert reader.trajectories(S1) == []
        assert reader.decisions(T1, 0, 9) == []
        assert list(reader.measurement_log(T1)) == []
        assert reader.estimates(S1, 0, 9) == []
        assert reader.agent_state(S1) is None
        assert reader.session(("t", "s2")) == session("s2")
        assert len(reader.decisions(("t", "s2", ""), 0, 9)) == 1
    commit(store, session(name="n"), trajectory(), *rows)


def test_a_history_has_the_window_its_lags_and_no_more_than_the_manifest(store: Store) -> None:
    commit(store, session(), trajectory(n_rounds=14), *(decision(i) for i in range(1, 15)))
    commit(store, *(measurement(i) for i in (8, 9, 10)), measurement(11, 13))
    commit(store, measurement(14))
    due = DueFit(WINDOW, {"": 9}, {}, "overdue", 0.0)
    with store.reader() as reader:
        history = reader.history(session(), WINDOW)
        limited = reader.history(session(), WINDOW, due)
        everything = reader.history(session(), FitWindow(1, 1, 14, 4, 14))
    assert everything.trajectories[""].measurements.last.tolist() == [8, 9, 10, 13, 14]
    part = history.trajectories[""]
    assert (part.first_round, part.last_round) == (6, 12)
    np.testing.assert_array_equal(part.contexts, [[i, 1 / 3] for i in range(6, 13)])
    assert part.numbering.tolist() == list(range(6, 13))
    assert part.measurements.first.tolist() == [9, 10]
    assert part.measurements.value.tolist() == [3.0, 10 / 3]
    assert limited.trajectories[""].measurements.first.tolist() == [9]


def test_floats_come_back_to_the_last_bit(store: Store) -> None:
    values = [0.1 + 0.2, 1e-308, 1.7976931348623157e308, 2**53 + 1.0, 1 / 3, 5e-324]
    commit(store, session(), *(measurement(i + 1, value=v) for i, v in enumerate(values)))
    with store.reader() as reader:
        assert [m.value for m in reader.measurement_log(T1)] == values


def test_the_store_answers(store: Store) -> None:
    with store.reader() as reader:
        reader.check()
