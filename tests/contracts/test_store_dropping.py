"""Dropping rows of old rounds, on both databases: which go, how many at a time, what is counted."""

import random

import pytest

from service.session.records import VoidRow
from service.storage.ports import Changes, DropCursor, Dropped
from service.storage.reader import Voided
from service.storage.transactions import Slices, Store
from tests.contracts.sample_rows import S1, commit, decision, measurement, session, trajectory


def dropped(store: Store, to: int, n_kept: int) -> list[Dropped]:
    """A whole pass, each call in a transaction of its own."""
    cursor: DropCursor | None = None
    calls = []
    while True:
        transaction = store.begin()
        found = transaction.drop(S1, to, n_kept, cursor)
        transaction.run(transaction.commit(Changes()))
        calls.append(found)
        cursor = found.cursor
        if cursor is None:
            return calls


@pytest.mark.parametrize(("page", "pages", "most"), [(2, 2, 3), (3, 1, 5), (64, 16, 256)])
@pytest.mark.parametrize("to", [0, 25, 60])
def test_a_pass_takes_what_nothing_needs(
    store: Store, page: int, pages: int, most: int, to: int
) -> None:
    """Rounds go with the last position that needs them; a span stays until all of it is gone."""
    store.slices = Slices(rows=most, page=page, pages=pages)
    rng, n_kept = random.Random(8), 4
    places: dict[str, list[int]] = {"": [], "a": [], "b": [], "short": []}
    for position in range(1, 61):
        weights = (5, 5, 5 if position > 30 else 1, 3 if position < 20 else 0)
        [name] = rng.choices([*places], weights)
        places[name].append(position)
    rows, measured, n = [], [], 0
    for name, held in places.items():
        rows += [decision(i, name, position=p) for i, p in enumerate(held, 1)]
        round = 1
        while round <= len(held):
            n, last = n + 1, min(round + rng.choice((0, 0, 0, 1, 6)), len(held))
            if rng.random() < 0.8:
                measured.append(measurement(round, last, name, position=n, number=n))
            round = last + 1
    values = measured[0]
    corrected = values._replace(number=90, position=90, replaces=values.position)
    voids = [VoidRow(*S1, "b", 1, 91, 1.0), VoidRow(*S1, "a", len(places["a"]), 92, 1.0)]
    keys = [trajectory(name, n_decisions=1, n_rounds=1, last_at=0.0) for name in places]
    commit(store, session(), *keys, *rows, *measured, corrected, *voids)
    commit(store, session("s2"), trajectory(id="s2"), decision(1, id="s2"))
    lengths = {name: len(held) for name, held in places.items()}
    gone = {
        (name, round)
        for name, held in places.items()
        for round in range(1, len(held) + 1)
        if held[min(round + n_kept, len(held)) - 1] <= to
    }
    calls = dropped(store, to, n_kept)
    assert sum(call.n_rounds for call in calls) == len(gone)
    assert max(call.n_rounds for call in calls) <= most
    covered = {(m.trajectory, r) for m in measured for r in range(m.first_round, m.last_round + 1)}
    assert sum(call.n_complete for call in calls) == len(gone & covered)
    left = [m for m in [*measured, corrected] if (m.trajectory, m.last_round) not in gone]
    left_voids = [v for v in voids if (v.trajectory, v.round) not in gone]
    n_less = len(measured) + 1 + len(voids) - len(left) - len(left_voids)
    assert sum(call.n_measurements for call in calls) == n_less
    with store.reader() as reader:
        for name, held in places.items():
            key = (*S1, name)
            rounds = [d.round for d in reader.decisions(key, 0, 99)]
            assert rounds == [r for r in range(1, len(held) + 1) if (name, r) not in gone]
            assert reader.first_left(key) == (rounds[0] if rounds else None)
            assert list(reader.measurement_log(key)) == [m for m in left if m.trajectory == name]
        stored = reader.voids(S1, 0, 99)
        assert [VoidRow._make((*S1, *one[:4])) for one in stored] == left_voids
        assert [one.begun for one in stored] == [
            places[one.trajectory][one.round - 1] for one in stored
        ]
        assert [one.taken_at for one in stored] == [1000.0 + one.round for one in stored]
        counted = [(t.key, t.n_rounds, t.n_decisions, t.last_at) for t in reader.trajectories(S1)]
        assert counted == [(k, n, n, 1000.0 + n) for k, n in sorted(lengths.items())]
        assert len(reader.decisions(("t", "s2", ""), 0, 9)) == 1
    assert sum(call.n_rounds for call in dropped(store, to, n_kept)) == 0


