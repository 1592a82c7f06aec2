"""One transaction for many commands: neighbours do not suffer, nothing is half written."""

import asyncio
import threading
from dataclasses import replace
from time import thread_time

import pytest

from service.base.problems import Problem, ProblemCode
from service.commands.decisions import Decide
from service.commands.limits import NO_LIMITS
from service.commands.rewards import ReceiveRewards
from service.rounds.reward import Reward
from service.storage.ports import KnownRows
from service.writer.command import Command
from service.writer.command_queue import CommandQueue
from service.writer.unit_of_work import UnitOfWork
from tests.service.service_harness import CONTEXTS, ServiceHarness
from tests.service.writer.sample_commands import WritesThenFails, decide


@pytest.fixture
def harness(harness: ServiceHarness) -> ServiceHarness:
    harness.create(algorithm="uniform")
    return harness


def test_a_bad_command_fails_alone(harness: ServiceHarness) -> None:
    unknown = Decide(("", "nobody"), harness.agents, NO_LIMITS, "", CONTEXTS)
    future = ReceiveRewards(harness.key, [Reward(1.0, "", round=9)], harness.agents)
    outcomes, effects = harness.commit.run_in_thread(
        [decide(harness), unknown, decide(harness), future, decide(harness)]
    )
    codes = [None if error is None else error.code for _, error in outcomes]  # type: ignore[attr-defined]
    assert codes == [None, "unknown_session", None, "future_round", None]
    assert len(effects) == 1
    assert [outcomes[i][0].decision.round for i in (0, 2, 4)] == [1, 2, 3]
    assert harness.session.n_rounds == 3


@pytest.mark.parametrize("error", [Problem(ProblemCode.ARCHIVED, "late"), RuntimeError("defect")])
def test_a_command_that_wrote_and_failed_leaves_nothing(
    harness: ServiceHarness, error: Exception
) -> None:
    batch = [decide(harness), WritesThenFails(harness, error), decide(harness)]
    outcomes, effects = harness.commit.run_in_thread(batch)
    assert outcomes[1][1] is error
    assert [outcomes[i][0].decision.round for i in (0, 2)] == [1, 2]
    assert len(effects) == 2
    assert harness.session.n_rounds == 2
    with harness.store.reader() as reader:
        assert [d.round for d in reader.decisions((*harness.key, ""), 0, 9)] == [1, 2]


def test_two_equal_ids_in_one_batch_get_one_answer(harness: ServiceHarness) -> None:
    outcomes, _ = harness.commit.run_in_thread(
        [decide(harness, "a"), decide(harness, "a"), decide(harness, "b")]
    )
    first, second, third = (result for result, _ in outcomes)
    assert first.decision == second.decision
    assert (first.is_new, second.is_new, third.is_new) == (True, False, True)
    assert harness.session.n_rounds == 2


def test_one_id_with_two_bodies_in_one_batch_is_a_conflict(harness: ServiceHarness) -> None:
    other = decide(harness, "a")
    other.digest = b"another body"
    outcomes, _ = harness.commit.run_in_thread([decide(harness, "a"), other])
    error = outcomes[1][1]
    assert isinstance(error, Problem)
    assert (error.status, error.code) == (409, "event_conflict")


def test_a_reward_may_follow_its_decision_in_the_same_batch(harness: ServiceHarness) -> None:
    reward = ReceiveRewards(harness.key, [Reward(1.5, "", event_id="a")], harness.agents)
    again = ReceiveRewards(harness.key, [Reward(1.5, "", event_id="a")], harness.agents)
    other = ReceiveRewards(harness.key, [Reward(2.5, "", event_id="a")], harness.agents)
    outcomes, _ = harness.commit.run_in_thread([decide(harness, "a"), reward, again, other])
    assert (outcomes[1][0].accepted, outcomes[2][0].accepted) == (1, 0)
    assert isinstance(outcomes[3][1], Problem)


def test_a_cancelled_client_loses_only_the_answer(harness: ServiceHarness) -> None:
    async def play() -> None:
        harness.commit.submit_together([decide(harness, "a")]).cancel()
        again = await harness.commit.submit(decide(harness, "a"))
        assert not again.is_new
        await harness.commit.close()

    asyncio.run(play())
    assert harness.session.n_rounds == 1


def test_what_waits_is_committed_together_and_before_closing(harness: ServiceHarness) -> None:
    async def play() -> list[int]:
        futures = [harness.commit.submit_together([decide(harness)]) for _ in range(50)]
        await harness.commit.close()
        return [future.result()[0][0].decision.round for future in futures]

    assert asyncio.run(play()) == list(range(1, 51))
    assert harness.commit.n_batches <= 2


def test_a_request_of_many_commands_counts_as_one_that_waits(harness: ServiceHarness) -> None:
    """As many are counted as are begun: their time on the processor is measured a request."""

    async def play() -> None:
        assert harness.commit.committing() == (0, 0.0)
        for _ in range(3):
            harness.commit.submit_together([decide(harness) for _ in range(20)])
        assert harness.commit.committing() == (3, 0.0)
        await asyncio.sleep(0)  # the batch begins
        assert harness.commit.committing() == (3, 0.0)
        await harness.commit.close()
        assert harness.commit.committing() == (0, 0.0)

    asyncio.run(play())


def test_a_full_queue_says_so(harness: ServiceHarness) -> None:
    harness.commit._queue = CommandQueue(2)

    async def play() -> None:
        for _ in range(2):
            harness.commit.submit_together([decide(harness)])
        with pytest.raises(Problem) as caught:
            await harness.commit.submit(decide(harness))
        assert (caught.value.status, caught.value.retry_after) == (503, 1)
        await harness.commit.close()

    asyncio.run(play())


