"""Trajectories with responses of their own: what decides is theirs, in both databases."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.history import FitWindow, History, Trajectory
from lhb_engine.posterior.predictor import Predictor
from service.api.trajectories import _one
from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.commands.erase_trajectory import erase_trajectory
from service.commands.sessions import change_session
from service.rounds import trajectory_theta
from service.rounds.stored_rows import stored_measurements
from service.rounds.timeline import timeline_of
from service.session.records import SessionRow, TrajectoryRow
from service.storage.transactions import Store
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from service.writer.agent_cache import build_agent
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.examples import on_one_database, repeats
from tests.lhb_engine.draw_little import little_drawn, seldom_fitted  # noqa: F401
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.service_harness import ServiceHarness

DIM, USERS = 2, ("a", "b", "c", "d", "e", "f")
THETAS = {name: np.array([np.cos(i / 3), np.sin(i / 3)]) for i, name in enumerate(USERS)}
SETTINGS = ("reward_mode", "default_reward", "reward_wait_seconds", "clock", "mode", "holdout")


@pytest.fixture(name="harness")
def over_store(tmp_path: Path, store: Store) -> ServiceHarness:  # noqa: F811
    return ServiceHarness(tmp_path, store)


class World:
    """Users who want different things; their rewards come at once."""

    thetas: Mapping[str, np.ndarray] = THETAS

    def __init__(self, harness: ServiceHarness, url: str, **options: Any) -> None:
        self.harness, self.url, self.rng = harness, url, np.random.default_rng(5)
        body = {name: options.pop(name) for name in SETTINGS if name in options}
        own = {"own": True, "profiles": "shared", **options}
        self.levels = {name: 2.0 * i for i, name in enumerate(USERS) if options.get("levels")}
        harness.create(algorithm="anytime", dim=DIM, horizon=2, options=own, **body)

    def decide(self, name: str) -> Any:
        self.harness.now += 1.0
        contexts = self.rng.standard_normal((4, DIM))
        decision = self.harness.decide(name, contexts=contexts)
        return decision, float(contexts[decision.arm] @ self.thetas[name])

    def play(self, n: int) -> None:
        for i in range(n):
            name = [*self.thetas][i % len(self.thetas)]
            decision, value = self.decide(name)
            value += self.levels.get(name, 0.0) + 0.05 * float(self.rng.standard_normal())
            self.reward(value, name, decision.round)
            self.harness.make_fits(self.url)

    def reward(self, value: float, name: str, round: int) -> None:
        """In two parts where rewards add up."""
        if self.harness.session.reward_mode == "single":
            self.harness.reward(value, name, round=round)
            return
        for part in (0.25, 0.75):
            id = f"{name}-{round}-{part}"
            self.harness.reward(part * value, name, round=round, reward_id=id)

    def row(self, name: str) -> TrajectoryRow:
        with self.harness.store.reader() as reader:
            found = reader.trajectory((*self.harness.key, name))
        assert found is not None
        return found

    def differences(self) -> list[str]:
        with self.harness.store.reader() as reader:
            return replay_session(reader, self.harness.session).differences


@on_one_database
@pytest.mark.parametrize("levels", [False, *repeats(True)])
def test_each_is_decided_for_by_their_own_theta(
    harness: ServiceHarness, database_url: str, tmp_path: Path, levels: bool
) -> None:
    """It points where the user's does; replay and an imported copy agree to the bit."""
    world = World(harness, database_url, levels=levels, profiles="chosen")
    world.play(120)
    for name, theta in THETAS.items():
        decision, _ = world.decide(name)
        own = np.frombuffer(decision.own)
        assert own @ theta > 0.97 * np.linalg.norm(own), name
        number = trajectory_theta.HEAD.pack(harness.session.estimate, 0.0, np.inf)
        assert world.row(name).own == number + own.tobytes()
        with harness.store.reader() as reader:
            said = _one(reader, harness.session, name, harness.now)
            estimate = reader.installed(harness.session).values
        assert said["own"]["values"] == own.tolist()
        low, high = np.array(said["own"]["intervals"]).T
        assert np.all((low < own) & (own < high) & (high - low < 0.3)), name
        assert (said["level"] is not None) == levels
        if levels:
            value = estimate["intercept"] + said["level"]["value"]
            assert value == pytest.approx(world.levels[name], abs=0.1), name
    assert harness.decide("new", contexts=np.eye(DIM)).own is None  # everybody's
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, harness.session))
    last = [world.decide(name)[0] for name in USERS]
    harness.key = harness.import_file(tmp_path, content)[0].key
    world.rng = np.random.default_rng(5)
    assert world.differences() == []
    again = harness.decide("a", contexts=np.eye(DIM))
    assert again.own == last[0].own