def test_when_a_position_was_taken(store: Store) -> None:
    """In the default trajectory, too, which has no index by position."""
    names = ["", "a", "", "", "a", ""]
    n: dict[str, int] = {}
    rows = []
    for position, name in enumerate(names, 1):
        n[name] = n.get(name, 0) + 1
        rows.append(decision(n[name], name, position=position, at=100.0 + position))
    commit(store, session(), trajectory(), trajectory("a"), *rows)
    with store.reader() as reader:
        found = [reader.began_from(S1, position, 2) for position in range(1, 8)]
        assert found == [101.0, 102.0, 103.0, 104.0, 105.0, 106.0, None]
        assert reader.time_of_round((*S1, "a"), 2) == 105.0
        assert reader.oldest_measured(S1, 0, 99) is None
    late = measurement(4, None, "", position=1), measurement(1, None, "a", position=2, number=2)
    commit(store, *late)
    with store.reader() as reader:
        assert [reader.oldest_measured(S1, 0, n) for n in (1, 2)] == [6, 2]
        assert reader.oldest_measured(S1, 2, 9) is None
        # of the round that follows: of the last one there is none
        assert [reader.oldest_measured(S1, after, 9, 1) for after in (0, 1)] == [5, 5]
        assert [reader.oldest_measured(S1, 0, 1, n) for n in (0, 1)] == [6, None]
        # before position 5 the first round of "a" is open, before position 6 the third one of ""
        assert [reader.oldest_open(S1, first, 6) for first in (1, 3, 5, 6)] == [1, 1, 2, 4]
        assert [reader.first_began_after(S1, 2, 5, at) for at in (101, 103, 105)] == [2, 4, 6]
    commit(store, measurement(1, 4, "", position=3, number=3))
    with store.reader() as reader:  # a value of rounds 1 to 4 of ""
        assert reader.oldest_open(S1, 6, 6) == 1


def test_sessions_that_drop_rows_are_found(store: Store) -> None:
    commit(store, session("s1"), session("s2", keep_rounds=40_000), session("s3", keep_days=2.0))
    commit(store, session("s4", dropped_to=9), session("s5", dropped_to=9, swept_to=9))
    with store.reader() as reader:
        assert [one.id for one in reader.with_retention(("", ""), 9)] == ["s2", "s3", "s4"]
        assert [one.id for one in reader.with_retention(("t", "s2"), 1)] == ["s3"]
        assert reader.session(("t", "s3")) == session("s3", keep_days=2.0)


def test_decisions_go_alone_where_values_are_not_of_them(store: Store) -> None:
    """With a clock values are of slots, and a void of a decision that is gone is still known."""
    store.slices = Slices(rows=2, page=2, pages=2)
    rows = [decision(i, "a", position=i) for i in range(1, 6)]
    values = [measurement(i, i, "a", position=i, number=i) for i in range(1, 4)]
    void = VoidRow(*S1, "a", 1, 4, 1.0)
    commit(store, session(), trajectory("a", n_rounds=5), *rows, *values, void)
    calls = dropped(store, 4, 0)
    assert [sum(column) for column in zip(*(call[1:] for call in calls), strict=True)] == [4, 0, 0]
    with store.reader() as reader:
        assert [row.round for row in reader.decision_log((*S1, "a"))] == [5]
        assert len(list(reader.measurement_log((*S1, "a")))) == 3
        assert reader.voids(S1, 0, 9) == [Voided(*void[2:], None, None)]
