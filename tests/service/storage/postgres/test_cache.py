"""What a process remembers of sessions and trajectories: nothing that others have changed since."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.base.problems import Problem
from service.commands.erase_trajectory import erase_trajectory
from service.commands.sessions import change_session
from service.session.records import SessionKey, SessionRow, TrajectoryRow
from service.storage.ports import Changes, Keys, KnownRows
from service.storage.postgres import store as stores
from service.storage.postgres.statements import Pipeline
from service.storage.postgres.store import LOOKS, PostgresStore
from service.storage.transactions import Statement
from tests.examples import examples
from tests.service.service_harness import ServiceHarness

NAMES = ("", "a", "b")


@pytest.fixture
def harnesses(postgres_url: str, tmp_path: Path) -> Iterator[list[ServiceHarness]]:
    """Two processes on one database, with the same session."""
    made = [ServiceHarness(tmp_path, PostgresStore(postgres_url)) for _ in range(2)]
    made[0].create(horizon=100)
    made[1].key = made[0].key
    yield made
    for one in made:
        one.close()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of batches, in order."""
    names: list[str] = []
    exchange = Pipeline.exchange

    def noted(self: Pipeline, statements: Any) -> Any:
        def each() -> Iterator[Statement]:
            for statement in statements:
                names.append(statement[0])
                yield statement

        return exchange(self, each())

    monkeypatch.setattr(Pipeline, "exchange", noted)
    return names


def seen(store: PostgresStore, key: SessionKey) -> list[SessionRow | TrajectoryRow | None]:
    """A session and its trajectories as a batch has them."""
    transaction, known = store.begin(), KnownRows()
    places = {(*key, name) for name in NAMES}
    transaction.run(transaction.fetch(Keys(sessions={key}, trajectories=places), known))
    transaction.run(transaction.commit(Changes()))
    return [known.sessions[key], *(known.trajectories[*key, name] for name in NAMES)]


def test_what_nobody_has_changed_is_not_read_again(
    harnesses: list[ServiceHarness], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = harnesses
    mine.decide("a")
    read: list[Any] = []
    session_of = stores.session_of
    monkeypatch.setattr(stores, "session_of", lambda row: read.append(row) or session_of(row))
    asked.clear()
    assert mine.decide("a").round == 2
    alone = ["lock_sessions", "count_sessions", "insert_decisions", "commit"]
    assert (asked, read) == (alone, [])
    other.decide("a")
    other.decide("a")
    read.clear(), asked.clear()
    assert mine.decide("a").round == 5
    # its guess was wrong, so it asks twice; counters alone have changed, so it parses nothing
    assert (asked[:2], read) == (["lock_sessions", "trajectories_by_keys"], [])
    other.decide("a")
    asked.clear()
    assert mine.decide("a").round == 7
    assert asked == ["lock_sessions", "trajectories_by_keys", *alone[1:]]  # no guess any more
    for _ in range(LOOKS):
        mine.decide("a")
    asked.clear()
    assert mine.decide("a").round == 8 + LOOKS
    assert asked == alone
    other.run(change_session(other.key, {"archived": True}))
    with pytest.raises(Problem, match="archived"):
        mine.decide("a")
    assert len(read) == 1


def test_what_was_rolled_back_is_forgotten(harnesses: list[ServiceHarness]) -> None:
    mine, other = harnesses
    mine.decide("a")
    transaction, known = mine.store.begin(), KnownRows()
    place = (*mine.key, "a")
    keys = Keys(sessions={mine.key}, trajectories={place})
    transaction.run(transaction.fetch(keys, known))
    row = known.trajectories[place]
    assert row is not None
    row.n_rounds = row.n_decisions = 5  # as a batch that fails leaves it
    transaction.rollback()
    assert [other.decide("a").round, mine.decide("a").round] == [2, 3]


@pytest.mark.parametrize("seed", range(examples(12)))
def test_two_processes_see_what_a_new_one_reads(
    harnesses: list[ServiceHarness], postgres_url: str, seed: int
) -> None:
    draw = random.Random(seed)
    n_done = 0
    for _ in range(25):
        mine, name = draw.choice(harnesses), draw.choice(NAMES)
        kind = draw.choice(["decide", "decide", "decide", "reward", "erase", "change", "roll back"])
        if kind == "decide":
            n_done += mine.decide(name).round > 1
        elif kind == "reward":
            rows = seen(mine.store, mine.key)
            row = rows[1 + NAMES.index(name)]
            if isinstance(row, TrajectoryRow) and row.measured_through < row.n_rounds:
                mine.reward(1.0, name, round=row.n_rounds)
        elif kind == "erase" and name:
            mine.run_large(erase_trajectory(mine.key, name))
        elif kind == "change":
            mine.run(change_session(mine.key, {"reward_wait_seconds": draw.uniform(1, 9)}))
        elif kind == "roll back":
            transaction, known = mine.store.begin(), KnownRows()
            place = (*mine.key, name)
            transaction.run(transaction.fetch(Keys({mine.key}, {place}), known))
            if (row := known.trajectories[place]) is not None:
                row.n_rounds += 3
            transaction.rollback()
        fresh = PostgresStore(postgres_url)
        expected = seen(fresh, mine.key)
        fresh.close()
        for one in harnesses if draw.random() < 0.7 else [mine]:
            assert seen(one.store, one.key) == expected, kind
    assert n_done
