"""Whatever goes wrong around a commit, everybody is answered and the next commit works."""

import asyncio
import sqlite3
import threading

import pytest

from service.problems import Unavailable
from service.storage.sqlite.transaction import SqliteTransaction
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import Room
from tests.service.writer.sample_commands import WritesThenFails, decide


@pytest.fixture
def room(room: Room) -> Room:
    room.create(algorithm="uniform")
    return room


@pytest.mark.parametrize("always", [False, True])
def test_a_transaction_that_cannot_begin_is_answered(
    room: Room, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    begin, defect = room.store.begin, sqlite3.InternalError("defect")

    def refuse(*, wait: bool = True) -> object:
        if always or not wait:
            raise defect
        return begin(wait=wait)

    monkeypatch.setattr(room.store, "begin", refuse)

    async def play() -> list[tuple[object, BaseException | None]]:
        return await asyncio.wait_for(room.commit.submit_all([decide(room)]), 10)

    [(taken, error)] = asyncio.run(play())
    assert error is (defect if always else None)
    assert (taken is None) == always


def test_a_file_that_another_program_holds_stops_no_event_loop(room: Room) -> None:
    other = sqlite3.connect(room.store.path, isolation_level=None)  # type: ignore[attr-defined]

    async def play() -> None:
        other.execute("begin immediate")
        answer = room.commit.submit_all([decide(room)])
        for _ in range(10):
            await asyncio.sleep(0.005)
        assert not answer.done()
        assert room.commit.n_batches == 0
        other.execute("rollback")
        [(taken, error)] = await answer
        assert error is None
        assert taken.decision.round == 1
        await room.commit.close()

    asyncio.run(play())
    other.close()


def test_a_row_that_the_database_refuses_leaves_nothing_of_its_command(room: Room) -> None:
    class Twice:
        key = room.key

        def __call__(self, uow: UnitOfWork) -> None:
            uow.add_decision(decide(room)(uow).decision)  # type: ignore[union-attr]

    outcomes, _ = room.commit.run([decide(room), Twice(), decide(room)])
    assert isinstance(outcomes[1][1], sqlite3.IntegrityError)
    assert [outcomes[i][0].decision.round for i in (0, 2)] == [1, 2]
    with room.store.reader() as reader:
        assert [one.round for one in reader.decisions((*room.key, ""), 0, 10)] == [1, 2]
    assert room.session.n_rounds == 2


def test_what_the_database_undid_by_itself_is_not_acknowledged(room: Room) -> None:
    class Reads:
        """The disk is too full for what others in the batch wrote, when this has them flushed."""

        key = room.key

        def __call__(self, uow: UnitOfWork) -> None:
            uow.flush()
            uow._transaction.connection.execute("rollback")  # type: ignore[attr-defined]
            raise Unavailable("storage_full", "the disk is full; nothing was written")

    outcomes, effects = room.commit.run([decide(room), Reads(), decide(room)])
    assert [(result, type(error)) for result, error in outcomes] == [(None, Unavailable)] * 3
    assert effects == []
    [(taken, error)], _ = room.commit.run([decide(room)])
    assert (taken.decision.round, error) == (1, None)
    with room.store.reader() as reader:
        assert [one.round for one in reader.decisions((*room.key, ""), 0, 10)] == [1]


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("n", [1, 3])
def test_a_rollback_that_fails_is_survived(
    room: Room, monkeypatch: pytest.MonkeyPatch, n: int, brief: bool
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
    broken = Fails(room, RuntimeError("defect"))

    async def play() -> list[tuple[object, BaseException | None]]:
        asked = room.commit.submit_all([broken, *(decide(room) for _ in range(n - 1))])
        outcomes = await asyncio.wait_for(asked, 10)
        outcomes += await asyncio.wait_for(room.commit.submit_all([decide(room)]), 10)
        await room.commit.close()
        return outcomes

    outcomes = asyncio.run(play())
    assert outcomes[0] == (None, broken.error)
    assert [taken.decision.round for taken, _ in outcomes[1:]] == list(range(1, n + 1))  # type: ignore[attr-defined]
    assert room.session.n_rounds == n


def test_what_fails_outside_every_command_is_answered_too(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    defect = RuntimeError("can't start new thread")

    def broken(*_: object) -> None:
        raise defect

    async def play() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", broken)
            asked = room.commit.submit_all([decide(room)])
            assert await asyncio.wait_for(asked, 10) == [(None, defect)]
        with monkeypatch.context() as patch:
            patch.setattr(room.commit, "_after_commit", broken)
            waiting = [room.commit.submit_all([decide(room)]) for _ in range(2)]
            answers = await asyncio.wait_for(asyncio.gather(*waiting), 10)
        assert [taken.decision.round for [(taken, _)] in answers] == [1, 2]
        await room.commit.close()

    asyncio.run(play())
    assert room.session.n_rounds == 2
