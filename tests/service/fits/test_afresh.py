"""After an erasure a fit is due that knows nothing of who was erased, to the bit."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.base.problems import Problem
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.fits.fit_answer import Fitted
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.session.records import SessionKey, SessionRow
from service.storage.transactions import Store
from service.transfer.file_format import export_session, written
from service.transfer.replay import SessionReplay, replay_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.examples import on_one_database, repeats
from tests.lhb_engine.draw_little import draw_little
from tests.service.conftest import Client, Serve, until
from tests.service.fits.fit_gate import close_gate, process_at
from tests.service.fits.fit_jobs import fit_handed_in_late
from tests.service.fits.kept_limits import keep_sums_from
from tests.service.service_harness import ServiceHarness

DIM, N = 2, 99
THETA = np.array([0.8, -0.6])
BEGIN = 2e6
SLOTS = {"slot_seconds": 60, "start": BEGIN, "totals": "trajectory"}
ANYTIME: dict[str, dict[str, Any]] = {
    "rows": {},
    "sums": {"latest": 40},
    "levels": {"latest": 40, "options": {"levels": True}},
    "memory": {"options": {"memory": 60}},
    "added up": {"reward_mode": "sum", "reward_wait_seconds": 0.0},
    "slots": {"clock": SLOTS, "latest": 20},
}


@pytest.fixture(name="harness")
def harness_of_both(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    draw_little(monkeypatch)
    return ServiceHarness(tmp_path, store)


class World:
    """Three people, one of whom is taught something else by each seed."""

    def __init__(self, harness: ServiceHarness, url: str) -> None:
        self.harness, self.url = harness, url

    def lived(self, seed: int, n: int = N, **made: Any) -> SessionKey:
        """A session with an estimate; in it ann comes every third time."""
        harness = self.harness
        harness.now = BEGIN
        made = {"algorithm": "anytime", "dim": DIM, "horizon": 3, **made}
        harness.create(**{"reward_wait_seconds": 1e6, **made})
        self.play(n, np.random.default_rng(seed))
        self.fit()
        if made["algorithm"] == "anytime":
            self.ask()
        assert harness.session.estimate
        return harness.key

    def play(self, n: int, of_ann: np.random.Generator | None = None) -> None:
        """Rounds of one arm, so that they are the same whatever was learned; no fit is made."""
        harness, rng = self.harness, np.random.default_rng(n)
        last, late = dict.fromkeys(("", "ann", "b", "c"), 0.0), []
        for i in range(n):
            name = ("", "b", "ann" if of_ann else "c")[i % 3]
            own = of_ann if name == "ann" and of_ann else rng
            context = own.uniform(-1, 1, DIM)
            decision = harness.decide(name, contexts=context[None])
            value = float(context @ THETA) * (-0.5 if name == "ann" else 1.0) + 0.5 * last[name]
            last[name] = value
            when: dict[str, Any] = {"round": decision.round}
            if harness.session.clock is not None:
                ends = (datetime.fromtimestamp(harness.now + more, UTC) for more in (0, 60))
                when = dict(zip(("since", "until"), ends, strict=True))
            value += 0.05 * float(own.standard_normal())
            late.append((value, name, {"reward_id": f"{harness.now}", **when}))
            harness.now += 60.0 * (i % 3 == 2)
            if i % 3 == 2:
                for value, name, given in late:
                    harness.reward(value, name, **given)
                late.clear()

    def ask(self) -> Any:
        """Make the fits that are due, and one of all rows."""
        self.fit()
        self.harness.run(ask_fit(self.harness.key, self.harness.agents))
        return self.fit()

    def fit(self) -> Any:
        """Make every fit that is due; return the estimate of the last one without its time."""
        found = None
        while self.harness.session.fit_due is not None:
            found = self.finish(self.answer())
        return found

    def answer(self) -> Fitted:
        answer = run_fit(self.url, *self.harness.key, self.harness.session.fit_due or 0, 0.0)
        assert answer is not None
        return answer

    def finish(self, fitted: Fitted) -> Any:
        harness, due = self.harness, self.harness.session.fit_due or 0
        status = harness.run(FinishFit(harness.key, due, fitted, harness.agents, 3))
        assert fitted.estimate is not None, fitted.reason
        return status and {**fitted.estimate, "seconds": None}

    def erase(self, *names: str) -> None:
        for name in names:
            self.harness.run_large(erase_trajectory(self.harness.key, name))

    def in_use(self) -> Any:
        """The estimate in use."""
        number = self.harness.session.estimate
        return json.loads(self.harness.estimates[number - 1].estimate or "")

    def state(self) -> Any:
        with self.harness.store.reader() as reader:
            return json.loads(reader.agent_state(self.harness.key) or "{}")

    def reason(self) -> str:
        """Why the one fit that is not done is due."""
        schedule = self.harness.session.schedule
        assert schedule.waiting == []
        assert schedule.current is not None
        return schedule.current.reason

    def replayed(self) -> SessionReplay:
        with self.harness.store.reader() as reader:
            replay = replay_session(reader, self.harness.session)
        assert replay.differences == []
        return replay

    def exported(self) -> list[dict[str, Any]]:
        with self.harness.store.reader() as reader:
            return [json.loads(line) for line in export_session(reader, self.harness.session)][:-1]

    def imported(self, records: list[dict[str, Any]], path: Path, name: str) -> SessionRow:
        """Import a session under another name, and go on with it."""
        records = json.loads(json.dumps(records))
        records[0]["session"]["name"] = name
        session, _ = self.harness.import_file(path, b"".join(written(iter(records))))
        self.harness.key = session.key
        return self.harness.session


@pytest.fixture
def world(harness: ServiceHarness, database_url: str) -> World:
    return World(harness, database_url)


@pytest.mark.parametrize(
    ("made", "database_url"),
    [
        *(("sums", "sqlite"), ("memory", "sqlite"), ("slots", "postgres")),
        *repeats(("rows", "sqlite"), ("levels", "sqlite"), ("added up", "postgres")),
    ],
    indirect=["database_url"],
)
def test_whatever_somebody_did_the_fit_after_the_erasure_is_the_same(
    world: World, made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are later ones. Replay makes them again, from the rows that are left."""
    settings = dict(ANYTIME[made])
    if "latest" in settings:
        keep_sums_from(monkeypatch, settings.pop("latest"))
    before, after, later = [], [], []
    for seed in (1, 2):
        world.lived(seed, **settings)
        before.append(world.in_use())
        world.erase("ann")
        assert world.reason() == "erased"
        assert world.in_use() == before[-1]  # meanwhile
        after.append(world.fit())
        n_fits = world.replayed().estimates
        world.play(9)
        later.append(world.ask())
        replay = world.replayed()
        assert replay.estimates > n_fits > replay.estimates_erased > 0  # each later one is equal
    assert before[0]["theta"] != before[1]["theta"]
    assert after[0]["status"] == later[0]["status"] == "ok"
    assert after[0] == after[1]
    assert later[0] == later[1]


