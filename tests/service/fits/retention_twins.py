"""Sessions that take the same, of which some drop old rows, with limits low enough for a test."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.drop_rounds import drop_rounds, give_up_rounds, plan
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.session.records import KeptSumsRow, SessionKey, SessionRow
from service.storage.ports import Changes
from service.storage.transactions import Slices, Store
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.lhb_engine.draw_little import draw_little, fit_seldom
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.service_harness import ServiceHarness

DIM, HORIZON = 3, 6
WEIGHTS, THETA = np.array([0.2, 0.0, 0.8]), np.array([0.6, -0.64, 0.48])
ANYTIME = {"algorithm": "anytime", "dim": DIM, "horizon": HORIZON, "reward_wait_seconds": 30}


@pytest.fixture(name="harness")
def small_limits(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    """Sums from 64 rounds on, and slices of a few rows."""
    keep_sums_from(monkeypatch, 64, least_stretch=16)
    draw_little(monkeypatch)
    fit_seldom(monkeypatch)
    store.slices = Slices(rows=11, page=7, pages=3)
    return ServiceHarness(tmp_path, store)


@dataclass(frozen=True, slots=True)
class LoseSums(SessionCommand[None]):
    key: SessionKey

    def __call__(self, uow: UnitOfWork) -> None:
        uow.write_rows(Changes(dropped_sums=[self.key]))


class Twins:
    """Sessions that take the same: the first keeps all rows, the others drop some.

    Rewards come late, in another order, some never, some over two rounds. With the option `levels`
    those of named trajectories are higher.
    """

    def __init__(
        self, harness: ServiceHarness, url: str, *retention: dict[str, Any], **settings: Any
    ) -> None:
        self.harness, self.url = harness, url
        self.rng = np.random.default_rng(3)
        self.level = 0.5 if settings.get("options", {}).get("levels") else 0.0
        self.adds_up = settings.get("reward_mode") == "sum"
        self.keys: list[SessionKey] = []
        for kept in ({}, *retention):
            harness.create(**ANYTIME | settings | kept)
            self.keys.append(harness.key)
        self.chosen: dict[str, list[Any]] = {}
        self.waiting: list[tuple[float, float, str, dict[str, Any]]] = []
        self.n, self.bends = 0, 0.0  # what the product of the first two features pays

    def _each(self) -> Iterator[None]:
        for key in self.keys:
            self.harness.key = key
            yield

    def session(self, i: int) -> SessionRow:
        self.harness.key = self.keys[i]
        return self.harness.session

    def play(self, n_rounds: int, names: tuple[str, ...], sign: float = 1.0) -> None:
        for _ in range(n_rounds):
            self.n += 1
            self.harness.now += 1.0
            name = str(self.rng.choice(names))
            contexts = self.rng.uniform(-1, 1, (4, DIM))
            taken = [self.harness.decide(name, contexts=contexts) for _ in self._each()]
            assert len({(t.arm, t.scores, t.propensity, t.model_version) for t in taken}) == 1
            chosen = self.chosen.setdefault(name, [])
            chosen.append(contexts[taken[0].arm])
            lagged = np.array([0 * THETA, 0 * THETA, *chosen[-3:]])[-3:]
            value = sign * float(WEIGHTS @ lagged @ THETA)
            value += self.bends * float(WEIGHTS @ lagged[:, :2].prod(axis=1))
            value += self.level * len(name) + 0.05 * float(self.rng.standard_normal())
            round = len(chosen)
            when: dict[str, Any] = {"round": round}
            kind = self.rng.random()
            if (
                kind < 0.1
                and round > 1
                and not self.adds_up
                and not self._is_measured(name, round - 1)
            ):
                when = {"first_round": round - 1, "last_round": round}
            if self.adds_up:
                when["reward_id"] = f"w{self.n}"
            if kind < 0.95:
                delay = float(self.rng.exponential(6.0))
                self.waiting.append((self.n + delay, value, name, when))
            for due in sorted((w for w in self.waiting if w[0] <= self.n), key=lambda w: w[0]):
                self.waiting.remove(due)
                for _ in self._each():
                    self.harness.reward(due[1], due[2], **due[3])
            for _ in self._each():
                self.harness.tick()
            self.fit()

    def _is_measured(self, name: str, round: int) -> bool:
        with self.harness.store.reader() as reader:
            stored = reader.measurements((*self.keys[0], name), round, round)
        return bool(stored) or any(w[2] == name and round in w[3].values() for w in self.waiting)

    def fit(self) -> None:
        """All fits that are due; they find the same, and their sums are the same."""
        while self.session(0).fit_due is not None:
            found = []
            for key in self.keys:
                self.harness.key = key
                due = self.harness.session.fit_due
                assert due is not None
                answer = run_fit(self.url, *key, due, 0.0)
                assert answer is not None
                assert answer.estimate is not None, answer
                found.append(({**answer.estimate, "seconds": None}, answer.sums))
                finish = FinishFit(key, due, answer, self.harness.agents)
                assert self.harness.run(finish) != "failed"
            assert all(one == found[0] for one in found)

    def drop(self, i: int) -> bool:
        """What the sweeper does."""
        session = self.session(i)
        with self.harness.store.reader() as reader:
            found = plan(reader, session, self.harness.now, young=0.0)
        if found is None or not self.harness.run(give_up_rounds(session.key, found)):
            return False
        self.harness.run_large(drop_rounds(session.key, found.dropped_to))
        return True

    def fit_one(self, i: int) -> dict[str, Any]:
        """The estimate of the fit that is due of one session alone."""
        self.harness.key = key = self.keys[i]
        due = self.harness.session.fit_due
        assert due is not None
        answer = run_fit(self.url, *key, due, 0.0)
        assert answer is not None
        assert answer.estimate is not None, answer
        finish = FinishFit(key, due, answer, self.harness.agents)
        assert self.harness.run(finish) != "failed"
        return answer.estimate

    def play_one_side(self, n_rounds: int, names: tuple[str, ...]) -> None:
        """Only the last session goes on."""
        keys, self.keys = self.keys, self.keys[-1:]
        self.chosen, self.waiting = {}, []
        for name in names:
            with self.harness.store.reader() as reader:
                known = reader.trajectory((*self.keys[0], name))
            self.chosen[name] = [] if known is None else [0 * THETA] * known.n_rounds
        self.play(n_rounds, names)
        self.keys = keys

    def kept(self, i: int) -> KeptSumsRow:
        with self.harness.store.reader() as reader:
            row = reader.kept_sums(self.keys[i])
        assert row is not None
        return row

    def lose_sums(self, i: int) -> None:
        """What no command does."""
        self.harness.run(LoseSums(self.keys[i]))

    def last_estimate(self, i: int) -> dict[str, Any]:
        self.harness.key = self.keys[i]
        found = [e.estimate for e in self.harness.estimates if e.estimate is not None]
        said: dict[str, Any] = json.loads(found[-1])
        return said

    def n_rows(self, i: int) -> dict[str, int]:
        return {name: len(rows) for name, rows in self.rows(i).items()}

    def rows(self, i: int) -> dict[str, list[Any]]:
        """Rows of a session by table, without those that both must have."""
        found: dict[str, list[Any]] = {"decisions": [], "measurements": []}
        with self.harness.store.reader() as reader:
            for one in reader.trajectories(self.keys[i]):
                key = (*self.keys[i], one.key)
                found["decisions"] += reader.decisions(key, 0, 10**6)
                found["measurements"] += reader.measurement_log(key)
        return found


def refused(code: str, run: Any, *args: Any, **more: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        run(*args, **more)
    assert caught.value.code == code, caught.value.detail
    return caught.value