def test_a_rollback_takes_memory_back_with_it(harness: ServiceHarness) -> None:
    harness.run(decide(harness))
    before = replace(harness.session)
    with pytest.raises(RuntimeError):
        harness.run(WritesThenFails(harness, RuntimeError("defect")))
    assert harness.session == before
    assert harness.decide().round == 2


class Slow(Command[str]):
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


def test_brief_commands_run_in_the_event_loop_and_the_rest_in_the_thread(
    harness: ServiceHarness,
) -> None:
    async def play(*commands: Slow) -> list[bool]:
        outcomes = await harness.commit.submit_together(list(commands))
        assert [result for result, _ in outcomes] == [command.thread for command in commands]
        return [command.thread.startswith("writer") for command in commands]

    async def play_all() -> None:
        assert await play(Brief(), Brief()) == [False, False]
        assert await play(Slow(), Slow()) == [True, True]
        assert await play(Brief(), Slow(), Brief()) == [False, True, True]
        await harness.commit.close()

    asyncio.run(play_all())


def test_a_batch_that_takes_too_long_goes_on_in_the_thread(harness: ServiceHarness) -> None:
    harness.commit._size.brief_seconds = -1.0
    command = Brief()

    async def play() -> None:
        await harness.commit.submit(command)
        await harness.commit.close()

    asyncio.run(play())
    assert command.thread.startswith("writer")


@pytest.mark.parametrize("error", [Problem(ProblemCode.ARCHIVED, "late"), RuntimeError("defect")])
def test_what_was_begun_in_the_event_loop_leaves_nothing_either(
    harness: ServiceHarness, error: Exception
) -> None:
    class BriefWrites(WritesThenFails):
        def is_brief(self, uow: UnitOfWork) -> bool:
            return True

    async def play() -> list[tuple[object, BaseException | None]]:
        return await harness.commit.submit_all(
            [decide(harness), BriefWrites(harness, error), decide(harness)]
        )

    outcomes = asyncio.run(play())
    assert outcomes[1][1] is error
    assert [outcomes[i][0].decision.round for i in (0, 2)] == [1, 2]  # type: ignore[attr-defined]
    assert harness.session.n_rounds == 2


def is_brief(harness: ServiceHarness, command: Decide | ReceiveRewards) -> bool:
    transaction = harness.store.begin()
    try:
        return command.is_brief(UnitOfWork(transaction, KnownRows(), harness.now))
    finally:
        transaction.rollback()


def test_boundaries_long_lists_and_learners_are_not_brief(harness: ServiceHarness) -> None:
    def receive(n: int) -> ReceiveRewards:
        return ReceiveRewards(harness.key, [Reward(1.0, "", round=1)] * n, harness.agents)

    assert is_brief(harness, decide(harness))
    assert is_brief(harness, receive(2))
    assert not is_brief(harness, receive(1000))
    harness.create(algorithm="ucb_mp")
    assert is_brief(harness, decide(harness))
    assert not is_brief(harness, receive(1))
    harness.create(algorithm="ad_lasso")  # its first window is due with round 4
    harness.rounds(2)
    assert is_brief(harness, decide(harness))
    harness.rounds(1)
    assert not is_brief(harness, decide(harness))
    assert not is_brief(harness, receive(1))


def test_decisions_are_brief_while_a_window_waits_for_its_rewards(harness: ServiceHarness) -> None:
    """As it does where rewards come late: then most decisions are taken meanwhile."""
    harness.create(algorithm="ad_lasso", reward_wait_seconds=60.0)
    harness.rounds(4, rewarded=False)  # the window is due with round 4
    assert not is_brief(harness, decide(harness))  # the first decision after it sets the time
    harness.rounds(1, rewarded=False)
    assert is_brief(harness, decide(harness))
    reward = Reward(1.0, "", round=2)
    with_reward = decide(harness)
    with_reward.rewards = [reward]
    for one in (with_reward, ReceiveRewards(harness.key, [reward], harness.agents)):
        assert not is_brief(harness, one)  # it may complete the window
    harness.now += 60.0
    assert not is_brief(harness, decide(harness))


def test_a_caller_s_many_commands_leave_room_for_another_s(harness: ServiceHarness) -> None:
    """A batch of 1000 waits when another decision comes: that is in the next transaction."""

    async def play() -> tuple[list[int], int]:
        many = asyncio.ensure_future(
            harness.commit.submit_all([decide(harness, f"{i}") for i in range(1000)])
        )
        await asyncio.sleep(0)  # it is in the queue
        one = await harness.commit.submit(decide(harness, "one"))
        n_before = harness.commit.n_commands
        rounds = [taken.decision.position for taken, _ in await many]
        await harness.commit.close()
        assert one.decision.position not in rounds
        return rounds, n_before

    rounds, n_before = asyncio.run(play())
    assert n_before <= 256
    assert rounds == sorted(rounds)
    assert len(rounds) == 1000


class Costs(Command[None]):
    """A command that takes so much of a processor."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, uow: UnitOfWork) -> None:
        until = thread_time() + self.seconds
        while thread_time() < until:
            pass


def test_another_s_decision_waits_for_no_long_transaction(harness: ServiceHarness) -> None:
    """Whatever the commands of a flood cost, few of them are in a transaction."""
    taken: list[int] = []
    harness.commit.on_batch = lambda seconds, n: taken.append(n)

    async def play() -> None:
        flood = [Costs(harness.store.transaction_seconds / 4) for _ in range(200)]
        await asyncio.gather(*(harness.commit.submit_all(list(flood)) for _ in range(3)))
        await harness.commit.close()

    asyncio.run(play())
    assert sum(taken) == 600
    assert max(taken[3:]) <= 4  # those of three callers were queued before any had run
    assert len(taken) < 600  # and not each by itself
