"""Random operations on the service and on a model of it that fits on two pages; both agree."""

import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lhb_engine.agents.fit_windows import ad_windows
from lhb_engine.history import FitWindow
from service.base.problems import Problem
from service.session.fit_schedule import Watermark
from tests.examples import examples
from tests.service.histories import read_history
from tests.service.service_harness import OK, ZERO, ServiceHarness

NAMES = st.sampled_from(["", "b"])
VALUES = st.sampled_from([0.0, 1.5, -2.0])
HORIZON = 4


@dataclass
class Model:
    """One ad_lasso session, single rewards, no waiting time (docs/architecture.md, A fit)."""

    rounds: dict[str, list[int]] = field(default_factory=dict)  # positions of each trajectory
    values: dict[tuple[str, int], tuple[int, int, float]] = field(default_factory=dict)
    earlier: dict[tuple[str, int], set[float]] = field(default_factory=dict)  # corrected since
    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    n_rounds: int = 0
    model_version: int = 0
    open: list[FitWindow] = field(default_factory=list)
    current: int | None = None
    waiting: list[int] = field(default_factory=list)
    fits: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schedule = ad_windows(HORIZON, 1)
        self.open.append(next(self.schedule))

    def decide(self, name: str) -> int:
        self.n_rounds += 1
        self.rounds.setdefault(name, []).append(self.n_rounds)
        while self.n_rounds >= self.open[-1].due:
            self.open.append(next(self.schedule))
        self.mark_due()
        return len(self.rounds[name])

    def reward(self, name: str, first: int, last: int, value: float) -> str:
        if first < 1:
            return "unknown_round"
        if first > len(self.rounds.get(name, ())) or last > len(self.rounds.get(name, ())):
            return "future_round"
        if last < first:
            return "last_before_first"
        known = {self.values[name, r] for r in range(first, last + 1) if (name, r) in self.values}
        if known:
            said = self.earlier.get((name, first), set())
            is_same = {one[:2] for one in known} == {(first, last)} and len(known) == 1
            is_said = is_same and value in said | {one[2] for one in known}
            return "repeated" if is_said else "reward_conflict"
        for round in range(first, last + 1):
            self.values[name, round] = (first, last, value)
        self.mark_due()
        return "accepted"

    def correct(self, name: str, first: int, last: int, value: float) -> str:
        if first < 1:
            return "unknown_round"
        if first > len(self.rounds.get(name, ())) or last > len(self.rounds.get(name, ())):
            return "future_round"
        if last < first:
            return "last_before_first"
        known = {self.values.get((name, r)) for r in range(first, last + 1)}
        if known == {None}:
            return "unknown_reward"
        if None in known or {one[:2] for one in known if one} != {(first, last)}:
            return "reward_conflict"
        for round in range(first, last + 1):
            self.earlier.setdefault((name, first), set()).add(self.values[name, round][2])
            self.values[name, round] = (first, last, value)
        return "accepted"

    def mark_due(self) -> None:
        measured = {self.rounds[name][round - 1] for name, round in self.values}
        for window in list(self.open):
            complete = all(p in measured for p in range(window.first, window.last + 1))
            overdue = self.n_rounds > window.due
            if self.n_rounds >= window.due and (complete or overdue):
                self.open.remove(window)
                self.waiting.append(window.due)
        self.start()

    def start(self) -> None:
        if self.current is None and self.waiting:
            self.current = max(self.waiting)
            self.waiting.remove(self.current)

    def finish(self, yields: bool) -> None:
        assert self.current is not None
        due, self.current = self.current, None
        self.fits.append((due, "ok" if yields else "zero"))
        self.model_version += yields
        for other in sorted(w for w in self.waiting if w < due):
            self.waiting.remove(other)
            self.fits.append((other, "skipped"))
        for window in [w for w in self.open if w.due < due]:
            self.open.remove(window)
            self.fits.append((window.due, "skipped"))
        self.start()