def test_it_is_the_fit_of_a_session_that_never_had_them(world: World, tmp_path: Path) -> None:
    world.lived(1)
    world.erase("ann")
    file = world.exported()
    found = world.fit()
    twin = [one for one in file if one["record"] not in ("estimate", "agent")]
    twin[0]["session"]["schedule"] |= {"current": None, "waiting": []}
    for one in twin:
        one |= {"model_version": 0} if one["record"] == "decision" else {}
    session = world.imported(twin, tmp_path, "twin")
    assert session.estimate == 0
    assert world.ask() == found


@on_one_database
def test_a_fit_that_runs_is_made_again(world: World) -> None:
    """Of its result nothing is recorded, nor counted as a failure."""
    harness = world.harness
    world.lived(1)
    world.play(9)
    harness.run(ask_fit(harness.key, harness.agents))
    running, before, n = world.answer(), world.in_use(), len(harness.estimates)
    due = harness.session.fit_due
    world.erase("ann")
    assert world.reason() != "erased"
    assert world.finish(running) is None
    assert {key: due for key, (due, _) in harness.effects.due.items()} == {harness.key: due}
    assert (len(harness.estimates), world.in_use()) == (n, before)
    found = world.fit()
    assert len(harness.estimates) == n + 1
    last = json.loads(harness.estimates[-1].manifest)
    assert (last["attempts"], last["n_erased"]) == (0, 66)
    assert world.in_use()["theta"] == found["theta"] != before["theta"]
    assert world.replayed().estimates_erased < n + 1


@on_one_database
def test_a_first_fit_that_runs_is_made_again(world: World) -> None:
    """No estimate is in use that would be left: the fit has read the rows all the same."""
    harness = world.harness
    harness.create(algorithm="anytime", dim=DIM, horizon=3, reward_wait_seconds=1e6)
    world.play(N, np.random.default_rng(1))
    harness.run(ask_fit(harness.key, harness.agents))
    running = world.answer()
    world.erase("ann")
    assert world.finish(running) is None
    assert harness.estimates == []
    world.fit()
    assert world.replayed().estimates_erased == 0


@on_one_database
def test_one_fit_forgets_several(world: World) -> None:
    world.lived(1)
    n = len(world.harness.estimates)
    world.erase("ann", "b")
    assert world.reason() == "erased"
    world.fit()
    assert [one.status for one in world.harness.estimates[n:]] == ["ok"]
    assert world.harness.session.fit_due is None
    assert world.harness.run(ask_fit(world.harness.key, world.harness.agents))[0] == "nothing_new"


