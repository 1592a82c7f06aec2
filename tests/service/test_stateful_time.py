"""Random operations under a clock that the test turns: sums, defaults, waits, failures, archives.

The model is the rules of docs/architecture.md, A reward and A fit, written out by brute force;
trajectories, a restart and spans are in test_stateful.
"""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lhb_engine.agents.fit_windows import ad_windows
from lhb_engine.history import FitWindow
from service.base.problems import Problem
from service.commands.sessions import change_session
from service.storage.database_url import open_store
from tests.examples import examples
from tests.service.histories import read_history
from tests.service.service_harness import OK, ZERO, ServiceHarness

HORIZON, NAMES = 4, ("", "b")
VALUES = (0.0, 1.5, -2.0)
ATTEMPTS, PAUSE = 3, 10.0  # as Room's
NEVER = float("inf")


@dataclass
class Fit:
    """A fit that is due: what it may read, and when it may be tried."""

    window: FitWindow
    measured: dict[str, int]
    closed: dict[str, int]
    decided: int
    n_failed: int = 0
    retry_at: float = 0.0


@dataclass
class Model:
    """One ad_lasso session. A round is a place in the list of its trajectory, less one."""

    mode: str
    default: float | None
    wait: float
    now: float
    begun: dict[str, list[tuple[int, float]]] = field(default_factory=dict)  # position, time
    received: dict[str, list[tuple[int, float]]] = field(default_factory=dict)  # round, value
    n_rounds: int = 0
    model_version: int = 0
    current: Fit | None = None
    waiting: list[Fit] = field(default_factory=list)
    fits: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schedule = ad_windows(HORIZON, 1)
        self.open = [next(self.schedule)]

    def decide(self, name: str) -> None:
        self.n_rounds += 1
        self.begun.setdefault(name, []).append((self.n_rounds, self.now))
        while self.n_rounds >= self.open[-1].due:
            self.open.append(next(self.schedule))
        self.look()

    def closes(self, name: str, round: int) -> float:
        """When time alone makes a round complete: after its trajectory's next decision."""
        if self.mode == "single" and self.default is None:
            return NEVER
        following = self.begun[name][round : round + 1]
        return following[0][1] + self.wait if following else NEVER

    def look(self) -> None:
        """What is due now becomes so."""
        due = [window for window in self.open if self.is_due(window)]
        measured = {name: len(self.received.get(name, ())) for name in self.begun}
        closed = {}
        for name, rounds in self.begun.items():
            n = sum(self.closes(name, round) <= self.now for round in range(1, len(rounds) + 1))
            closed |= {name: n} if n else {}
        for window in due:
            self.open.remove(window)
            self.waiting.append(Fit(window, measured, closed, self.n_rounds))
        self.start()

    def is_due(self, window: FitWindow) -> bool:
        if self.n_rounds < window.due:
            return False
        places = [
            (position, at, name, round)
            for name, rounds in self.begun.items()
            for round, (position, at) in enumerate(rounds, 1)
        ]
        beyond = min((at for position, at, *_ in places if position > window.due), default=NEVER)
        inside = [p[2:] for p in places if window.first <= p[0] <= window.last]
        return beyond + self.wait <= self.now or all(self.is_complete(*p) for p in inside)

    def is_complete(self, name: str, round: int) -> bool:
        has_value = any(r == round for r, _ in self.received.get(name, ()))
        return (self.mode == "single" and has_value) or self.closes(name, round) <= self.now

    def start(self) -> None:
        ready = [fit for fit in self.waiting if fit.retry_at <= self.now]
        if self.current is None and ready:
            self.current = max(ready, key=lambda fit: fit.window.due)
            self.waiting.remove(self.current)

    def finish(self, outcome: str) -> None:
        assert self.current is not None
        fit, self.current = self.current, None
        self.fits.append((fit.window.due, outcome))
        if outcome == "failed":
            fit.n_failed += 1
            fit.retry_at = self.now + PAUSE * 2 ** (fit.n_failed - 1)
            self.waiting += [fit] if fit.n_failed < ATTEMPTS else []
        else:
            self.model_version += outcome == "ok"
            earlier = [f.window for f in self.waiting] + self.open
            skipped = [w for w in earlier if w.due < fit.window.due]
            self.fits += [(w.due, "skipped") for w in sorted(skipped, key=lambda w: w.due)]
            self.waiting = [f for f in self.waiting if f.window not in skipped]
            self.open = [w for w in self.open if w not in skipped]
        self.start()

    def rows(self, fit: Fit, name: str) -> list[tuple[int, float]]:
        """Round and value of what a fit reads of a trajectory."""
        known = self.received.get(name, [])[: fit.measured.get(name, 0)]
        closed, rows = fit.closed.get(name, 0), []
        for round, (position, _) in enumerate(self.begun[name], 1):
            values = [value for r, value in known if r == round]
            if not fit.window.first <= position <= fit.window.last:
                continue
            if self.mode == "sum" and round <= closed:
                rows.append((round, sum(values) if values else self.default or 0.0))
            elif self.mode == "single" and values:
                rows.append((round, values[0]))
            elif self.default is not None and round <= closed:
                rows.append((round, self.default))
        return rows


