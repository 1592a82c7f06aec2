"""Who waits for a transaction, and what the next one takes of them."""

import asyncio
from typing import Any, cast

import pytest

from service.base.problems import Problem
from service.commands.erase_feature import EraseFeature
from service.commands.erase_trajectory import EraseTrajectory
from service.commands.void_decision import VoidDecision
from service.writer.command import Command
from service.writer.command_queue import Answer, CommandQueue

pytestmark = pytest.mark.anyio
BATCH = 512
PART = 128


def put(queue: CommandQueue, tenant: str, n: int) -> Answer:
    answer: Answer = asyncio.get_running_loop().create_future()
    commands: Any = [f"{tenant}{i}" for i in range(n)]
    queue.put(tenant, commands, answer)
    return answer


async def test_a_tenant_s_flood_leaves_every_transaction_open_to_others() -> None:
    """Twenty large submissions wait before another tenant's only one: that is in the next."""
    queue = CommandQueue(10**6)
    for _ in range(20):
        put(queue, "flood", PART)
    quiet = put(queue, "quiet", 1)
    commands, answers = queue.take(BATCH)
    assert answers[1] == (quiet, 1)
    assert commands[PART] == "quiet0"
    assert queue.n_commands == 20 * PART + 1 - len(commands)
    assert queue.n_submissions == 21 - len(answers)


async def test_submissions_are_taken_whole_and_in_their_order() -> None:
    queue = CommandQueue(10**6)
    waiting = [(put(queue, tenant, n), n) for tenant, n in (("a", 300), ("b", 3), ("a", 300))]
    commands, answers = queue.take(BATCH)
    assert answers == waiting[:2]
    assert commands == [f"{name}{i}" for name, n in (("a", 300), ("b", 3)) for i in range(n)]
    assert (queue.n_commands, queue.n_submissions) == (300, 1)
    commands, answers = queue.take(100)  # larger than a transaction: alone
    assert answers == waiting[2:]
    assert commands == [f"a{i}" for i in range(300)]
    assert (queue.n_commands, queue.n_submissions) == (0, 0)
    assert queue.take(BATCH) == ([], [])


async def test_what_has_no_place_is_the_first_of_the_next() -> None:
    """Small submissions come again and again, and a large one waits behind one of them alone."""
    queue = CommandQueue(10**6)
    put(queue, "small", 1)
    large = put(queue, "large", 100)
    for n in range(2):
        put(queue, "small", 1)
        _, answers = queue.take(100)
        assert ((large, 100) in answers) == (n == 1)


async def test_a_full_queue_refuses_whoever_fills_it() -> None:
    queue = CommandQueue(2000)
    put(queue, "flood", 1000)
    queue.refuse_more_than_a_share("flood")
    put(queue, "flood", 1000)
    with pytest.raises(Problem, match="too many"):
        queue.refuse_more_than_a_share("flood")
    queue.refuse_more_than_a_share("quiet")
    put(queue, "quiet", 1)
    with pytest.raises(Problem, match="too many"):
        queue.refuse_more_than_a_share("flood")


def test_what_a_tenant_s_session_is_asked_takes_that_tenant_s_turn() -> None:
    """The turn of "" is the service's own."""
    key: Any = ("their-tenant", "session")
    of_session: list[Command[Any]] = [
        EraseTrajectory(key, "user"),
        VoidDecision(key, "", "event", cast(Any, None)),
        EraseFeature(key, "name"),
    ]
    assert {command.whose() for command in of_session} == {"their-tenant"}
