"""Who waits for a transaction, and what the next one takes of them."""

import asyncio
from typing import Any

import pytest

from service.base.problems import Problem
from service.writer.command_queue import MOST_AT_ONCE, CommandQueue, Submission, outcomes_of

pytestmark = pytest.mark.anyio
BATCH = 512


def submission(n: int) -> Any:
    future = asyncio.get_running_loop().create_future()
    return Submission(list(range(n)), future)  # type: ignore[arg-type]


async def test_a_tenant_s_flood_leaves_every_transaction_open_to_others() -> None:
    """Twenty submissions of 1000 wait before another tenant's only one: that is in the next."""
    queue = CommandQueue(10**6)
    for _ in range(20):
        queue.put("flood", submission(1000))
    queue.put("quiet", one := submission(1))
    taken = queue.take(BATCH)
    assert one in [which for which, _ in taken]
    assert max(len(part) for _, part in taken) == MOST_AT_ONCE
    assert queue.n_commands == 20_001 - sum(len(part) for _, part in taken)


async def test_a_tenant_s_small_submission_does_not_wait_for_its_large_one() -> None:
    queue = CommandQueue(10**6)
    queue.put("", submission(1000))
    queue.put("", small := submission(2))
    assert small in [which for which, _ in queue.take(BATCH)]


async def test_commands_of_a_submission_run_in_their_order_and_are_answered_together() -> None:
    queue = CommandQueue(10**6)
    many, few = submission(300), submission(3)
    queue.put("a", many)
    queue.put("b", few)
    while queue.n_submissions:
        taken = queue.take(BATCH)
        ran = [command for _, part in taken for command in part]
        assert len({which for which, _ in taken}) == len(taken)  # one part of each
        for which, outcomes in outcomes_of(taken, ran):
            assert not which.future.done()
            which.settle(outcomes)
    assert await many.future == list(range(300))
    assert await few.future == list(range(3))
    assert queue.n_commands == 0


async def test_a_full_queue_refuses_whoever_fills_it() -> None:
    queue = CommandQueue(2000)
    queue.put("flood", submission(1000))
    queue.put("flood", submission(1000))
    with pytest.raises(Problem, match="too many"):
        queue.put("flood", submission(1))
    queue.put("quiet", submission(1))
    with pytest.raises(Problem, match="too many"):
        queue.put("flood", submission(1))
