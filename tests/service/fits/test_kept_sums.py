"""Fits that go on from kept sums say what fits of all rows say, to the bit, and read little."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import service.fits.past
from lhb_engine.agents import summed_fit
from lhb_engine.design import levels, moment_sums
from lhb_engine.diagnostics import findings
from lhb_engine.history import FitWindow, History
from service.commands.erase_trajectory import erase_trajectory
from service.commands.sessions import DeleteSession
from service.commands.void_decision import VoidDecision
from service.due_fits import DueFit
from service.fits import history, job
from service.fits.install import FinishFit, RetryPolicy
from service.fits.job import run_fit
from service.fits.out_of_turn import AskFit
from service.fits.record import Fitted
from service.fits.sums import FitAnswer
from service.records import KeptSumsRow
from service.replay import replay_session
from service.storage.ports import Store
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.service_harness import ServiceHarness

DIM, WEIGHTS = 3, np.array([0.2, 0.0, 0.8])
THETA = np.array([0.6, -0.64, 0.48])


@pytest.fixture
def harness(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    """Sums from 64 rounds on."""
    for module in (summed_fit, history, service.fits.past, findings):
        monkeypatch.setattr(module, "LATEST", 64)
    monkeypatch.setattr(moment_sums, "GRAIN", 16)
    monkeypatch.setattr(history, "SLICE", 2)
    monkeypatch.setattr(job, "read_recent", counted := Counted(history.read_recent))
    made = ServiceHarness(tmp_path, store)
    made.read = counted.n_read  # type: ignore[attr-defined]
    return made


class Counted:
    """Reads a history, and takes note of its measurements."""

    def __init__(self, read: Callable[..., History]) -> None:
        self.n_read: list[int] = []
        self._read = read

    def __call__(self, *args: Any) -> History:
        found = self._read(*args)
        self.n_read.append(sum(len(part.measurements) for part in found.trajectories.values()))
        return found


def without_seconds(answer: FitAnswer) -> dict[str, Any]:
    """What a fit says, but for the time that it took."""
    found: dict[str, Any] = json.loads(answer.text)
    found.get("estimate", {}).pop("seconds", None)
    return found


class World:
    """Trajectories whose rewards come late, in another order, some never, some over two rounds."""

    def __init__(self, harness: ServiceHarness, names: tuple[str, ...], url: str) -> None:
        self.harness, self.names, self.url = harness, names, url
        self.rng = np.random.default_rng(3)
        self.chosen: dict[str, list[Any]] = {name: [] for name in names}
        self.waiting: list[tuple[float, float, str, dict[str, int]]] = []
        self.n_fits, self.n_from_sums, self.n, self.largest_slice = 0, 0, 0, 0
        self.silent_until = 0  # round before which no reward is sent
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
            at = self.n + float(self.rng.exponential(6.0))
            kind = self.rng.random()
            if kind > 0.05:
                self.waiting.append((at, value, name, {"round": len(chosen)}))
            is_silent = self.n < self.silent_until
            for due in sorted(w for w in self.waiting if w[0] <= self.n and not is_silent):
                self.waiting.remove(due)
                self.harness.reward(due[1], due[2], **due[3], **self.told_late())
                self.rewarded.append((due[2], due[3]["round"]))
            self.harness.tick()
            while self.harness.session.fit_due is not None:
                self.fit()

    def slices(self, *args: Any) -> Iterator[tuple[int, History]]:
        """Read slices, and take note of the most measurements in one."""
        for stop, found in history.read_slices(*args):
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

    def fit(self) -> None:
        due = self.harness.session.fit_due
        assert due is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(service.fits.past, "usable_sums", lambda *args: None)
            patch.setattr(service.fits.past, "AT_ONCE", 0)
            patch.setattr(service.fits.past, "read_slices", self.slices)
            in_slices = run_fit(self.url, *self.harness.key, due, 0.0)
            patch.setattr(service.fits.past, "sums_made_anew", lambda *args: None)
            whole = run_fit(self.url, *self.harness.key, due, 0.0)
        n = len(self.harness.read)  # type: ignore[attr-defined]
        answer = run_fit(self.url, *self.harness.key, due, 0.0)
        self.n_from_sums += len(self.harness.read) > n  # type: ignore[attr-defined]
        assert whole is not None
        expected = without_seconds(whole)
        for other in (answer, in_slices):
            assert other is not None
            assert without_seconds(other) == expected
            assert other.sums == whole.sums
        fitted = Fitted.of(answer)
        finish = FinishFit(self.harness.key, due, fitted, self.harness.agents, RetryPolicy())
        self.harness.run(finish)
        self.n_fits += 1

    def kept(self) -> KeptSumsRow | None:
        with self.harness.store.reader() as reader:
            return reader.kept_sums(self.harness.key)


@pytest.mark.parametrize("names", [("",), ("", "a", "b")])
def test_a_session_lives_on_sums(
    harness: ServiceHarness, names: tuple[str, ...], database_url: str
) -> None:
    """Every fit equals that from all rows; replay does too; what a fit reads is bounded."""
    options: dict[str, Any] = {"seasonality": [{"period": 12}]}
    if names != ("",):
        options = {"covariates": ["rain"]}
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30, "options": options}
    harness.create(algorithm="anytime", **made)
    world = World(harness, names, database_url)
    world.play(260)
    assert world.n_from_sums >= 4
    assert world.n_fits > 10
    row = world.kept()
    assert row is not None
    assert row.n_settled >= 128
    assert row.n_settled % 16 == 0
    assert 32 <= world.largest_slice < 120  # with those that are pairs with its own
    read: list[int] = harness.read  # type: ignore[attr-defined]
    assert max(read[-3:]) < 200
    with harness.store.reader() as reader:
        replay = replay_session(reader, harness.session)
    assert replay.differences == []
    assert replay.n_estimates == world.n_fits
    harness.run(DeleteSession(harness.key))
    assert world.kept() is None


@pytest.mark.parametrize(
    ("database_url", "names"),
    [("sqlite", ("",)), ("sqlite", ("", "a"))],
    indirect=["database_url"],
)
def test_rewards_may_be_later_than_the_latest_rows(
    harness: ServiceHarness, names: tuple[str, ...], database_url: str
) -> None:
    """A fit whose latest rounds are not measured is from all rows, and not from new ones alone."""
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30}
    harness.create(algorithm="anytime", **made)
    world = World(harness, names, database_url)
    world.play(150)
    n, n_fits = world.n_from_sums, world.n_fits
    world.silent_until = 260
    world.play(109)
    assert world.n_fits > n_fits + 1
    assert harness.session.estimate
    world.play(80)
    assert world.n_from_sums > n
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_no_slice_hides_a_measurement_beyond_the_window(
    harness: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of one round each; slices of four. The next fit has to add what is beyond."""
    monkeypatch.setattr(moment_sums, "GRAIN", 4)
    monkeypatch.setattr(history, "SLICE", 1)
    harness.create(algorithm="anytime", dim=DIM, horizon=6)
    contexts = np.ones((2, DIM))
    for i in range(24):
        harness.decide(f"u{i:02}", contexts=contexts)
        if i != 3:
            harness.reward(1.0, f"u{i:02}", round=1)
    harness.reward(1.0, "u03", round=1)
    window = FitWindow(1, 1, 9, 6, 9)
    due = DueFit(window, 24, 24, 0.0, "overdue", 0.0)
    with harness.store.reader() as reader:
        slices = list(history.read_slices(reader, harness.session, window, due))
    assert [(stop, each.unsettled) for stop, each in slices] == [(4, 5), (8, 9), (24, 9)]