@on_one_database
def test_of_nobody_nothing_is_known(world: World, tmp_path: Path) -> None:
    """The estimate goes, and the agent begins anew; so it does elsewhere."""
    harness = world.harness
    world.lived(1)
    version = harness.session.model_version
    world.erase("ann", "b", "")
    assert world.fit()["status"] == "insufficient_data"
    file = world.exported()
    for path in ("here", "there"):
        session = harness.session
        assert (session.estimate, session.model_version) == (0, version + 1)
        decision = harness.decide(contexts=np.eye(DIM))
        assert decision.model_version == version + 1
        assert decision.explored
        world.replayed()
        if path == "here":
            world.imported(file, tmp_path, "there")
    world.play(30)
    assert world.ask()["status"] == "ok"
    assert harness.session.model_version == version + 2
    world.replayed()


@on_one_database
def test_a_session_that_moves_before_the_fit_forgets_there(world: World, tmp_path: Path) -> None:
    world.lived(1)
    world.erase("ann")
    file = world.exported()
    found, version = world.fit(), world.harness.session.model_version
    after = world.exported()
    world.imported(file, tmp_path, "before the fit")
    assert world.reason() == "erased"
    assert world.fit() == found
    assert world.harness.session.model_version == version
    world.replayed()
    world.imported(after, tmp_path, "after the fit")
    assert world.harness.session.model_version == version
    world.replayed()
    forged = [one for one in after if one["record"] == "estimate"][-1]["manifest"]
    forged["n_erased"] += 1
    with pytest.raises(Problem, match="n_erased"):
        world.imported(after, tmp_path, "forged")


@on_one_database
def test_what_was_forgotten_by_an_earlier_release_is_forgotten_when_asked(
    world: World, tmp_path: Path
) -> None:
    """Its estimates do not say of whom they know."""
    world.lived(1)
    world.erase("ann")
    found, file = world.fit(), world.exported()
    for one in file:
        if one["record"] == "estimate":
            one["manifest"].pop("n_erased", None)
    world.imported(file, tmp_path, "old")
    assert world.harness.session.fit_due is None
    assert world.ask() == found


@pytest.mark.parametrize("algorithm", [*repeats("ad_lasso", "sw_mp"), "doubling_lasso", "ucb_mp"])
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_last_epoch_is_fitted_again(world: World, algorithm: str, tmp_path: Path) -> None:
    """Where fits are made at the ends of epochs only; it moves house in between, too."""
    found, files = [], []
    for seed in (1, 2):
        world.lived(seed, algorithm=algorithm)
        due = [one.due for one in world.harness.estimates if one.status == "ok"][-1]
        before = world.in_use()
        world.erase("ann")
        assert world.reason() == "erased"
        files.append(world.exported())
        found.append((before, world.fit()))
        assert world.harness.estimates[-1].due == due
        world.replayed()
    assert found[0][0]["theta"] != found[1][0]["theta"]
    assert found[0][1] == found[1][1]
    world.imported(files[0], tmp_path, "moved")
    assert world.fit() == found[0][1]
    assert ("ellipsoid" in world.state()) == (algorithm == "ucb_mp")


@pytest.mark.anyio
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_server_makes_it_again_and_at_once(serve: Serve) -> None:
    """The fit that is due after the same round as the one that ran is not lost."""
    async with serve() as client:
        gate = close_gate(client, fit_handed_in_late)
        gate.unlink()
        session = await client.create(algorithm="anytime")
        for name in ("ann", ""):
            for _ in range(12):
                answer = await client.decide(session, trajectory=name)
                when = {"trajectory": name, "round": answer["round"]}
                await client.reward(session, value=float(answer["arm"]), **when)
        await until(lambda: is_fitted(client, session))
        gate.touch()
        gate.with_suffix(".pid").unlink(missing_ok=True)
        answer = await client.decide(session)
        await client.reward(session, value=0.5, round=answer["round"])
        await client.post(f"/v1/sessions/{session}/fits", json={})
        await process_at(gate)
        assert (await client.delete(f"/v1/sessions/{session}/trajectories/ann")).status_code == 204
        gate.unlink()
        await until(lambda: is_fitted(client, session))
        fits = (await client.read(f"/v1/sessions/{session}/epochs"))["items"]
        done = [one for one in fits if "number" in one]
        assert done[-1]["window"]["due"] == 25
        with client.service.store.reader() as reader:
            record = reader.estimate(("", session), done[-1]["number"])
        assert record is not None
        assert json.loads(record.manifest)["n_erased"] == 24


async def is_fitted(client: Client, session: str) -> bool:
    return not (await client.read(f"/v1/sessions/{session}"))["fit_due"]