class Machine(RuleBasedStateMachine):
    """Every rule does the same to both."""

    url = ""  # of another database than a new SQLite file

    @initialize(
        kind=st.sampled_from([("single", None), ("single", 0.5), ("sum", None), ("sum", 0.5)]),
        wait=st.sampled_from([0.0, 5.0, 60.0]),
    )
    def create(self, kind: tuple[str, float | None], wait: float) -> None:
        self.folder = tempfile.TemporaryDirectory()
        store = open_store(self.url) if self.url else None
        self.harness = ServiceHarness(Path(self.folder.name), store)
        mode, default = kind
        more = {"reward_wait_seconds": wait, "options": {"L": 1}}
        self.harness.create(horizon=HORIZON, reward_mode=mode, default_reward=default, **more)
        self.model = Model(mode, default, wait, self.harness.now)
        self.n_rewards = 0
        self.is_archived = False

    def refused(self, operation: Any, *arguments: Any, **named: Any) -> bool:
        """Whether the session is archived, and then says so."""
        if not self.is_archived:
            return False
        with pytest.raises(Problem, match="archived"):
            operation(*arguments, **named)
        return True

    @rule(name=st.sampled_from(NAMES), n=st.integers(1, 9), rewarded=st.booleans())
    def play(self, name: str, n: int, rewarded: bool) -> None:
        for _ in range(n):
            if self.refused(self.harness.decide, name):
                return
            self.harness.decide(name)
            self.model.decide(name)
            if rewarded:
                self.reward(name, 0, 1.5)

    @rule(name=st.sampled_from(NAMES), back=st.integers(0, 30), value=st.sampled_from(VALUES))
    def reward(self, name: str, back: int, value: float) -> None:
        round = len(self.model.begun.get(name, ())) - back
        known = self.model.received.setdefault(name, [])
        if round < 1 or (self.model.mode == "single" and any(r == round for r, _ in known)):
            return
        self.n_rewards += 1
        what = {"round": round, "reward_id": f"r{self.n_rewards}"}
        if self.refused(self.harness.reward, value, name, **what):
            return
        self.harness.reward(value, name, **what)
        known.append((round, value))
        self.model.look()

    @rule(seconds=st.sampled_from([1.0, 4.0, 5.0, 20.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.harness.now += seconds
        self.model.now += seconds
        self.harness.tick()
        if not self.is_archived:
            self.model.look()

    @rule(outcome=st.sampled_from(["ok", "ok", "zero", "failed"]))
    @precondition(lambda self: self.model.current is not None)
    def finish(self, outcome: str) -> None:
        session, fit = self.harness.session, self.model.current
        assert fit is not None
        current = session.schedule.current
        assert current is not None
        known = current.known
        assert (known.measured, known.decided) == (sum(fit.measured.values()), fit.decided)
        with self.harness.store.reader() as reader:
            history = read_history(reader, session, current.window, known)
        for name, part in history.trajectories.items():
            read = part.measurements
            rows = list(zip(read.last.tolist(), read.value.tolist(), strict=True))
            assert rows == self.model.rows(fit, name)
        estimate = {"ok": OK, "zero": ZERO, "failed": None}[outcome]
        assert self.harness.finish(fit.window.due, estimate) == outcome
        assert self.harness.finish(fit.window.due, estimate) is None or outcome == "never"
        self.model.finish(outcome)

    @rule(archived=st.booleans())
    def archive(self, archived: bool) -> None:
        self.harness.run(change_session(self.harness.key, {"archived": archived}))
        self.is_archived = archived
        if not archived:
            self.harness.tick()
            self.model.look()

    @invariant()
    def they_agree(self) -> None:
        session, model = self.harness.session, self.model
        schedule = session.schedule
        current = None if model.current is None else model.current.window.due
        assert (session.n_rounds, session.model_version) == (model.n_rounds, model.model_version)
        assert session.fit_due == current
        assert sorted(d.key for d in schedule.waiting) == sorted(
            fit.window.due for fit in model.waiting
        )
        assert [w.window for w in schedule.open] == model.open
        assert [(record.due, record.status) for record in self.harness.estimates] == model.fits

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            with self.folder:
                self.harness.close()


def run(machine: type[Machine], n: int) -> None:
    """So many random stories of 40 steps."""
    checks = list(HealthCheck)
    chosen = settings(
        max_examples=n, stateful_step_count=40, deadline=None, suppress_health_check=checks
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_what_a_fit_overtakes_is_recorded_in_order() -> None:
    """A fit that failed and waits, of round 12, and one of round 4 whose rewards never came."""
    state = Machine()
    state.create(kind=("single", None), wait=5.0)
    try:
        for n, rewarded in ((8, False), (6, True)):
            state.play(n=n, name="", rewarded=rewarded)
        state.finish(outcome="failed")
        state.play(n=6, name="", rewarded=False)
        state.play(n=8, name="", rewarded=True)
        state.finish(outcome="ok")
        assert state.model.fits[-2:] == [(4, "skipped"), (12, "skipped")]
        state.they_agree()
    finally:
        state.teardown()


@pytest.mark.hypothesis
def test_on_sqlite() -> None:
    run(Machine, examples(40))


@pytest.mark.slow
def test_on_postgres(postgres_url: str) -> None:
    class OnPostgres(Machine):
        url = postgres_url

    run(OnPostgres, 15)