class InGroups(World):
    """Three groups of four users, who want about what their group wants."""

    thetas: Mapping[str, np.ndarray] = {
        f"{name}:{user}": np.array([np.cos(angle + 0.02 * user), np.sin(angle + 0.02 * user)])
        for name, angle in (("de", 0.0), ("fr", 0.7), ("it", 1.4))
        for user in range(4)
    }


@pytest.mark.slow
@on_one_database
def test_a_new_trajectory_is_decided_for_as_its_group(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    """From its first decision on; replay and an imported copy agree to the bit."""
    world = InGroups(harness, database_url, groups=":")
    world.play(180)
    new = {}
    for name, angle in (("de", 0.0), ("fr", 0.7), ("it", 1.4)):
        decision = harness.decide(f"{name}:new", contexts=np.eye(DIM))
        new[name] = own = np.frombuffer(decision.own)
        toward = np.array([np.cos(angle), np.sin(angle)])
        assert own @ toward > 0.98 * np.linalg.norm(own), name
        with harness.store.reader() as reader:
            said = _one(reader, harness.session, f"{name}:new", harness.now)
        assert said["group"]["name"] == name
        assert said["group"]["values"] == said["own"]["values"] == own.tolist()
        low, high = np.array(said["group"]["intervals"]).T
        assert np.all((low < own) & (own < high) & (high - low < 0.4))
    elsewhere = harness.decide("es:new", contexts=np.eye(DIM))
    with harness.store.reader() as reader:
        said = _one(reader, harness.session, "es:new", harness.now)
        assert said["group"] is None
        assert np.frombuffer(elsewhere.own).tolist() == said["everybody"]["values"]
        content = b"".join(export_session(reader, harness.session))
    harness.key = harness.import_file(tmp_path, content)[0].key
    assert world.differences() == []
    again = harness.decide("fr:newer", contexts=np.eye(DIM))
    assert np.frombuffer(again.own).tolist() == new["fr"].tolist()


@on_one_database
def test_one_row_decides_until_something_is_new(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds are read after a reward, a correction, a void decision or a fit, and not else."""
    world, read = World(harness, database_url, most_stale=1), []
    world.play(120)
    last_rounds = trajectory_theta.last_rounds

    def counted(reader: Any, session: Any, name: str, *place: int) -> Any:
        read.append(name)
        return last_rounds(reader, session, name, *place)

    monkeypatch.setattr(trajectory_theta, "last_rounds", counted)
    before = world.decide("a")[0]
    assert [world.decide("a")[0].own for _ in range(3)] == [before.own] * 3
    assert len(read) <= 1
    read.clear()
    harness.reward(3.0, "a", round=before.round)
    after = world.decide("a")[0]
    assert after.own != before.own
    harness.reward(-3.0, "a", round=before.round, correct=True, reward_id="c")
    assert world.decide("a")[0].own not in (before.own, after.own)
    harness.run(void_decision(harness.key, "a", before.event_id, harness.agents))
    world.decide("a")
    assert read == ["a"] * 3
    assert world.differences() == []


def test_where_all_are_alike_no_round_is_read() -> None:
    """A session whose users do not differ pays nothing for the option."""
    agent, theta = make_agent("anytime", dim=DIM, horizon=2, own=True), np.ones(DIM)
    alike = {"covariance": [[0.0, 0.0], [0.0, 0.0]], "noise": 0.1}
    agent.theta, agent.prediction = theta, Predictor(theta, theta, 0.0, 0.1, 9, True, own=alike)
    row, session = (
        TrajectoryRow("t", "s", "a", 1, 1, 1),
        cast("SessionRow", SimpleNamespace(estimate=3)),
    )
    found = trajectory_theta.own_agent(lambda: pytest.fail("read"), session, agent, "a", row, 0.0)
    assert found == (agent, None)


@on_one_database
def test_who_is_erased_begins_as_everybody(harness: ServiceHarness, database_url: str) -> None:
    world = World(harness, database_url)
    world.play(120)
    assert world.decide("a")[0].own is not None
    harness.run_large(erase_trajectory(harness.key, "a"))
    assert harness.decide("a", contexts=np.eye(DIM)).own is None


class CallersWorld(World):
    """The same users, of whose rounds others play some, or all."""

    def decide(self, name: str) -> Any:
        self.harness.now += 1.0
        contexts = self.rng.standard_normal((4, DIM))
        is_shadow = self.harness.session.trial.mode == "shadow"
        forced = {"forced_arm": int(self.rng.integers(4))} if is_shadow else {}
        decision = self.harness.decide(name, contexts=contexts, **forced)
        own = np.frombuffer(decision.own or b"")
        if len(own):
            assert decision.agent_arm == np.argmax(contexts @ own)
        return decision, float(contexts[decision.arm] @ self.thetas[name])


@pytest.mark.slow
@on_one_database
@pytest.mark.parametrize(
    "trial", [{"mode": "shadow"}, *repeats({"holdout": {"share": 0.5, "policy": "uniform"}})]
)
def test_where_others_play_the_agents_arm_is_by_own_thetas(
    harness: ServiceHarness, database_url: str, trial: dict[str, Any]
) -> None:
    """A shadow learns each one's theta from the caller's arms, and a holdout from control's."""
    world = CallersWorld(harness, database_url, **trial)
    world.play(120)
    players = set()
    for name, theta in THETAS.items():
        decision, _ = world.decide(name)
        own = np.frombuffer(decision.own)
        assert own @ theta > 0.95 * np.linalg.norm(own), name
        players.add(decision.played_by)
    assert players == ({"caller"} if "mode" in trial else {"agent", "control"})
    assert world.differences() == []


class SlotWorld(World):
    """The same users, and slots of ten seconds; a user has one decision in each, or two."""

    def __init__(self, harness: ServiceHarness, url: str, most: int) -> None:
        clock = {"slot_seconds": 10, "totals": "trajectory", "late_slots": 3}
        super().__init__(harness, url, clock=clock)
        self.most = most

    def play(self, n: int) -> None:
        for _ in range(n):
            start, totals = self.harness.now // 10 * 10, dict.fromkeys(USERS, 0.0)
            for i, name in enumerate(USERS * self.most):
                if i < len(USERS) or self.rng.random() < 0.5:
                    totals[name] += self.decide(name)[1]
            self.harness.now = start + 10.0
            for name, value in totals.items():
                noise = 0.05 * float(self.rng.standard_normal())
                ends = [datetime.fromtimestamp(at, UTC) for at in (start, start + 10.0)]
                self.harness.reward(value + noise, name, since=ends[0], until=ends[1])
            self.harness.make_fits(self.url)

    def decide(self, name: str) -> Any:
        self.harness.now += 0.1
        contexts = self.rng.standard_normal((4, DIM))
        decision = self.harness.decide(name, contexts=contexts)
        return decision, float(contexts[decision.arm] @ THETAS[name])


@pytest.mark.slow
@on_one_database
def test_it_is_worked_out_by_slots(
    harness: ServiceHarness, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the same slots as a fit's, whether their sums are kept; a late decision renews it."""
    have_sizes(monkeypatch, n_slots=8, page=5)
    world = SlotWorld(harness, database_url, 2)
    world.play(24)
    for name, theta in THETAS.items():
        own = np.frombuffer(world.decide(name)[0].own)
        assert own @ theta > 0.95 * np.linalg.norm(own), name
    kept = world.decide("a")[0].own
    assert world.decide("a")[0].own == kept
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, harness.session))
        row, session = world.row("a"), harness.session
        place = trajectory_theta.first_of_last(session, row), row.n_rounds
        part = trajectory_theta.last_rounds(reader, session, "a", *place)
        assert reader.last_slot_sums(session.key, 24).last_slot > 8
        window = FitWindow(1, 1, row.measured_through, 2, row.measured_through)
        past = timeline_of(session).past(reader, session, window, None, takes_kept=False)
        whole = joined_contexts(past.whole(), "a")
    assert part is not None
    assert part.contexts.tobytes() == whole[: len(part.contexts)].tobytes()
    late = harness.decide("a", contexts=9.0 * np.eye(DIM), at=harness.now - 20.0)
    assert late.own == kept
    renewed = harness.decide("a", contexts=np.eye(DIM)).own
    assert renewed != kept
    with harness.store.reader() as reader:
        again = b"".join(export_session(reader, harness.session))
    for file, own in ((content, kept), (again, renewed)):
        harness.key = harness.import_file(tmp_path, file)[0].key
        assert harness.decide("a", contexts=np.eye(DIM)).own == own
        assert world.differences() == []


@on_one_database
def test_one_decision_a_slot_is_one_a_round(harness: ServiceHarness, database_url: str) -> None:
    """A slot with one decision has its context: what is worked out is equal to the bit."""
    world = SlotWorld(harness, database_url, 1)
    world.play(24)
    kept = world.decide("b")[0].own
    with harness.store.reader() as reader:
        decisions = reader.decisions((*harness.key, "b"), 0, 1000)[:-1]
        found = [*reader.measurements_in(harness.key, [("b", 1, 10**6)], 10**6)]
        values = stored_measurements(found, harness.session)["b"]
        agent = build_agent(harness.session, reader.agent_state(harness.key))
    given = b"".join(one.context for one in decisions)
    contexts = np.frombuffer(given).reshape(len(decisions), -1)
    assert agent.of("", Trajectory(contexts, values, int(values.first[0]))).theta.tobytes() == kept


def joined_contexts(history: History, name: str) -> np.ndarray:
    """The contexts of a trajectory's parts, one after the other."""
    found = [part.contexts for key, part in history.trajectories.items() if key == name]
    return np.concatenate(found)


def test_what_excludes_it(harness: ServiceHarness) -> None:
    with pytest.raises(Problem):
        harness.create(algorithm="anytime", options={"own": True}, clock={"slot_seconds": 60})
    harness.create(algorithm="anytime", options={"own": True}, keep_rounds=40_000)


SUM, DEFAULT = {"reward_mode": "sum"}, {"default_reward": 0.0}


@pytest.mark.slow
@on_one_database
@pytest.mark.parametrize(("mode", "wait"), [(SUM, 9.0), (DEFAULT, 0.0)])
def test_it_is_renewed_as_time_closes_rounds(
    harness: ServiceHarness, database_url: str, mode: dict[str, Any], wait: float, tmp_path: Path
) -> None:
    """An imported copy, which works all of it out anew, decides by the same bits."""
    world = World(harness, database_url, **mode, reward_wait_seconds=wait)
    world.play(120)
    for name, theta in THETAS.items():
        own = np.frombuffer(world.decide(name)[0].own)
        assert own @ theta > 0.95 * np.linalg.norm(own), name
    harness.now += wait + 1
    decided = [world.decide("a")[0].own for _ in range(2)]
    assert (decided[0] == decided[1]) == (wait > 0)  # without a wait each decision closes a round
    harness.now += wait + 1
    with harness.store.reader() as reader:
        said = _one(reader, harness.session, "a", harness.now)["own"]
        content = b"".join(export_session(reader, harness.session))
    last = harness.decide("a", contexts=np.eye(DIM))
    assert last.own != decided[1]  # rounds without a reward have closed meanwhile
    assert np.array(said["values"]).tobytes() == last.own
    live, harness.key = harness.key, harness.import_file(tmp_path, content)[0].key
    assert harness.decide("a", contexts=np.eye(DIM)).own == last.own
    assert world.differences() == []
    harness.key = live  # with a longer wait rounds are open again
    longer = {"reward_wait_seconds": wait + 1000.0}
    harness.run(change_session(live, longer))
    with harness.store.reader() as reader:
        said = _one(reader, harness.session, "a", harness.now)["own"]
    again = harness.decide("a", contexts=np.eye(DIM)).own
    assert np.array(said["values"]).tobytes() == again != last.own
