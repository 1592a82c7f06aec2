"""What the writer's queue is expected to take, against what it takes: a queue that is played."""

from collections import deque

import numpy as np
import pytest

from service.writer.command_queue import BatchSize, BatchTimes

N_CLIENTS, LIMIT = (
    64,
    0.25,
)  # clients that ask again as soon as they are answered; a limit's default


class Queue:
    """One transaction at a time, by a clock of its own; clients wait for their answers."""

    def __init__(self, max_batch: int, seconds: list[float]) -> None:
        self.now = 0.0
        self.times = BatchTimes(lambda: self.now)
        self.expected: list[float] = []
        self.waited: list[float] = []
        waiting: deque[tuple[float, float]] = deque()
        for each in seconds:
            while len(waiting) < N_CLIENTS:  # the batch's clients ask again, one after another
                expected = self.times.wait_behind(len(waiting), len(waiting))
                waiting.append((self.now, expected))
            self.times.begin(max_batch)
            for _ in range(max_batch):
                asked, expected = waiting.popleft()
                self.expected.append(expected)
                self.waited.append(self.now - asked)
            self.now += each


def lognormal(n: int, mean: float, spread: float, seed: int) -> list[float]:
    drawn = np.random.default_rng(seed).lognormal(0.0, spread, n)
    return list(mean * drawn / np.exp(spread**2 / 2))


@pytest.mark.parametrize("max_batch", [1, 4])
def test_the_expected_wait_is_what_is_waited(max_batch: int) -> None:
    """Commits vary as those of a busy machine: 0.18 s are waited, so nobody is refused at 0.25."""
    seconds = lognormal(4000, 0.18 / N_CLIENTS * max_batch, 0.4, seed=7)
    queue = Queue(max_batch, seconds)
    expected, waited = np.array(queue.expected[100:]), np.array(queue.waited[100:])
    assert np.median(waited) == pytest.approx(0.18, rel=0.1)
    assert expected.mean() == pytest.approx(waited.mean(), rel=0.1)
    assert np.mean(expected > LIMIT) < 0.01
    assert np.sqrt(np.mean((expected - waited) ** 2)) < 0.2 * waited.mean()


def test_a_stall_is_one_transactions() -> None:
    seconds = [0.002] * 400
    seconds[200] = 1.0  # a sync that takes long
    queue = Queue(1, seconds)
    refused = np.array(queue.expected) > LIMIT
    assert not refused[:200].any()
    assert not refused[201 + N_CLIENTS :].any()  # those who come after it are not refused


def test_a_slower_disk_is_believed() -> None:
    queue = Queue(1, [0.001] * 100 + [0.01] * 200)
    assert queue.expected[99] == pytest.approx(0.063, rel=0.05)
    assert queue.expected[-1] == pytest.approx(0.63, rel=0.05)


def test_the_transaction_under_way_counts_once() -> None:
    clock = [0.0]
    times = BatchTimes(lambda: clock[0])
    for at in (1.0, 1.1, 1.2):
        clock[0] = at
        times.begin(2)
    clock[0] = 1.25
    assert times.wait_behind(1, 1) == 0.0  # it fills no batch: it waits for the disk alone
    assert times.wait_behind(6, 6) == pytest.approx(0.05 + 3 * 0.1)
    clock[0] = 6.2
    assert times.wait_behind(6, 6) == pytest.approx(5.0 + 3 * 0.1)
    assert times.wait_behind(2, 2000) == pytest.approx(5.0 + 2 * 0.1)  # each fills a batch alone
    times.rest()
    assert times.seconds_under_way == 0.0


def test_a_long_command_now_and_then_refuses_nobody() -> None:
    """A transaction after it takes one command, the next ones more and more: all are brief."""
    clock = [0.0]
    times, size = BatchTimes(lambda: clock[0]), BatchSize(256, 0.0015)
    waits = []
    for i in range(400):
        n, each = (1, 0.02) if i % 60 == 59 else (size.n_commands, 0.00003)
        times.begin(size.n_commands)
        clock[0] += 0.003 + n * each
        size.note(n, n * each)
        waits.append(times.wait_behind(N_CLIENTS, N_CLIENTS))
    assert max(waits) < LIMIT
