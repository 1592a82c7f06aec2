"""Random operations on what a fit reads: covariates, corrections, voids, copies, erased people.

Fits are real. At the end all that was acknowledged is counted, and every decision and fit replays.
"""

import tempfile
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from lhb_engine.agents.fit_cost import FitCost
from lhb_engine.design.covariates import with_means
from lhb_engine.history import FitWindow, Trajectory
from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from service.session.fit_schedule import Watermark
from service.storage.database_url import open_store
from service.transfer.copy_session import copied_session, copy_session
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from tests.examples import examples
from tests.service.histories import read_history
from tests.service.service_harness import CONTEXTS, ServiceHarness

NAMES = st.sampled_from(["", "b"])
VALUES = st.sampled_from([0.0, 1.5])
TOLD = st.dictionaries(
    st.sampled_from(["rain", "sun", "snow"]), st.sampled_from([0.0, 2.5, -1.0]), max_size=2
)
KNOWN = ("rain", "sun")
LARGE = FitCost(1e9, 1e9)
Said = tuple[float, tuple[tuple[str, float], ...]]  # a value, and the covariates with it


@dataclass
class Rounds:
    """A trajectory as it was told to the service."""

    contexts: list[Any] = field(default_factory=list)
    told: list[dict[str, float]] = field(default_factory=list)
    said: dict[tuple[int, int], list[Said]] = field(default_factory=dict)  # the last is in force
    voided: set[int] = field(default_factory=set)

    def over(self, first: int, last: int) -> list[tuple[int, int]]:
        """The spans that overlap these rounds."""
        return [span for span in self.said if span[0] <= last and span[1] >= first]


