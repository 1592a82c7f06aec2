"""Fits by the clock that go on from kept sums say what fits of all decisions say, to the bit."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import service.fits.past
from service import slot_clock
from service.commands.erase_trajectory import erase_trajectory
from service.commands.sessions import DeleteSession
from service.commands.sweep import sweep
from service.commands.void_decision import VoidDecision
from service.fits import slot_history, slot_sums
from service.fits.install import FinishFit, RetryPolicy
from service.fits.job import run_fit
from service.fits.out_of_turn import AskFit
from service.fits.record import Fitted
from service.problems import Problem
from service.replay import replay_session
from service.slot_records import SlotSumsRow
from service.storage.ports import Store
from service.transfer.file_format import export_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.service_harness import ServiceHarness

DIM, SECONDS, START, LATE = 3, 60, 960, 4
THETA = np.array([0.6, -0.64, 0.48])
ALL = 2**40


@pytest.fixture
def harness(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    """Moments from 48 slots on; stretches of eight slots."""
    keep_sums_from(monkeypatch, 48, grain=8)
    for module in (slot_clock, slot_sums):
        monkeypatch.setattr(module, "STRETCH", 8)
    return ServiceHarness(tmp_path, store)


class World:
    """Users decide, some late; totals of one or two slots come late, in any order, or never."""

    def __init__(self, harness: ServiceHarness, url: str, **more: Any) -> None:
        self.harness, self.url = harness, url
        clock = {"slot_seconds": SECONDS, "start": float(START), "totals": "all"}
        clock |= {"late_slots": LATE, **more.pop("clock", {})}
        self.by_user = clock["totals"] == "trajectory"
        harness.create(algorithm="anytime", dim=DIM, horizon=5, clock=clock, **more)
        self.rng = np.random.default_rng(3)
        self.sums: dict[tuple[str, int], Any] = {}
        self.late: list[tuple[int, str, float]] = []  # slot in which it is sent, user, time
        self.told: list[tuple[int, str, int, int]] = []  # the same, user, first and last slot
        self.slot = self.n_fits = self.n_from_sums = 0
        self.n_read: list[int] = []  # decisions of each fit

    def play(self, n_slots: int) -> None:
        for _ in range(n_slots):
            self.slot += 1
            begin = START + SECONDS * (self.slot - 1)
            for _ in range(self.rng.poisson(2.0)):
                user, at = str(self.rng.choice(["", "a", "b"])), begin + self.rng.uniform(0, 59)
                if self.rng.random() < 0.2:
                    self.late.append((self.slot + int(self.rng.integers(1, LATE + 1)), user, at))
                else:
                    self.harness.now = max(self.harness.now, at)
                    self.decide(user, at)
            for one in [one for one in self.late if one[0] == self.slot]:
                self.harness.now = max(self.harness.now, begin + 1.0)
                self.decide(*one[1:])
            if self.slot % 3 != 2:
                n = 1 + self.slot % 3
                for user in ("", "a", "b") if self.by_user else ("",):
                    wait = int(self.rng.exponential(2.0)) + n
                    if self.rng.random() > 0.05:
                        self.told.append((self.slot + wait, user, self.slot, self.slot + n - 1))
            for two in [two for two in self.told if two[0] == self.slot]:
                self.harness.now = max(self.harness.now, float(begin))
                self.total(*two[1:])
            while self.harness.session.fit_due is not None:
                self.fit()

    def decide(self, user: str, at: float) -> None:
        contexts = self.rng.uniform(-1, 1, (4, DIM))
        taken = self.harness.decide(user, contexts=contexts, at=at)
        place = (user if self.by_user else "", 1 + int((at - START) // SECONDS))
        self.sums[place] = self.sums.get(place, 0.0) + contexts[taken.arm]

    def total(self, user: str, first: int, last: int, **more: Any) -> None:
        value = 0.05 * float(self.rng.standard_normal())
        for slot in range(first, last + 1):
            value += 0.3 * float(self.sums.get((user, slot), np.zeros(DIM)) @ THETA)
            value += 0.7 * float(self.sums.get((user, slot - 2), np.zeros(DIM)) @ THETA)
        ends = (START + SECONDS * end for end in (first - 1, last))
        since, until = (datetime.fromtimestamp(end, UTC) for end in ends)
        if not self.by_user or any(place[0] == user for place in self.sums):
            self.harness.reward(value, user, since=since, until=until, **more)

    def ask(self) -> None:
        self.harness.run(AskFit(self.harness.key, self.harness.agents))
        self.fit()

    def fit(self) -> None:
        due = self.harness.session.fit_due
        assert due is not None
        with pytest.MonkeyPatch.context() as patch:
            read = slot_history.read_slot_sums
            patch.setattr(service.fits.past, "usable_sums", lambda *args: None)
            patch.setattr(
                slot_history, "read_slot_sums", lambda *args, kept: read(*args, kept=False)
            )
            whole = run_fit(self.url, *self.harness.key, due, 0.0)
        with pytest.MonkeyPatch.context() as patch:
            recent = slot_history._recent
            made: list[int] = []
            patch.setattr(slot_history, "_recent", lambda *args: (made.append(1), recent(*args))[1])
            decisions = slot_sums._decisions

            def counted(*args: Any) -> Any:
                found = decisions(*args)
                self.n_read.append(sum(len(slots) for slots, *_ in found.values()))
                return found

            patch.setattr(slot_sums, "_decisions", counted)
            answer = run_fit(self.url, *self.harness.key, due, 0.0)
        assert answer is not None
        assert whole is not None
        found, expected = json.loads(answer.text), json.loads(whole.text)
        for each in (found, expected):
            each["estimate"].pop("seconds")
        assert found == expected
        assert answer.sums == whole.sums
        self.finish(due, Fitted.of(answer))
        self.n_from_sums += len(made)
        self.n_fits += 1

    def finish(self, due: int, fitted: Fitted) -> None:
        finish = FinishFit(self.harness.key, due, fitted, self.harness.agents, RetryPolicy())
        self.harness.run(finish)

    def kept(self) -> list[SlotSumsRow]:
        with self.harness.store.reader() as reader:
            return reader.slot_sums(self.harness.key, ALL)

    def n_erased_of_replay(self) -> int:
        """Estimates whose rows are gone; all others, and decisions, are equal."""
        with self.harness.store.reader() as reader:
            replay = replay_session(reader, self.harness.session)
        assert replay.differences == []
        assert replay.n_estimates == self.n_fits
        return replay.n_erased


def test_a_session_by_the_clock_lives_on_sums(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    world = World(harness, database_url, options={"covariates": ["rain"], "most_stale": 0.15})
    world.play(120)
    assert world.n_from_sums >= 3
    n_decisions = harness.session.n_rounds
    assert max(world.n_read[-2:]) < n_decisions / 2
    assert len(world.kept()) >= 10
    with harness.store.reader() as reader:
        row = reader.kept_sums(harness.key)
        content = b"".join(export_session(reader, harness.session))
    assert row is not None
    assert row.n_settled >= 24
    too_late = START + SECONDS * (harness.session.n_begun - LATE - 1) - 1.0
    with pytest.raises(Problem) as caught:
        harness.decide("a", contexts=np.ones((2, DIM)), at=too_late)
    assert (caught.value.status, caught.value.field) == (422, "at")
    assert world.n_erased_of_replay() == 0
    made, _ = harness.import_file(tmp_path, content)
    harness.run(DeleteSession(harness.key))
    harness.run_large(sweep(harness.key))
    assert world.kept() == []
    harness.key = made.key
    n = world.n_from_sums
    world.play(12)
    world.ask()
    world.ask() if harness.session.fit_due else None
    assert world.kept() != []
    assert world.n_from_sums > n
    assert world.n_erased_of_replay() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_is_void_corrected_or_erased_is_in_no_sum(
    harness: ServiceHarness, database_url: str
) -> None:
    """Also where a fit under way has read it."""
    world = World(harness, database_url, options={"most_stale": 0.15})
    world.play(70)
    before = world.kept()
    assert len(before) > 5
    harness.run(VoidDecision(harness.key, "a", "~9", harness.agents))
    assert len(world.kept()) < len(before)
    world.play(4)
    world.ask()
    assert len(world.kept()) >= len(before)
    world.total("", 1, 2, correct=True, reward_id="refund")
    world.play(4)
    world.ask()
    due = harness.run(AskFit(harness.key, harness.agents)).due
    if due is None:
        world.play(2)
        due = harness.run(AskFit(harness.key, harness.agents)).due
    running = run_fit(database_url, *harness.key, due.key, 0.0)
    assert running is not None
    harness.run_large(erase_trajectory(harness.key, "b"))
    assert world.kept() == []
    world.finish(due.key, Fitted.of(running))
    world.n_fits += 1
    assert world.kept() == []
    with harness.store.reader() as reader:
        assert reader.kept_sums(harness.key) is None
    world.late = [one for one in world.late if one[1] != "b"]
    n = world.n_from_sums
    world.play(40)
    assert world.n_from_sums > n
    assert world.n_erased_of_replay() > 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_totals_may_stop_for_longer_than_the_latest_slots(
    harness: ServiceHarness, database_url: str
) -> None:
    world = World(harness, database_url)
    world.play(80)
    assert world.n_from_sums
    while harness.session.n_measurements % 8:
        world.play(1)  # else a part of a grain would be read
    n_fits, world.total = world.n_fits, lambda *args: None  # type: ignore[method-assign]
    world.play(100)
    assert world.n_fits > n_fits + 2
    assert world.n_erased_of_replay() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_totals_of_trajectories_keep_the_sums_of_slots(
    harness: ServiceHarness, database_url: str
) -> None:
    world = World(harness, database_url, clock={"totals": "trajectory"})
    world.play(60)
    assert {row.trajectory for row in world.kept()} == {"", "a", "b"}
    assert max(world.n_read[-2:]) < harness.session.n_rounds / 2
    assert world.n_erased_of_replay() == 0
