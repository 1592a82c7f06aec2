"""Who waits for a transaction, and what the next one takes of them."""

import asyncio
from typing import Any, cast

import pytest

from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.commands.erase_trajectory import hide_trajectory
from service.commands.sessions import erase_feature
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
    """Twenty large submissions wait before another's thirty: all of these are in the next."""
    queue = CommandQueue(10**6)
    for _ in range(20):
        put(queue, "flood", PART)
    quiet = [(put(queue, "quiet", 1), 1) for _ in range(30)]
    commands, answers = queue.take(PART)
    assert answers[:30] == quiet
    assert len(commands) == PART
    assert queue.n_commands == 19 * PART
    assert queue.n_submissions == 50 - len(answers)


async def test_tenants_share_a_transaction_alike() -> None:
    """What one does not need is the others'; the last submission of a share is cut."""
    queue = CommandQueue(10**6)
    demand = (("a", 300), ("b", 10), ("c", 60), ("a", 5))
    a, b, c, more = (put(queue, name, n) for name, n in demand)
    commands, answers = queue.take(100)
    assert answers == [(b, 10), (c, 45), (a, 45)]
    assert commands == [
        f"{name}{i}" for name, n in (("b", 10), ("c", 45), ("a", 45)) for i in range(n)
    ]
    assert (queue.n_commands, queue.n_submissions) == (5, 1)
    assert queue.take(100) == (["a0", "a1", "a2", "a3", "a4"], [(more, 5)])
    assert queue.take(100) == ([], [])


async def test_a_transaction_of_few_commands_has_as_many_tenants_who_take_turns() -> None:
    queue = CommandQueue(10**6)
    put(queue, "large", 100)
    for name in ("x", "y", "z"):
        put(queue, name, 1)
    assert queue.take(2)[0] == ["x0", "large0"]
    put(queue, "x", 1)  # behind the others
    assert queue.take(2)[0] == ["y0", "z0"]


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
        hide_trajectory(key, "user"),
        void_decision(key, "", "event", cast(Any, None)),
        erase_feature(key, "name"),
    ]
    assert {command.whose() for command in of_session} == {"their-tenant"}