@pytest.mark.parametrize(
    ("database_url", "names"), [("sqlite", ("", "a"))], indirect=["database_url"]
)
def test_a_corrected_value_leaves_the_sums(
    harness: ServiceHarness, names: tuple[str, ...], database_url: str
) -> None:
    """Of settled rows and of later ones; sums that hold the old value are not used again."""
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30}
    harness.create(algorithm="anytime", **made)
    world = World(harness, names, database_url)
    world.play(170)
    assert world.n_from_sums
    for oldest in (3, 20, -1, None):
        row, n, n_fits = world.kept(), world.n_from_sums, world.n_fits
        assert row is not None
        assert row.n_settled > 20
        if oldest is None:
            harness.run(VoidDecision(harness.key, "a", "~7", harness.agents))
        else:
            world.correct(oldest)
        world.play(25)
        harness.run(AskFit(harness.key, harness.agents))
        world.fit()
        assert world.n_fits > n_fits
        world.play(12)
        harness.run(AskFit(harness.key, harness.agents))
        world.fit()
        assert world.n_from_sums > n  # the next fits go on from new sums
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []


def test_a_session_with_levels_lives_on_sums(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fits equal those from all rows, after a correction, a void one and an erasure too."""
    monkeypatch.setattr(levels, "LEAST_STRETCH", 8)
    monkeypatch.setattr(levels, "HORIZONS", 1)
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30, "options": {"levels": True}}
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("", "a", "b"), database_url)
    world.play(180)
    assert world.n_from_sums >= 3
    read: list[int] = harness.read  # type: ignore[attr-defined]
    assert max(read[-3:]) < 150
    world.correct(3)
    harness.run(VoidDecision(harness.key, "a", "~7", harness.agents))
    harness.run(AskFit(harness.key, harness.agents))
    n = world.n_from_sums
    world.fit()
    assert world.n_from_sums == n
    harness.run_large(erase_trajectory(harness.key, "a"))
    assert world.kept() is None
    world.forget("a")
    world.play(80)
    row = world.kept()
    assert row is not None
    assert row.settled[:4] == b"LHBL"
    assert world.n_from_sums > n
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []


def test_an_erased_trajectory_is_in_no_sum(harness: ServiceHarness, database_url: str) -> None:
    """Later fits equal those from the rows that are left; sums settle beyond the gaps."""
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30, "options": {"most_stale": 0.1}}
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("", "a", "b"), database_url)
    world.play(200)
    before = world.kept()
    assert before is not None
    due = harness.run(AskFit(harness.key, harness.agents)).due
    running = run_fit(database_url, *harness.key, due.key, 0.0)
    assert running is not None
    harness.run_large(erase_trajectory(harness.key, "a"))
    assert world.kept() is None
    fitted = Fitted.of(running)
    assert fitted.sums is not None
    harness.run(FinishFit(harness.key, due.key, fitted, harness.agents, RetryPolicy()))
    assert world.kept() is None  # a fit that had read the rows
    world.forget("a")
    n_fits, n_from_sums = world.n_fits, world.n_from_sums
    world.play(150)
    after = world.kept()
    assert after is not None
    assert after.n_settled > harness.session.n_measurements - 100 > before.n_settled
    assert world.n_fits > n_fits + 3
    assert world.n_from_sums > n_from_sums + 1
    with harness.store.reader() as reader:
        replay = replay_session(reader, harness.session)
    assert replay.differences == []
    assert 0 < replay.n_erased <= n_fits + 1


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_after_a_change_of_the_world_sums_begin_anew(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (summed_fit, history, service.fits.past, findings):
        monkeypatch.setattr(module, "LATEST", 300)
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 30}
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("",), database_url)
    world.play(400)
    before = world.kept()
    assert before is not None
    assert before.first_round == 1
    world.play(500, sign=-1.0)
    after = world.kept()
    assert after is not None
    assert after.first_round > 300
    n = world.n_from_sums
    world.play(300, sign=-1.0)
    assert world.n_from_sums > n
    with harness.store.reader() as reader:
        assert replay_session(reader, harness.session).differences == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_does_not_stay_as_it_was_is_not_summed(
    harness: ServiceHarness, database_url: str
) -> None:
    """A default reward may be replaced by the true one after a fit has used it."""
    made = {"dim": DIM, "horizon": 6, "reward_wait_seconds": 5, "default_reward": 0.0}
    harness.create(algorithm="anytime", **made)
    world = World(harness, ("",), database_url)
    world.play(100)
    assert world.n_fits > 5
    assert harness.read == []  # type: ignore[attr-defined]
