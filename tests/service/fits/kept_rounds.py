"""A session that learns from kept sums, each of whose fits is compared with one of all rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import service.fits.prepared_fit
from lhb_engine.agents import ALGORITHMS
from lhb_engine.history import History
from service.commands.decisions import void_decision
from service.commands.out_of_turn import ask_fit
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.rounds.history import PastByDecision
from service.session.records import KeptSumsRow
from service.storage.reader import FOR_EVER
from service.storage.transactions import Store
from service.transfer.replay import SessionReplay, replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.lhb_engine.draw_little import draw_little
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.service_harness import ServiceHarness

SLICES = PastByDecision.slices

DIM, WEIGHTS = 3, np.array([0.2, 0.0, 0.8])
THETA = np.array([0.6, -0.64, 0.48])
SLICED = 3  # of so many fits, one is made of slices, too: what is read for it does not build up


@pytest.fixture(name="harness")
def low_limits(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    """Sums from 64 rounds on."""
    keep_sums_from(monkeypatch, 64, n_grains=2)
    draw_little(monkeypatch)
    made = ServiceHarness(tmp_path, store)
    made.read = []  # type: ignore[attr-defined]
    counted = Counted(PastByDecision.recent, made.read)  # type: ignore[attr-defined]
    monkeypatch.setattr(PastByDecision, "recent", lambda *args: counted(*args))
    return made


class Counted:
    """Reads a history, and takes note of its measurements."""

    def __init__(self, read: Callable[..., History], n_read: list[int]) -> None:
        self.n_read, self._read = n_read, read

    def __call__(self, *args: Any) -> History:
        found = self._read(*args)
        self.n_read.append(sum(len(part.measurements) for part in found.trajectories.values()))
        return found


def without_seconds(answer: Fitted) -> Fitted:
    """What a fit says, but for the time that it took and its sums."""
    estimate = answer.estimate and {**answer.estimate, "seconds": None}
    return replace(answer, estimate=estimate, sums=None, settled=None)


class World:
    """Trajectories whose rewards come late, in another order, some never, some over two rounds."""

    def __init__(self, harness: ServiceHarness, names: tuple[str, ...], url: str) -> None:
        self.harness, self.names, self.url = harness, names, url
        self.rng = np.random.default_rng(3)
        self.chosen: dict[str, list[Any]] = {name: [] for name in names}
        self.waiting: list[tuple[float, float, str, dict[str, int]]] = []
        self.n_fits, self.n_from_sums, self.n, self.largest_slice = 0, 0, 0, 0
        self.silent_until = 0  # round before which no reward is sent
        self.delay = 0  # rounds, of all rewards
        self.n_sent = 0  # values, of rewards that come in parts
        self.n_from_rows = 0  # fits without sums, where there are rounds enough for some
        self.rewarded: list[tuple[str, int]] = []
        self.rain = np.random.default_rng(7)
        self.is_told = "covariates" in harness.session.options

    def correct(self, i: int) -> None:
        """Replace the value that came `i`-th of those over one round."""
        name, round = self.rewarded[i]
        value = float(self.rng.standard_normal())
        self.harness.reward(value, name, round=round, correct=True, reward_id=f"c{self.n}-{i}")

    def play(self, n_rounds: int, sign: float = 1.0) -> None:
        for _ in range(n_rounds):
            self.n += 1
            self.harness.now += 1.0
            name = str(self.rng.choice(self.names))
            contexts = self.rng.uniform(-1, 1, (4, DIM))
            told = self.told()
            decision = self.harness.decide(name, contexts=contexts, **told)
            chosen = self.chosen[name]
            chosen.append(contexts[decision.arm])
            lagged = np.array([*reversed(chosen[-3:])])
            value = sign * float(WEIGHTS[: len(lagged)] @ lagged @ THETA)
            value += 0.05 * float(self.rng.standard_normal()) + 2.0 * told.get(
                "covariates", {}
            ).get("rain", 0.0)
            at = self.n + self.delay + float(self.rng.exponential(6.0))
            kind = self.rng.random()
            if kind > 0.05:
                self.waiting.append((at, value, name, {"round": len(chosen)}))
            is_silent = self.n < self.silent_until
            for due in sorted(w for w in self.waiting if w[0] <= self.n and not is_silent):
                self.waiting.remove(due)
                self.send(*due[1:], self.told_late())
                self.rewarded.append((due[2], due[3]["round"]))
            self.harness.tick()
            while self.harness.session.fit_due is not None:
                self.fit()

    def send(self, value: float, name: str, when: dict[str, int], told: dict[str, Any]) -> None:
        """Send a reward, with what was measured beside it."""
        self.harness.reward(value, name, **when, **told)

    def slices(self, past: PastByDecision, *args: Any) -> Iterator[tuple[int, History]]:
        """Read slices, and take note of the most measurements in one."""
        for stop, found in SLICES(past, *args):
            n = sum(len(part.measurements) for part in found.trajectories.values())
            self.largest_slice = max(n, self.largest_slice)
            yield stop, found

    def told(self) -> dict[str, Any]:
        """The next round's weather."""
        return {"covariates": {"rain": float(self.rain.normal())}} if self.is_told else {}

    def told_late(self) -> dict[str, Any]:
        """Weather that comes with every third reward, and is noise."""
        return self.told() if self.is_told and self.rain.random() < 0.3 else {}

    def forget(self, name: str) -> None:
        """The trajectory was erased: nothing of it comes any more, and it may begin anew."""
        self.waiting = [late for late in self.waiting if late[2] != name]
        self.chosen[name] = []

    def void(self, name: str, round: int) -> None:
        harness = self.harness
        harness.run(void_decision(harness.key, name, f"~{round}", harness.agents))

    def ask(self) -> None:
        """Have all that came fitted."""
        self.harness.run(ask_fit(self.harness.key, self.harness.agents))
        self.fit()

    def replayed(self) -> SessionReplay:
        """What a replay says, which finds no difference."""
        with self.harness.store.reader() as reader:
            replay = replay_session(reader, self.harness.session)
        assert replay.differences == []
        return replay

    def fit(self) -> None:
        due = self.harness.session.fit_due
        assert due is not None
        n = len(self.harness.read)  # type: ignore[attr-defined]
        answer = run_fit(self.url, *self.harness.key, due, 0.0)
        self.n_from_sums += len(self.harness.read) > n  # type: ignore[attr-defined]
        assert answer is not None
        if self.n > ALGORITHMS["anytime"].sizes.latest:  # before, no fit has sums
            self.compare(due, answer)
        finish = FinishFit(self.harness.key, due, answer, self.harness.agents)
        self.harness.run(finish)
        self.n_fits += 1

    def compare(self, due: int, answer: Fitted) -> None:
        """Make the fit of all rows, and at times of slices: both say what the answer says."""
        anew = FOR_EVER if answer.sums is None else answer.sums.row.anew
        found = [answer]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.fits.prepared_fit, "usable_sums", lambda *args: (None, anew))
            have_sizes(patch, n_latest=0)
            if self.n_fits % SLICED == 0:
                patch.setattr(PastByDecision, "slices", lambda *args: self.slices(*args))
                found.append(run_fit(self.url, *self.harness.key, due, 0.0))
            patch.setattr(service.fits.prepared_fit, "sums_made_anew", lambda *args: None)
            whole = run_fit(self.url, *self.harness.key, due, 0.0)
        assert whole is not None
        self.n_from_rows += whole.sums is None and self.n > ALGORITHMS["anytime"].sizes.latest
        expected = without_seconds(whole)
        for other in found:
            assert other is not None
            assert without_seconds(other) == expected
            assert other.sums == whole.sums

    def kept(self) -> KeptSumsRow | None:
        with self.harness.store.reader() as reader:
            return reader.kept_sums(self.harness.key)
