"""What a trajectory's last decision tells is not written to its row, and is read from there."""

from typing import Any

from service.storage.sqlite.store import SqliteStore
from tests.service.service_harness import ServiceHarness


def stored(harness: ServiceHarness) -> list[tuple[Any, ...]]:
    """The counters as the rows have them."""
    with harness.store.reader() as reader:
        found: Any = reader
        names = "trajectory, n_decisions, n_rounds, last_at"
        sql = f"select {names} from trajectories order by trajectory"
        return [tuple(row) for row in found.connection.execute(sql).fetchall()]


def seen(harness: ServiceHarness) -> list[tuple[Any, ...]]:
    """The counters as readers see them, in three ways."""
    with harness.store.reader() as reader:
        key = harness.key
        rows = list(reader.trajectories(key))
        assert reader.trajectories_from(key, "", 9) == rows
        assert [reader.trajectory((*key, row.key)) for row in rows] == rows
    return [(row.key, row.n_decisions, row.n_rounds, row.last_at) for row in rows]


def forget(harness: ServiceHarness) -> None:
    """Forget what the store keeps in memory."""
    if isinstance(harness.store, SqliteStore):
        harness.store.trajectories.clear()


def test_a_decision_leaves_the_row_of_its_trajectory_as_it_is(both: ServiceHarness) -> None:
    both.create()
    for key in ("a", "b", "a", "a"):
        both.now += 1.0
        both.decide(key)
    assert stored(both) == [("a", 1, 1, 1001.0), ("b", 1, 1, 1002.0)]
    assert seen(both) == [("a", 3, 3, 1004.0), ("b", 1, 1, 1002.0)]
    forget(both)
    both.now = 1000.5  # a clock that was set back
    again = both.decide("a")
    assert (again.round, again.number, again.at) == (4, 4, 1004.0)
    forget(both)
    both.reward(1.0, "a", round=4)
    assert stored(both) == seen(both) == [("a", 4, 4, 1004.0), ("b", 1, 1, 1002.0)]


def test_a_time_before_an_earlier_one_is_written(both: ServiceHarness) -> None:
    """With a clock the last decision is not always the latest."""
    both.create(algorithm="anytime", clock={"slot_seconds": 60, "late_slots": 9})
    both.now = 10_000.0
    for at, last in ((9990.0, 9990.0), (9995.0, 9995.0), (9980.0, 9995.0)):
        both.decide("a", at=at)
        forget(both)
        assert [row[3] for row in seen(both)] == [last]
    assert stored(both) == seen(both) == [("a", 3, 3, 9995.0)]
