"""Whatever goes wrong around a commit, everybody is answered and the next commit works."""

import asyncio
import sqlite3
import threading

import pytest

from service.base.problems import ProblemCode, Unavailable
from service.storage.sqlite.store import SqliteTransaction
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork
from tests.examples import repeats
from tests.service.service_harness import ServiceHarness
from tests.service.writer.sample_commands import WritesThenFails, decide


@pytest.fixture
def harness(harness: ServiceHarness) -> ServiceHarness:
    harness.create(algorithm="uniform")
    return harness


@pytest.mark.parametrize("always", [False, True])
def test_a_transaction_that_cannot_begin_is_answered(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    begin, defect = harness.store.begin, sqlite3.InternalError("defect")

    def refuse(*, wait: bool = True) -> object:
        if always or not wait:
            raise defect
        return begin(wait=wait)

    monkeypatch.setattr(harness.store, "begin", refuse)

    async def play() -> list[tuple[object, BaseException | None]]:
        return await asyncio.wait_for(harness.commit.submit_together([decide(harness)]), 60)

    [(taken, error)] = asyncio.run(play())
    assert error is (defect if always else None)
    assert (taken is None) == always


def test_a_file_that_another_program_holds_stops_no_event_loop(harness: ServiceHarness) -> None:
    other = sqlite3.connect(harness.store.path, isolation_level=None)  # type: ignore[attr-defined]

    async def play() -> None:
        other.execute("begin immediate")
        answer = harness.commit.submit_together([decide(harness)])
        for _ in range(10):
            await asyncio.sleep(0.005)
        assert not answer.done()
        assert harness.commit.n_batches == 0
        other.execute("rollback")
        [(taken, error)] = await answer
        assert error is None
        assert taken.decision.round == 1
        await harness.commit.close()

    asyncio.run(play())
    other.close()


def test_a_row_that_the_database_refuses_leaves_nothing_of_its_command(
    harness: ServiceHarness,
) -> None:
    class Twice(SessionCommand[None]):
        key = harness.key

        def __call__(self, uow: UnitOfWork) -> None:
            uow.add_decision(decide(harness)(uow).decision)  # type: ignore[union-attr]

    outcomes, _ = harness.commit.run_in_thread([decide(harness), Twice(), decide(harness)])
    assert isinstance(outcomes[1][1], sqlite3.IntegrityError)
    assert [outcomes[i][0].decision.round for i in (0, 2)] == [1, 2]
    with harness.store.reader() as reader:
        assert [one.round for one in reader.decisions((*harness.key, ""), 0, 10)] == [1, 2]
    assert harness.session.n_rounds == 2


def test_what_the_database_undid_by_itself_is_not_acknowledged(harness: ServiceHarness) -> None:
    class Reads(SessionCommand[None]):
        """The disk is too full for what others in the batch wrote, when this has them flushed."""

        key = harness.key

        def __call__(self, uow: UnitOfWork) -> None:
            uow.flush()
            uow._transaction.connection.execute("rollback")  # type: ignore[attr-defined]
            raise Unavailable(ProblemCode.STORAGE_FULL, "the disk is full; nothing was written")

    outcomes, effects = harness.commit.run_in_thread([decide(harness), Reads(), decide(harness)])
    assert [(result, type(error)) for result, error in outcomes] == [(None, Unavailable)] * 3
    assert effects == []
    [(taken, error)], _ = harness.commit.run_in_thread([decide(harness)])
    assert (taken.decision.round, error) == (1, None)
    with harness.store.reader() as reader:
        assert [one.round for one in reader.decisions((*harness.key, ""), 0, 10)] == [1]


@pytest.mark.parametrize(("n", "brief"), [(1, True), (3, False), *repeats((1, False), (3, True))])
def test_a_rollback_that_fails_is_survived(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch, n: int, brief: bool
) -> None:
    rollback = SqliteTransaction.rollback

    class Refuses:
        in_transaction = True

        def execute(self, statement: str) -> None:
            raise sqlite3.OperationalError(f"disk I/O error in {statement}")

    def refuse(transaction: SqliteTransaction) -> None:
        transaction.connection = Refuses()  # type: ignore[assignment]
        rollback(transaction)

    class Fails(WritesThenFails):
        def is_brief(self, uow: UnitOfWork) -> bool:
            return brief

    monkeypatch.setattr(SqliteTransaction, "rollback", refuse)
    broken = Fails(harness, RuntimeError("defect"))

    async def play() -> list[tuple[object, BaseException | None]]:
        asked = harness.commit.submit_together([broken, *(decide(harness) for _ in range(n - 1))])
        outcomes = await asyncio.wait_for(asked, 60)
        outcomes += await asyncio.wait_for(harness.commit.submit_together([decide(harness)]), 60)
        await harness.commit.close()
        return outcomes

    outcomes = asyncio.run(play())
    assert outcomes[0] == (None, broken.error)
    assert [taken.decision.round for taken, _ in outcomes[1:]] == list(range(1, n + 1))  # type: ignore[attr-defined]
    assert harness.session.n_rounds == n


def test_what_fails_outside_every_command_is_answered_too(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect = RuntimeError("can't start new thread")

    def broken(*_: object) -> None:
        raise defect

    async def play() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", broken)
            asked = harness.commit.submit_together([decide(harness)])
            assert await asyncio.wait_for(asked, 60) == [(None, defect)]
        with monkeypatch.context() as patch:
            patch.setattr(harness.commit, "_after_commit", broken)
            waiting = [harness.commit.submit_together([decide(harness)]) for _ in range(2)]
            answers = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        assert [taken.decision.round for [(taken, _)] in answers] == [1, 2]
        await harness.commit.close()

    asyncio.run(play())
    assert harness.session.n_rounds == 2
