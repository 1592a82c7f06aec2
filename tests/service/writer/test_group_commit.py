"""One transaction for many commands: neighbours do not suffer, nothing is half written."""

import asyncio
import threading
from dataclasses import replace

import pytest

from service.commands.decisions import Decide
from service.commands.rewards import Receive, Reward
from service.problems import Problem
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import CONTEXTS, Room
from tests.service.writer.sample_commands import WritesThenFails, decide


@pytest.fixture
def room(room: Room) -> Room:
    room.create(algorithm="uniform")
    return room


def test_a_bad_command_fails_alone(room: Room) -> None:
    unknown = Decide(("", "nobody"), "", CONTEXTS, room.agents)
    future = Receive(room.key, [Reward(1.0, "", round=9)], room.agents)
    outcomes, effects = room.commit.run([decide(room), unknown, decide(room), future, decide(room)])
    codes = [None if error is None else error.code for _, error in outcomes]  # type: ignore[attr-defined]
    assert codes == [None, "unknown_session", None, "future_round", None]
    assert len(effects) == 1
    assert [outcomes[i][0].decision.round for i in (0, 2, 4)] == [1, 2, 3]
    assert room.session.n_rounds == 3


@pytest.mark.parametrize("error", [Problem(409, "late", "late"), RuntimeError("defect")])
def test_a_command_that_wrote_and_failed_leaves_nothing(room: Room, error: Exception) -> None:
    batch = [decide(room), WritesThenFails(room, error), decide(room)]
    outcomes, effects = room.commit.run(batch)
    assert outcomes[1][1] is error
    assert [outcomes[i][0].decision.round for i in (0, 2)] == [1, 2]
    assert len(effects) == 2
    assert room.session.n_rounds == 2
    with room.store.reader() as reader:
        assert [d.round for d in reader.decisions((*room.key, ""), 0, 9)] == [1, 2]


def test_two_equal_ids_in_one_batch_get_one_answer(room: Room) -> None:
    outcomes, _ = room.commit.run([decide(room, "a"), decide(room, "a"), decide(room, "b")])
    first, second, third = (result for result, _ in outcomes)
    assert first.decision == second.decision
    assert (first.is_new, second.is_new, third.is_new) == (True, False, True)
    assert room.session.n_rounds == 2


def test_one_id_with_two_bodies_in_one_batch_is_a_conflict(room: Room) -> None:
    other = decide(room, "a")
    other.digest = b"another body"
    outcomes, _ = room.commit.run([decide(room, "a"), other])
    error = outcomes[1][1]
    assert isinstance(error, Problem)
    assert (error.status, error.code) == (409, "event_conflict")


def test_a_reward_may_follow_its_decision_in_the_same_batch(room: Room) -> None:
    reward = Receive(room.key, [Reward(1.5, "", event_id="a")], room.agents)
    again = Receive(room.key, [Reward(1.5, "", event_id="a")], room.agents)
    other = Receive(room.key, [Reward(2.5, "", event_id="a")], room.agents)
    outcomes, _ = room.commit.run([decide(room, "a"), reward, again, other])
    assert (outcomes[1][0].accepted, outcomes[2][0].accepted) == (1, 0)
    assert isinstance(outcomes[3][1], Problem)


def test_a_cancelled_client_loses_only_the_answer(room: Room) -> None:
    async def play() -> None:
        room.commit.submit_all([decide(room, "a")]).cancel()
        again = await room.commit.submit(decide(room, "a"))
        assert not again.is_new
        await room.commit.close()

    asyncio.run(play())
    assert room.session.n_rounds == 1


def test_what_waits_is_committed_together_and_before_closing(room: Room) -> None:
    async def play() -> list[int]:
        futures = [room.commit.submit_all([decide(room)]) for _ in range(50)]
        await room.commit.close()
        return [future.result()[0][0].decision.round for future in futures]

    assert asyncio.run(play()) == list(range(1, 51))
    assert room.commit.n_batches <= 2


def test_a_full_queue_says_so(room: Room) -> None:
    room.commit._max_queue = 2

    async def play() -> None:
        for _ in range(2):
            room.commit.submit_all([decide(room)])
        with pytest.raises(Problem) as caught:
            await room.commit.submit(decide(room))
        assert (caught.value.status, caught.value.retry_after) == (503, 1)
        await room.commit.close()

    asyncio.run(play())


def test_a_rollback_takes_memory_back_with_it(room: Room) -> None:
    room.run(decide(room))
    before = replace(room.session)
    with pytest.raises(RuntimeError):
        room.run(WritesThenFails(room, RuntimeError("defect")))
    assert room.session == before
    assert room.decide().round == 2


class Slow:
    """A command that says nothing of how long it takes."""

    def __init__(self) -> None:
        self.thread = ""

    def __call__(self, uow: UnitOfWork) -> str:
        self.thread = threading.current_thread().name
        return self.thread


class Brief(Slow):
    """A command that says it is brief."""

    def is_brief(self, uow: UnitOfWork) -> bool:
        """It is."""
        return True


def test_brief_commands_run_in_the_event_loop_and_the_rest_in_the_thread(room: Room) -> None:
    async def play(*commands: Slow) -> list[bool]:
        outcomes = await room.commit.submit_all(list(commands))
        assert [result for result, _ in outcomes] == [command.thread for command in commands]
        return [command.thread.startswith("writer") for command in commands]

    async def play_all() -> None:
        assert await play(Brief(), Brief()) == [False, False]
        assert await play(Slow(), Slow()) == [True, True]
        assert await play(Brief(), Slow(), Brief()) == [False, True, True]
        await room.commit.close()

    asyncio.run(play_all())


def test_a_batch_that_takes_too_long_goes_on_in_the_thread(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.writer.group_commit.BRIEF_SECONDS", -1.0)
    command = Brief()

    async def play() -> None:
        await room.commit.submit(command)
        await room.commit.close()

    asyncio.run(play())
    assert command.thread.startswith("writer")


@pytest.mark.parametrize("error", [Problem(409, "late", "late"), RuntimeError("defect")])
def test_what_was_begun_in_the_event_loop_leaves_nothing_either(
    room: Room, error: Exception
) -> None:
    class BriefWrites(WritesThenFails):
        def is_brief(self, uow: UnitOfWork) -> bool:
            return True

    async def play() -> list[tuple[object, BaseException | None]]:
        return await room.commit.submit_all([decide(room), BriefWrites(room, error), decide(room)])

    outcomes = asyncio.run(play())
    assert outcomes[1][1] is error
    assert [outcomes[i][0].decision.round for i in (0, 2)] == [1, 2]  # type: ignore[attr-defined]
    assert room.session.n_rounds == 2


def test_boundaries_long_lists_and_learners_are_not_brief(room: Room) -> None:
    def is_brief(command: Decide | Receive) -> bool:
        transaction = room.store.begin()
        try:
            return command.is_brief(UnitOfWork(transaction, room.now))
        finally:
            transaction.rollback()

    def receive(n: int) -> Receive:
        return Receive(room.key, [Reward(1.0, "", round=1)] * n, room.agents)

    assert is_brief(decide(room))
    assert is_brief(receive(2))
    assert not is_brief(receive(1000))
    room.create(algorithm="ucb_mp")
    assert is_brief(decide(room))
    assert not is_brief(receive(1))
    room.create(algorithm="ad_lasso")  # its first window is due with round 4
    room.rounds(2)
    assert is_brief(decide(room))
    room.rounds(1)
    assert not is_brief(decide(room))
    assert not is_brief(receive(1))
