"""Processes that would wait for each other's rows take turns, and gather commands meanwhile."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.storage.ports import Changes, Keys, KnownRows
from service.storage.postgres.store import TURNS, PostgresStore
from tests.service.service_harness import ServiceHarness
from tests.service.writer.sample_commands import decide

WAITING = (
    "select count(*) from pg_stat_activity"
    " where wait_event_type = 'Lock' and datname = current_database()"
)


@pytest.fixture
def harnesses(postgres_url: str, tmp_path: Path) -> Iterator[list[ServiceHarness]]:
    """Two processes on one database, that have both decided in one session."""
    url = f"{postgres_url}?options=-c%20lock_timeout%3D60s"
    made = [ServiceHarness(tmp_path, PostgresStore(url)) for _ in range(2)]
    made[0].create(algorithm="uniform", horizon=100)
    made[1].key = made[0].key
    for one in made:
        one.decide("a")
    yield made
    for one in made:
        one.close()


async def until_one_waits(url: str) -> None:
    """Return when a process waits for a lock."""
    with psycopg.connect(url, autocommit=True) as watching:
        while watching.execute(WAITING).fetchone() != (1,):
            await asyncio.sleep(0.001)


async def deciding_beside_a_change(harnesses: list[ServiceHarness], url: str) -> None:
    """Let one process decide while another holds the session, and then counts a decision."""
    mine, other = harnesses
    transaction, known = other.store.begin(), KnownRows()
    transaction.run(transaction.fetch(Keys(sessions={other.key}), known))
    session = known.sessions[other.key]
    assert session is not None
    answer = mine.commit.submit_together([decide(mine)])
    await until_one_waits(url)
    await asyncio.sleep(0.002)
    transaction.run(transaction.commit(Changes(counts={other.key: session})))
    assert (await answer)[0][1] is None


def test_turns_are_taken_after_a_wait_alone(
    harnesses: list[ServiceHarness], postgres_url: str
) -> None:
    mine, other = harnesses
    other.decide("a")
    mine.decide("a")  # others' changes, but no wait
    assert mine.store.cache.turns == 0
    asyncio.run(deciding_beside_a_change(harnesses, postgres_url))
    assert (mine.store.cache.turns, other.store.cache.turns) == (TURNS, 0)

    async def deciding_alone() -> None:
        for _ in range(TURNS):
            await mine.commit.submit(decide(mine))

    asyncio.run(deciding_alone())
    assert mine.store.cache.turns == 0


def test_commands_gather_while_another_has_the_turn(
    harnesses: list[ServiceHarness], postgres_url: str
) -> None:
    mine, other = harnesses

    async def decided() -> list[Any]:
        other.store.cache.turns = mine.store.cache.turns = 1
        await other.store.take_turn()
        answers = [mine.commit.submit_together([decide(mine)])]
        await until_one_waits(postgres_url)
        answers += [mine.commit.submit_together([decide(mine)]) for _ in range(3)]
        before = mine.commit.n_batches
        transaction = other.store.begin()  # the turn ends with the transaction
        transaction.run(transaction.commit(Changes()))
        taken = [result.decision.round for answer in answers for result, _ in await answer]
        return [*taken, mine.commit.n_batches - before]

    assert asyncio.run(decided()) == [1, 2, 3, 4, 1]


def test_a_turn_that_does_not_come_is_done_without(
    harnesses: list[ServiceHarness], postgres_url: str, tmp_path: Path
) -> None:
    other = harnesses[1]
    url = f"{postgres_url}?options=-c%20lock_timeout%3D100ms"
    hasty = ServiceHarness(tmp_path, PostgresStore(url))
    hasty.key = other.key

    async def decided() -> Any:
        other.store.cache.turns, hasty.store.cache.turns = 1, TURNS
        await other.store.take_turn()  # and hangs
        return await hasty.commit.submit_together([decide(hasty), decide(hasty)])

    outcomes = asyncio.run(decided())
    assert [taken.decision.round for taken, _ in outcomes] == [1, 2]
    assert hasty.store.cache.turns == 0
    hasty.close()
