"""Threads that read give way to the event loop, which needs the GIL many times for a decision.

A thread that computes keeps the GIL until another has waited for 5 ms, and every statement of
SQLite gives it away. So beside threads that read, a decision would wait for a multiple of 5 ms. A
thread that reads therefore sleeps after every half millisecond of its processor time, and all such
threads together take half of the time at most.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
SLICE_SECONDS = 0.0005
LOOK_EVERY = 8  # items between two looks at the thread's clock, which is a system call


class _Reading(threading.local):
    until: float | None = None  # processor time at which this thread sleeps; None: it never does


_reading = _Reading()
_lock = threading.Lock()
_n_reading = 0


def read_giving_way(work: Callable[[], T]) -> T:
    """Run a function that reads; its `giving_way` loops pause."""
    global _n_reading
    with _lock:
        _n_reading += 1
    _reading.until = time.thread_time() + SLICE_SECONDS
    try:
        return work()
    finally:
        _reading.until = None
        with _lock:
            _n_reading -= 1


def giving_way(items: Iterable[T]) -> Iterator[T]:
    """Iterate over items; in a thread that runs `read_giving_way`, pause in between."""
    return iter(items) if _reading.until is None else _pausing(items)


def _pausing(items: Iterable[T]) -> Iterator[T]:
    for i, item in enumerate(items):
        if i % LOOK_EVERY == 0:
            _pause()
        yield item


def _pause() -> None:
    """Sleep if this thread's slice is over; with n threads, 2n - 1 times as long as a slice."""
    until = _reading.until
    if until is not None and time.thread_time() > until:
        time.sleep(SLICE_SECONDS * (2 * _n_reading - 1))
        _reading.until = time.thread_time() + SLICE_SECONDS
