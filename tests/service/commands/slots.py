"""What tests of sessions with a clock share: decisions at times, and totals of slots."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lhb_engine.history import FitWindow, History
from service.base.problems import Problem, ProblemCode
from service.session.fit_schedule import Watermark
from service.session.records import SessionRow
from tests.service.histories import read_history
from tests.service.service_harness import ServiceHarness

CLOCK = {"slot_seconds": 60, "start": 960.0, "totals": "all", "late_slots": 20}


def between(since: float, until: float) -> dict[str, datetime]:
    ends = (datetime.fromtimestamp(end, UTC) for end in (since, until))
    return dict(zip(("since", "until"), ends, strict=True))


def begin(harness: ServiceHarness, **more: Any) -> SessionRow:
    clock = {**CLOCK, **more.pop("clock", {})}
    return harness.create(algorithm="anytime", clock=clock, **more)


def history_of(harness: ServiceHarness, last: int, known: Watermark | None = None) -> History:
    window = FitWindow(1, 1, last, 4, last)
    with harness.store.reader() as reader:
        return read_history(reader, harness.session, window, known)


def sums(history: History, name: str = "") -> list[float]:
    """The first feature of each slot."""
    found: list[float] = history.trajectories[name].contexts[:, 0].tolist()
    return found


def taken(harness: ServiceHarness, *when: tuple[str, float]) -> None:
    """Decisions of trajectories at times, each for the first arm, whose context is (1, 0)."""
    for trajectory, at in when:
        harness.now = at
        harness.decide(trajectory, forced_arm=0)


def slot_totals(harness: ServiceHarness, first: int, last: int, value: float = 1.0) -> None:
    """A total for each slot from first to last, after the last is over."""
    harness.now = max(harness.now, 960.0 + 60 * last)
    for slot in range(first, last + 1):
        harness.reward(value, **between(900.0 + 60 * slot, 960.0 + 60 * slot))


def refused(harness: ServiceHarness, code: ProblemCode, field: str, **reward: Any) -> None:
    with pytest.raises(Problem) as caught:
        harness.reward(1.0, **reward)
    assert (caught.value.code, caught.value.field) == (code, field)
