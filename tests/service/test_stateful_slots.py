"""The same by the clock: totals of slots, late decisions, and sums of slots that are kept."""

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from lhb_engine.agents import ALGORITHMS
from lhb_engine.history import FitWindow, History
from service.commands.decisions import void_decision
from service.rounds.timeline import Past, timeline_of
from service.session.fit_schedule import Watermark
from service.session.records import SessionKey, SlotSumsRow
from service.storage.ports import Changes
from service.storage.reader import Reader
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork
from tests.examples import examples
from tests.lhb_engine.sized_agents import have_sizes
from tests.service import test_stateful_history
from tests.service.test_stateful_history import NAMES, TOLD, Rounds, check, run

START, SECONDS, LATE = 960.0, 60, 2


@dataclass(frozen=True, slots=True)
class Keep(SessionCommand[None]):
    """What the end of a fit does with the slots that it has summed."""

    key: SessionKey
    rows: list[SlotSumsRow]

    def __call__(self, uow: UnitOfWork) -> None:
        uow.write_rows(Changes(slot_sums=self.rows))


class Machine(test_stateful_history.Machine):
    """Rounds are slots of each trajectory; decisions are remembered one by one."""

    more: ClassVar[dict[str, Any]] = {
        "clock": {"slot_seconds": SECONDS, "start": START, "totals": "trajectory"}
        | {"late_slots": LATE}
    }

    def __init__(self) -> None:
        with ExitStack() as patches:
            have_sizes(patches.enter_context(pytest.MonkeyPatch.context()), n_slots=2)
            super().__init__()
            self.patches = patches.pop_all()
        self.taken: defaultdict[str, list[tuple[int, Any]]] = defaultdict(list)  # slot, context

    def when(self, first: int, last: int) -> dict[str, Any]:
        ends = (START + SECONDS * end for end in (first - 1, last))
        return dict(
            zip(("since", "until"), (datetime.fromtimestamp(e, UTC) for e in ends), strict=True)
        )

    def too_early(self, name: str, last: int) -> str | None:
        if not self.taken[name]:
            return "future_round"
        return "interval_open" if START + SECONDS * last > self.harness.now else None

    @rule(name=NAMES, told=TOLD, skips=st.booleans())
    def decide(self, name: str, told: dict[str, float], skips: bool) -> None:
        """A decision of now; those with covariates are refused."""
        if told:
            said = self.says(self.harness.decide, name, covariates=told)
            assert said == ("unknown_field" if "snow" in told else "invalid")
        self.decide_late(name, 0, skips)

    @rule(name=NAMES, late=st.integers(1, 5), skips=st.booleans())
    def decide_late(self, name: str, late: int, skips: bool) -> None:
        at = self.harness.now - SECONDS * late
        slot = 1 + int((at - START) // SECONDS)
        given = {"contexts": None} if skips else {}
        begun = self.harness.session.schedule.n_slots
        said = self.says(self.harness.decide, name, at=at if late else None, **given)
        fits = slot >= max(1, begun - LATE)
        assert said == ("accepted" if fits else "out_of_range")
        if fits:
            with self.harness.store.reader() as reader:
                [row] = reader.decisions((*self.harness.key, name), len(self.taken[name]), 2)
            context = np.frombuffer(row.context) if row.context else np.zeros(5)
            self.taken[name].append((slot, context))

    @rule(slots=st.integers(1, 3))
    def wait(self, slots: int) -> None:
        self.harness.now += SECONDS * slots

    @rule(name=NAMES, round=st.integers(1, 6))
    def void(self, name: str, round: int) -> None:
        void = void_decision(self.harness.key, name, f"~{round}", self.harness.agents)
        said, taken = self.says(self.harness.run, void), self.taken[name]
        assert said == ("accepted" if round <= len(taken) else "unknown_event")
        if round <= len(taken):
            taken[round - 1] = taken[round - 1][0], np.zeros(5)
            self.model[name].voided.add(round)

    @rule(name=NAMES)
    def erase(self, name: str) -> None:
        super().erase(name)
        self.taken.pop(name, None)

    @rule()
    def keep_slots(self) -> None:
        session = self.harness.session
        if session.schedule.n_slots:
            with self.harness.store.reader() as reader:
                new = self.past(reader).new
            self.harness.run(Keep(session.key, [*new]))

    def past(self, reader: Reader, takes_kept: bool = True) -> Past:
        session = self.harness.session
        window = FitWindow(1, 1, session.schedule.n_slots, 4, session.schedule.n_slots)
        given = reader, session, window, Watermark(10**6, 10**6)
        return timeline_of(session).past(*given, takes_kept=takes_kept)

    @rule()
    def a_fit_reads_what_was_said(self) -> None:
        session = self.harness.session
        if not session.schedule.n_slots:
            return
        with self.harness.store.reader() as reader:
            whole = self.past(reader, takes_kept=False).whole()
            history, recent = self.past(reader).whole(), self.past(reader).recent(3)
        for name in self.model:
            self.add_up(name)
        said = self.checked(history)
        measured = {name: sorted(found.said) for name, found in self.model.items() if found.said}
        assert said == measured
        assert self.checked(whole) == measured
        for name, spans in self.checked(recent).items():  # beside sums of the first three
            assert set(spans) <= set(measured[name])

    def add_up(self, name: str) -> None:
        """Remember the slots of a trajectory as rounds."""
        found = self.model[name]
        found.contexts = [np.zeros(5) for _ in range(self.harness.session.schedule.n_slots)]
        found.told = [{} for _ in found.contexts]
        for slot, context in self.taken[name]:
            found.contexts[slot - 1] = found.contexts[slot - 1] + context

    def checked(self, history: History) -> dict[str, list[tuple[int, int]]]:
        """Return the spans that a history has rows of, in order, each with its lags."""
        said: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for name, part in history.trajectories.items():
            first, last = part.first_round, part.last_round
            spans = list(zip(part.measurements.first, part.measurements.last, strict=True))
            if not spans:  # nothing is measured
                assert (name, len(history.trajectories)) == ("", 1)
                continue
            found, here = self.model[name], Rounds()
            here.contexts, here.told = (
                found.contexts[first - 1 : last],
                found.told[first - 1 : last],
            )
            here.said = {span: found.said[span] for span in spans}
            check(part, here)
            assert all(first <= max(1, start - 3) for start, _ in spans)
            said[name] += spans
        return {name: sorted(spans) for name, spans in said.items() if spans}

    def n_begun(self) -> int:
        return sum(map(len, self.taken.values()))

    def teardown(self) -> None:
        with self.patches:
            super().teardown()


def test_a_story_that_fails_leaves_no_limit_patched() -> None:
    before = ALGORITHMS["anytime"]
    story = Machine()
    story.taken["b"].append((1, None))  # the service never saw this decision
    with pytest.raises(AssertionError):
        story.teardown()
    assert before == ALGORITHMS["anytime"]
    assert not story.path.exists()


@pytest.mark.hypothesis
def test_on_sqlite() -> None:
    run(Machine, examples(20))


@pytest.mark.slow
def test_on_postgres(postgres_url: str) -> None:
    class OnPostgres(Machine):
        url = postgres_url

    run(OnPostgres, 15)
