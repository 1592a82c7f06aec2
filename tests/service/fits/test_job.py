"""What a fitting process does with the fit it is given."""

import multiprocessing
import os
import sys
import threading
import time
from functools import partial
from itertools import count
from typing import Any

import pytest

import service.fits.job
from service.fits.job import STARVED, in_idle_time, run_fit
from tests.service.service_harness import ServiceHarness


def policy() -> tuple[int, int]:
    return threading.get_ident(), os.sched_getscheduler(0)


@pytest.mark.skipif(sys.platform != "linux", reason="a policy of Linux")
def test_idle_time_is_a_thread_of_its_own() -> None:
    here, mine = policy()
    there, its = in_idle_time(policy, 3600.0)
    assert its == os.SCHED_IDLE != mine
    assert there != here
    assert policy() == (here, mine)


def test_what_work_raises_in_idle_time_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_idle_time(partial((1.0).__truediv__, 0.0), 3600.0)


def test_work_that_gets_its_time_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, looked_twice = count(), threading.Event()

    def process_time() -> float:
        now = next(seconds)
        if now > 2:
            looked_twice.set()
        return float(now)

    monkeypatch.setattr(service.fits.job.time, "process_time", process_time)
    assert in_idle_time(
        partial(looked_twice.wait, 60.0), 0.1
    )  # it ends as soon as it was looked at twice


def test_a_process_whose_work_found_no_idle_time_ends() -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=in_idle_time, args=(partial(time.sleep, 60.0), 0.05)
    )
    process.start()
    process.join(120)
    assert process.exitcode == STARVED


@pytest.mark.parametrize(
    ("refit", "idle_seconds", "used"),
    [("background", 3.0, [3.0]), ("background", 0.0, []), ("blocking", 3.0, [])],
)
def test_a_fit_that_a_decision_waits_for_waits_for_nobody(
    harness: ServiceHarness,
    monkeypatch: pytest.MonkeyPatch,
    refit: str,
    idle_seconds: float,
    used: list[float],
) -> None:
    asked: list[float] = []

    def noted(work: Any, seconds: float) -> Any:
        asked.append(seconds)
        return work()

    monkeypatch.setattr(service.fits.job, "in_idle_time", noted)
    harness.create(refit=refit, options={"L": 1})
    for _ in range(4):
        harness.decide()
        harness.reward(0.5, round=harness.session.n_rounds)
    answer = run_fit(f"sqlite:///{harness.store.path}", *harness.key, 4, idle_seconds)  # type: ignore[attr-defined]
    assert answer is not None
    assert answer.estimate is not None
    assert asked == used
