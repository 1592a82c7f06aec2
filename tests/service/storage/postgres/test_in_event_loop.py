"""Batches on PostgreSQL in the event loop: it waits for sockets only, and else a thread does."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lhb_engine.estimate import Estimate
from service.base.problems import Unavailable
from service.commands.decisions import Decide
from service.commands.limits import NO_LIMITS
from service.commands.rewards import ReceiveRewards
from service.rounds.reward import Reward
from service.storage.ports import Changes, Keys, KnownRows, MustWait
from service.storage.postgres.store import PostgresStore
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import CONTEXTS, OK, ServiceHarness
from tests.service.writer.sample_commands import decide


class CalmStore(PostgresStore):
    """It looks at no setting while a test runs."""

    check_seconds = 3600.0


@pytest.fixture
def harness(postgres_url: str, tmp_path: Path) -> Iterator[ServiceHarness]:
    """What else goes to the thread does so by the clock; no test here depends on the clock."""
    store = CalmStore(f"{postgres_url}?options=-c%20lock_timeout%3D60s")
    harness = ServiceHarness(tmp_path, store)
    harness.commit._size.brief_seconds = 3600.0
    yield harness
    store.close()


class Watched:
    """What a harness's writer has its thread do."""

    def __init__(self, harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        thread = harness.commit._thread
        call = thread.call

        def noted(work: Any, argument: Any) -> Any:
            self.asked.append(work.__name__)
            return call(work, argument)

        monkeypatch.setattr(thread, "call", noted)


def play(harness: ServiceHarness, *commands: Any) -> list[Any]:
    """Results of one batch."""

    async def answered() -> Any:
        return await harness.commit.submit_together(list(commands))

    outcomes = asyncio.run(answered())
    assert [error for _, error in outcomes] == [None] * len(commands)
    return [result for result, _ in outcomes]


def rewarded(harness: ServiceHarness, **named: Any) -> ReceiveRewards:
    return ReceiveRewards(harness.key, [Reward(0.5, "", **named)], harness.agents)


def test_brief_commands_ask_no_thread(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create(algorithm="uniform", horizon=100)
    watched = Watched(harness, monkeypatch)
    harness.decide()
    first, again, _ = play(harness, decide(harness, "a"), decide(harness, "a"), decide(harness))
    assert first.decision == again.decision
    play(
        harness,
        rewarded(harness, event_id="a"),
        rewarded(harness, event_id="~1"),
        rewarded(harness, round=3),
    )
    play(harness, rewarded(harness, event_id="~1"), rewarded(harness, round=2))
    assert watched.asked == []
    assert harness.session.n_rounds == 3
    with harness.store.reader() as reader:
        [trajectory] = reader.trajectories(harness.key)
    assert (trajectory.n_decisions, trajectory.n_measurements) == (3, 3)


def test_what_would_wait_goes_on_in_the_thread(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create()  # its first window ends with round 4
    watched = Watched(harness, monkeypatch)
    play(harness, decide(harness))  # nobody has made its agent yet
    play(harness, decide(harness), rewarded(harness, round=1))
    assert watched.asked == ["_finish_in_thread"]
    play(
        harness,
        decide(harness),
        rewarded(harness, round=2),
        rewarded(harness, round=3),
        decide(harness),
    )
    assert watched.asked == ["_finish_in_thread"] * 2  # a boundary
    play(harness, rewarded(harness, round=4))
    harness.finish(4, OK)
    del watched.asked[:]
    taken, later = play(harness, decide(harness), decide(harness))
    assert [taken.decision.model_version, later.decision.model_version] == [1, 1]
    assert watched.asked == []  # what this process has installed it need not read


@pytest.mark.parametrize("algorithm", ["ucb_mp", "uniform"])
def test_learners_and_times_are_read_in_the_thread(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    mode = "single" if algorithm == "ucb_mp" else "sum"
    harness.create(algorithm=algorithm, reward_mode=mode, reward_wait_seconds=1.0, horizon=100)
    harness.decide()
    watched = Watched(harness, monkeypatch)
    at = datetime.fromtimestamp(harness.now, UTC)
    named = {"round": 1} if mode == "single" else {"at": at, "reward_id": "r"}
    play(harness, decide(harness))
    play(harness, rewarded(harness, **named))
    assert watched.asked == (
        ["_finish_in_thread"] * 2 if mode == "single" else ["_finish_in_thread"]
    )


def test_an_unannounced_read_is_refused_and_the_batch_run_again(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create(algorithm="uniform", horizon=100)
    harness.decide()

    class Hasty(Decide):
        def keys(self, keys: Keys) -> None:
            """Announces nothing."""

    hasty = Hasty(harness.key, harness.agents, NO_LIMITS, "another", CONTEXTS)
    watched = Watched(harness, monkeypatch)
    results = play(harness, decide(harness), hasty, decide(harness))
    assert [taken.decision.position for taken in results] == [2, 3, 4]
    assert watched.asked == ["_recover"]
    with pytest.raises(MustWait):
        asyncio.run(_read_unannounced(harness))


async def _read_unannounced(harness: ServiceHarness) -> None:
    transaction = harness.store.begin(wait=False)
    try:
        uow = UnitOfWork(transaction, KnownRows(), harness.now)
        uow.can_read = False
        uow.session(harness.key)
    finally:
        transaction.rollback()


WAITS = """
    select 1 from pg_stat_activity where datname = current_database()
    and application_name = 'lhb writer' and wait_event_type = 'Lock'
"""


def test_the_loop_goes_on_while_others_hold_the_row(
    harness: ServiceHarness, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that waited for the row would not come to letting go of it: the thread would wait."""
    harness.create(algorithm="uniform", horizon=100)
    harness.decide()
    watched = Watched(harness, monkeypatch)

    async def answered_late() -> int:
        with (
            psycopg.connect(postgres_url) as other,
            psycopg.connect(postgres_url, autocommit=True) as watching,
        ):
            other.execute("select 1 from sessions where id = %s for update", [harness.key[1]])
            future = harness.commit.submit_together([decide(harness)])
            while not watching.execute(WAITS).fetchone():
                assert not future.done()
                await asyncio.sleep(0.001)
            assert not future.done()
            assert watched.asked == []
            other.rollback()
        [(taken, error)] = await future
        assert error is None
        return int(taken.decision.round)

    assert asyncio.run(answered_late()) == 2


def test_a_connection_that_is_lost_meanwhile_comes_back(
    harness: ServiceHarness, postgres_url: str
) -> None:
    harness.create(algorithm="uniform", horizon=100)
    harness.decide()

    def lose() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
                " where application_name = 'lhb writer' and datname = current_database()"
            )

    async def lost_in_a_commit() -> list[Any]:
        transaction = harness.store.begin(wait=False)
        call = harness.commit._thread.call
        announced = transaction.fetch(Keys(sessions={harness.key}), KnownRows())
        await transaction.run_async(announced, call)
        lose()
        with pytest.raises(Unavailable, match="unknown"):
            await transaction.run_async(transaction.commit(Changes()), call)
        transaction.rollback()
        lost = await harness.commit.submit_together([decide(harness)])
        lose()
        return [*lost, *await harness.commit.submit_together([decide(harness)])]

    outcomes = asyncio.run(lost_in_a_commit())
    assert [error for _, error in outcomes] == [None, None]
    assert [taken.decision.round for taken, _ in outcomes] == [2, 3]
    assert harness.session.n_rounds == 3


def test_an_estimate_of_another_process_is_decided_by_at_once(
    harness: ServiceHarness, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create()
    harness.rounds(4)
    play(harness, decide(harness))
    other = ServiceHarness(tmp_path, PostgresStore(postgres_url))
    other.key = harness.key
    theta = Estimate(status="ok", lag_weights=OK.lag_weights, theta=-OK.theta)  # type: ignore[operator]
    other.finish(4, theta)
    other.close()
    watched = Watched(harness, monkeypatch)
    [taken] = play(harness, decide(harness))
    assert watched.asked == ["_finish_in_thread"]
    play(harness, decide(harness))
    assert watched.asked == ["_finish_in_thread"]
    assert taken.decision.model_version == 1
    assert memoryview(taken.decision.scores).cast("d").tolist() == [-0.6, -0.8]
