"""A session by the clock, each of whose fits is made in every way that there is."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import service.fits.prepared_fit
from service.commands.out_of_turn import ask_fit
from service.fits import job
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.rounds import slot_history
from service.rounds.slot_history import PastBySlot
from service.rounds.slot_sums import keep_slots
from service.session.records import SlotSumsRow
from service.transfer.replay import replay_session
from tests.lhb_engine.draw_little import draw_little, fit_seldom
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.fits.kept_rounds import SLICED, without_seconds
from tests.service.service_harness import ServiceHarness

DIM, SECONDS, START, LATE = 3, 60, 960, 4
THETA = np.array([0.6, -0.64, 0.48])
ALL = 2**40


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Moments from 48 slots on; stretches of eight slots; few decisions are read at once."""
    draw_little(patch)
    fit_seldom(patch)
    keep_sums_from(patch, 48, grain=8, n_slots=8, n_positions=16)


@contextmanager
def all_rows(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """No fit takes anything that is kept, and none adds up slices."""
    read = slot_history.read_slot_sums
    with patch.context() as here:
        without_sums(here)
        here.setattr(service.fits.prepared_fit, "sums_made_anew", lambda *args: None)
        here.setattr(slot_history, "read_slot_sums", lambda *args, kept: read(*args, kept=False))
        yield


def without_sums(patch: pytest.MonkeyPatch) -> None:
    """Fits know of the kept sums only where these were made anew."""
    usable = service.fits.prepared_fit.usable_sums
    patch.setattr(service.fits.prepared_fit, "usable_sums", lambda *args: (None, usable(*args)[1]))


@contextmanager
def in_slices(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every fit adds up all rows, in slices of two grains."""
    with patch.context() as here:
        without_sums(here)
        have_sizes(here, n_latest=1, n_grains=2)
        yield


@contextmanager
def counting(patch: pytest.MonkeyPatch, rows: Counter[str]) -> Iterator[None]:
    """Count the rows that statements of fits return, by the names of the statements."""
    opened = job.open_reader

    @contextmanager
    def counted(url: str) -> Iterator[Any]:
        with opened(url) as reader:
            whole, each = reader._all, reader._each

            def every(name: str, *values: Any) -> Any:
                found = whole(name, *values)
                rows[name] += len(found)
                return found

            def one_by_one(name: str, *values: Any) -> Any:
                for row in each(name, *values):
                    rows[name] += 1
                    yield row

            reader._all, reader._each = every, one_by_one
            yield reader

    with patch.context() as here:
        here.setattr(job, "open_reader", counted)
        yield


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
        self.chosen: list[tuple[str, int, Any]] = []  # user, slot and context of each decision
        self.late: list[tuple[int, str, float]] = []  # slot in which it is sent, user, time
        self.told: list[tuple[int, str, int, int]] = []  # the same, user, first and last slot
        self.slot = self.n_fits = self.n_from_sums = self.n_parts = 0
        self.n_read: list[Counter[str]] = []  # rows of each fit, by statement
        self.is_compared = True  # each fit with that of all rows

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
        # sums of such numbers are exact: of what is left, they are those that it would have
        contexts = np.round(128 * self.rng.uniform(-1, 1, (4, DIM))) / 128
        taken = self.harness.decide(user, contexts=contexts, at=at)
        place = (user if self.by_user else "", 1 + int((at - START) // SECONDS))
        self.sums[place] = self.sums.get(place, 0.0) + contexts[taken.arm]
        self.chosen.append((user, place[1], contexts[taken.arm]))

    def total(self, user: str, first: int, last: int, **more: Any) -> None:
        value = 0.05 * float(self.rng.standard_normal())
        for slot in range(first, last + 1):
            value += 0.3 * float(self.sums.get((user, slot), np.zeros(DIM)) @ THETA)
            value += 0.7 * float(self.sums.get((user, slot - 2), np.zeros(DIM)) @ THETA)
        ends = (START + SECONDS * end for end in (first - 1, last))
        since, until = (datetime.fromtimestamp(end, UTC) for end in ends)
        if not self.by_user or any(place[0] == user for place in self.sums):
            self.harness.reward(value, user, since=since, until=until, **more)

    def forget(self, user: str) -> None:
        """Have nobody decide or tell totals late for somebody who was erased."""
        self.late = [one for one in self.late if one[1] != user]
        self.told = [one for one in self.told if one[1] != user]
        self.sums = {place: one for place, one in self.sums.items() if place[0] != user}

    def n_read_now(self) -> Counter[str]:
        """Return the rows that a fit reads after another one has kept what it could."""
        for _ in range(2):
            self.play(4)
            self.ask()
        return self.n_read[-1]

    def ask(self) -> None:
        self.harness.run(ask_fit(self.harness.key, self.harness.agents))
        self.fit()

    def fit(self) -> None:
        """Fit from what is kept, and compare with a fit of all rows, and at times of slices."""
        due, others = self.harness.session.fit_due, list[Fitted]()
        assert due is not None
        with pytest.MonkeyPatch.context() as patch:
            if self.is_compared:
                with all_rows(patch):
                    others.append(self.answer(due))
            if self.is_compared and self.n_fits % SLICED == 0:
                with in_slices(patch):
                    others.append(self.answer(due))
            recent, made = PastBySlot.recent, []
            patch.setattr(PastBySlot, "recent", lambda *a: (made.append(1), recent(*a))[1])
            self.n_read.append(Counter())
            with counting(patch, self.n_read[-1]):
                answer = self.answer(due)
        for one in others:
            assert without_seconds(one) == without_seconds(answer)
            assert one.sums == answer.sums
        self.finish(due, answer)
        self.n_from_sums += len(made)
        self.n_fits += 1

    def answer(self, due: int) -> Fitted:
        """Return the answer of a fit, after those of its parts."""
        while True:
            answer = run_fit(self.url, *self.harness.key, due, 0.0)
            assert answer is not None
            if not answer.is_part:
                return answer
            assert answer.settled is not None
            assert self.harness.run(keep_slots(self.harness.key, answer.settled))
            self.n_parts += 1

    def finish(self, due: int, fitted: Fitted) -> None:
        finish = FinishFit(self.harness.key, due, fitted, self.harness.agents)
        self.harness.run(finish)

    def kept(self) -> list[SlotSumsRow]:
        with self.harness.store.reader() as reader:
            ranges = [(name, 1, ALL) for name in ("", "a", "b")]
            return [*reader.slot_sums_in(self.harness.key, ranges, ALL)]

    def n_erased_of_replay(self) -> int:
        """Estimates whose rows are gone; all others, and decisions, are equal."""
        with self.harness.store.reader() as reader:
            replay = replay_session(reader, self.harness.session)
        assert replay.differences == []
        assert replay.estimates == self.n_fits
        return replay.estimates_erased