def in_order(told: dict[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(told.items()))


class Machine(RuleBasedStateMachine):
    """Every rule does the same to both, and compares what they say."""

    more: ClassVar[dict[str, Any]] = {}  # of the session's body
    url = ""  # of another database than a new SQLite file

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.harness = self.opened()
        options = {"covariates": list(KNOWN), "levels": True}
        self.harness.create(algorithm="anytime", options=options, **self.more)
        self.model: defaultdict[str, Rounds] = defaultdict(Rounds)
        self.n = 0  # makes ids

    def opened(self) -> ServiceHarness:
        return ServiceHarness(self.path, open_store(self.url) if self.url else None)

    def when(self, first: int, last: int) -> dict[str, Any]:
        """How a reward names its rounds."""
        return {"round": first} if first == last else {"first_round": first, "last_round": last}

    def too_early(self, name: str, last: int) -> str | None:
        """Why no reward can be of a round yet."""
        return "future_round" if last > len(self.model[name].contexts) else None

    def says(self, what: Any, *given: Any, **named: Any) -> str:
        """The code of the problem, or whether something was stored."""
        try:
            found = what(*given, **named)
        except Problem as problem:
            return str(problem.code)
        return "accepted" if getattr(found, "accepted", 1) else "repeated"

    @rule(name=NAMES, told=TOLD, skips=st.booleans())
    def decide(self, name: str, told: dict[str, float], skips: bool) -> None:
        given = {"contexts": None} if skips else {}
        said = self.says(self.harness.decide, name, covariates=told, **given)
        assert said == ("unknown_field" if "snow" in told else "accepted")
        if said == "accepted":
            with self.harness.store.reader() as reader:
                key = (*self.harness.key, name)
                [row] = reader.decisions(key, len(self.model[name].contexts), 2)
            found = self.model[name]
            found.contexts.append(np.frombuffer(row.context) if row.context else np.zeros(5))
            assert skips or row.context in [
                arm.tobytes() for arm in with_means(CONTEXTS, np.array([CONTEXTS] * 2))
            ]
            found.told.append(told)

    @rule(name=NAMES, first=st.integers(1, 6), length=st.integers(0, 2), value=VALUES, told=TOLD)
    def reward(
        self, name: str, first: int, length: int, value: float, told: dict[str, float]
    ) -> None:
        last = first + length
        refused = self.too_early(name, last)
        when = self.when(first, last)
        said = self.says(self.harness.reward, value, name, covariates=told, **when)
        found, new = self.model[name], (value, in_order(told))
        spans = found.over(first, last)
        if refused:
            assert said == refused
        elif "snow" in told:
            assert said == "unknown_field"
        elif not spans:
            assert said == "accepted"
            found.said[first, last] = [new]
        else:
            is_same = spans == [(first, last)] and new in found.said[first, last]
            assert said == ("repeated" if is_same else "reward_conflict")

    @rule(name=NAMES, first=st.integers(1, 6), length=st.integers(0, 2), value=VALUES, told=TOLD)
    def correct(
        self, name: str, first: int, length: int, value: float, told: dict[str, float]
    ) -> None:
        last, self.n = first + length, self.n + 1
        refused = self.too_early(name, last)
        named = {
            **self.when(first, last),
            "correct": True,
            "reward_id": f"c{self.n}",
            "covariates": told or None,
        }
        said = self.says(self.harness.reward, value, name, **named)
        found = self.model[name]
        spans = found.over(first, last)
        if "snow" in told:
            assert said == "unknown_field"
        elif refused:
            assert said == refused
        elif not spans:
            assert said == "unknown_reward"
        elif spans != [(first, last)]:
            assert said == "reward_conflict"
        else:
            assert said == "accepted"
            chain = found.said[first, last]
            chain.append((value, in_order(told) if told else chain[-1][1]))

    @rule(name=NAMES, round=st.integers(1, 6))
    def void(self, name: str, round: int) -> None:
        found = self.model[name]
        event = f"~{round}"
        said = self.says(
            self.harness.run, void_decision(self.harness.key, name, event, self.harness.agents)
        )
        if round > len(found.contexts):
            assert said == "unknown_event"
            return
        assert said == "accepted"
        found.contexts[round - 1] = np.zeros(5)
        found.voided.add(round)

    @rule(share=st.sampled_from([0.0, 0.25]))
    def change(self, share: float) -> None:
        self.harness.run(change_session(self.harness.key, {"options": {"epsilon": share}}))
        assert self.harness.session.options["epsilon"] == share

    @rule(name=NAMES)
    def erase(self, name: str) -> None:
        def abandon(*left: Any) -> None:
            raise AssertionError(left)

        self.harness.run_large(erase_trajectory(self.harness.key, name))
        self.model.pop(name, None)

    @rule(name=NAMES, n=st.integers(4, 12))
    def play(self, name: str, n: int) -> None:
        """So many decisions, and rewards of as many rounds."""
        for round in range(1, n + 1):
            self.decide(name, {}, False)
            self.reward(name, round, 0, 1.5, {})

    @rule()
    def fit(self) -> None:
        """Fit all so far."""
        self.harness.run(ask_fit(self.harness.key, self.harness.agents))
        self.harness.make_fits(self.url or f"sqlite:///{self.path / 'lhb.db'}")
        assert "failed" not in {status for _, status in self.harness.statuses}

    @rule()
    def copy(self) -> None:
        """The copy is meant from now on; its event ids are its source's."""
        source = self.harness.session
        copy, agent = copied_session(source, {}, False, LARGE, self.harness.now)
        with self.harness.store.reader() as reader:
            content = b"".join(copy_session(reader, source, copy, agent))
        self._import(content)

    @rule()
    def move(self) -> None:
        with self.harness.store.reader() as reader:
            content = b"".join(export_session(reader, self.harness.session))
        self._import(content)

    def _import(self, content: bytes) -> None:
        made, is_new = self.harness.import_file(self.path, content)
        assert is_new
        self.harness.key = made.key

    @rule()
    def restart(self) -> None:
        key = self.harness.key
        now = self.harness.now
        self.harness.close()
        self.harness = self.opened()
        self.harness.key, self.harness.now = key, now

    @rule()
    def a_fit_reads_what_was_said(self) -> None:
        session = self.harness.session
        if not session.n_rounds:
            return
        window = FitWindow(1, 1, session.n_rounds, 4, session.n_rounds)
        known = Watermark(10**6, 10**6, 0.0)
        with self.harness.store.reader() as reader:
            history = read_history(reader, session, window, known)
        lived = {name: found for name, found in self.model.items() if found.contexts}
        assert [*history.trajectories] == sorted(lived)
        assert history.groups == (1, 1)
        for name, found in lived.items():
            check(history.trajectories[name], found)

    def n_begun(self) -> int:
        """How many rounds were decided, of all who are left."""
        return sum(len(found.contexts) for found in self.model.values())

    def teardown(self) -> None:
        """What is left is whole; store and folder go even where a check fails."""
        with self.folder, closing(self.harness):
            self.check_what_is_left()

    def check_what_is_left(self) -> None:
        self.a_fit_reads_what_was_said()
        session = self.harness.session
        parts = self.model.values()
        n_said = sum(len(chain) for one in parts for chain in [*one.said.values(), one.voided])
        assert session.n_rounds - session.n_erased_rounds == self.n_begun()
        assert session.n_measurements - session.n_erased_measurements == n_said
        with self.harness.store.reader() as reader:
            assert replay_session(reader, session).differences == []


def check(part: Trajectory, found: Rounds) -> None:
    np.testing.assert_array_equal(part.contexts, found.contexts)
    told = [[one.get(name, 0.0) for name in KNOWN] for one in found.told]
    np.testing.assert_array_equal(part.covariates, told)
    rows, expected = part.measurements, sorted(found.said.items())
    assert list(zip(rows.first, rows.last, strict=True)) == [span for span, _ in expected]
    in_force = [chain[-1] for _, chain in expected]
    assert rows.value.tolist() == [value for value, _ in in_force]
    nothing = float("nan")
    beside = [[dict(said).get(name, nothing) for name in KNOWN] for _, said in in_force]
    if rows.covariates is None:
        assert np.isnan(beside).all()
    else:
        np.testing.assert_array_equal(rows.covariates, beside)


def run(machine: type[Machine], n: int) -> None:
    """So many random stories of 25 steps."""
    checks = list(HealthCheck)
    chosen = settings(
        max_examples=n, stateful_step_count=25, deadline=None, suppress_health_check=checks
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_a_story_that_fails_leaves_no_folder() -> None:
    story = Machine()
    story.model["b"].contexts.append(np.zeros(5))  # the service never saw this decision
    with pytest.raises(AssertionError):
        story.teardown()
    assert not story.path.exists()


@pytest.mark.hypothesis
def test_on_sqlite() -> None:
    run(Machine, examples(20))


@pytest.mark.slow
def test_on_postgres(postgres_url: str) -> None:
    class OnPostgres(Machine):
        url = postgres_url

    run(OnPostgres, 10)