class Machine(RuleBasedStateMachine):
    """Every rule does the same to both, and compares what they say."""

    harness_type: type[ServiceHarness] = ServiceHarness

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.harness = self.harness_type(Path(self.folder.name))
        self.harness.create(horizon=HORIZON, options={"L": 1})
        self.model = Model()
        self.n_corrections = 0

    @rule(name=NAMES)
    def decide(self, name: str) -> None:
        before = self.model.model_version
        decision = self.harness.decide(name)
        assert decision.round == self.model.decide(name)
        assert decision.position == self.model.n_rounds
        assert decision.model_version == before

    @rule(name=NAMES, n=st.integers(2, 30), rewarded=st.booleans())
    def play(self, name: str, n: int, rewarded: bool) -> None:
        for _ in range(n):
            self.decide(name)
            round = len(self.model.rounds[name])
            if rewarded:
                self._reward(name, round, round, 1.5, round=round)
                self.they_agree()

    @rule(name=NAMES, event=st.sampled_from("xyz"), body=st.booleans())
    def decide_by_event(self, name: str, event: str, body: bool) -> None:
        digest = b"1" if body else b"2"
        known = self.model.answers.get((name, event))
        if known is not None and known.digest != digest:
            with pytest.raises(Problem, match="another body"):
                self.harness.decide(name, event_id=event, digest=digest)
            return
        decision = self.harness.decide(name, event_id=event, digest=digest)
        if known is None:
            assert decision.round == self.model.decide(name)
            self.model.answers[name, event] = decision
        else:
            assert decision == known

    @rule(name=NAMES, round=st.integers(0, 40), value=VALUES)
    def reward(self, name: str, round: int, value: float) -> None:
        self._reward(name, round, round, value, round=round)

    @rule(name=NAMES, first=st.integers(1, 30), length=st.integers(-1, 6), value=VALUES)
    def reward_span(self, name: str, first: int, length: int, value: float) -> None:
        last = first + length
        self._reward(name, first, last, value, first_round=first, last_round=last)

    @rule(name=NAMES, first=st.integers(0, 30), length=st.integers(-1, 2), value=VALUES)
    def correct(self, name: str, first: int, length: int, value: float) -> None:
        last = first + max(length, 0) if first < 1 else first + length
        when = {"round": first} if last == first else {"first_round": first, "last_round": last}
        self.n_corrections += 1
        try:
            self.harness.reward(
                value, name, correct=True, reward_id=f"c{self.n_corrections}", **when
            )
            said = "accepted"
        except Problem as problem:
            said = problem.code
        if last >= 1 or first < 1:
            assert said == self.model.correct(name, first, last, value)

    @rule(name=NAMES, value=VALUES)
    @precondition(lambda self: self.model.n_rounds > 0)
    def reward_all_that_is_missing(self, name: str, value: float) -> None:
        for round in range(1, len(self.model.rounds.get(name, ())) + 1):
            if (name, round) not in self.model.values:
                self._reward(name, round, round, value, round=round)

    def _reward(self, name: str, first: int, last: int, value: float, **when: int) -> None:
        if last < 1 and first >= 1:
            return  # which of two faults is named first is not the model's business
        try:
            accepted = self.harness.reward(value, name, **when)
            said = "accepted" if accepted.accepted else "repeated"
        except Problem as problem:
            said = problem.code
        assert said == self.model.reward(name, first, last, value)

    @rule(yields=st.booleans())
    @precondition(lambda self: self.model.current is not None)
    def finish_fit(self, yields: bool) -> None:
        self.harness.finish(self.model.current, OK if yields else ZERO)
        self.model.finish(yields)

    @rule()
    def restart(self) -> None:
        key = self.harness.key
        self.harness.close()
        self.harness = self.harness_type(Path(self.folder.name))
        self.harness.key = key

    @invariant()
    def they_agree(self) -> None:
        session = self.harness.session
        schedule = session.schedule
        assert (session.n_rounds, session.model_version) == (
            self.model.n_rounds,
            self.model.model_version,
        )
        assert session.fit_due == self.model.current
        assert sorted(due.key for due in schedule.waiting) == sorted(self.model.waiting)
        assert [w.window for w in schedule.open] == self.model.open
        assert [(record.due, record.status) for record in self.harness.estimates] == self.model.fits

    def teardown(self) -> None:
        """What was measured is what a fit would read; store and folder go even if not."""
        with self.folder, closing(self.harness):
            self.check_what_is_left()

    def check_what_is_left(self) -> None:
        session = self.harness.session
        if session.n_rounds:
            window = FitWindow(1, 1, session.n_rounds, HORIZON, session.n_rounds)
            known = Watermark(10**6, 10**6, 0.0)
            with self.harness.store.reader() as reader:
                history = read_history(reader, session, window, known)
            for name, part in history.trajectories.items():
                expected = sorted({v for (n, _), v in self.model.values.items() if n == name})
                read = part.measurements
                rows = zip(read.first, read.last, read.value, strict=True)
                assert [tuple(map(float, row)) for row in rows] == [
                    tuple(map(float, row)) for row in expected
                ]
                np.testing.assert_array_equal(part.numbering, self.model.rounds[name])


TestService = Machine.TestCase
TestService.settings = settings(
    max_examples=examples(25),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
