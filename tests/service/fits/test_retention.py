"""A session that drops old rows goes on as one that keeps them: the same fits, to the bit."""

from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.anytime import Anytime
from lhb_engine.agents.fit_past import sums_from_bytes
from lhb_engine.findings import all_checks, check_scores
from service.commands.decisions import void_decision
from service.commands.drop_rounds import drop_rounds, drop_slice, give_up_rounds, plan
from service.commands.erase_trajectory import erase_trajectory
from service.commands.out_of_turn import ask_fit
from service.commands.rewards import ReceiveRewards
from service.commands.sessions import change_session
from service.fits import job
from service.fits.stored_sums import sums_without
from service.rounds.reward import Reward
from service.rounds.timeline import timeline_of
from service.session.records import SessionKey
from service.transfer.file_format import records, written
from service.transfer.import_file import fold_file
from service.transfer.replay import replay_session
from service.writer.agent_cache import Agents, build_agent
from service.writer.command import SessionCommand
from service.writer.unit_of_work import UnitOfWork
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.fits.retention_twins import (  # noqa: F401
    ANYTIME,
    DIM,
    HORIZON,
    LoseSums,
    Twins,
    refused,
    small_limits,
)
from tests.service.service_harness import ServiceHarness

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class CountOneMore(SessionCommand[None]):
    """What no fit does where rows were dropped."""

    key: SessionKey
    agents: Agents

    def __call__(self, uow: UnitOfWork) -> None:
        session = uow.session(self.key)
        assert session is not None
        agent = self.agents.get(uow, session)
        assert isinstance(agent, Anytime)
        agent._count((*agent.products, (2, 2)))
        uow.save_agent(self.key)


NAMES, LEVELS = ("", "a", "b"), {"options": {"levels": True}}
PAST = {"options": {"levels": True, "zero_start": False}}
SUM, DEFAULT = {"reward_mode": "sum"}, {"default_reward": 0.25}


@pytest.mark.parametrize(
    ("database_url", "names", "settings"),
    [
        ("postgres", NAMES, {}),
        ("sqlite", NAMES, LEVELS),
        ("sqlite", NAMES, SUM),
        ("sqlite", NAMES, SUM | LEVELS),
        ("sqlite", NAMES, DEFAULT | LEVELS),
        ("postgres", ("",), DEFAULT | PAST),
    ],
    ids=["plain", "levels", "sum", "sum-levels", "default-levels", "alone-default-levels-past"],
    indirect=["database_url"],
)
def test_fits_are_those_of_a_session_that_keeps_all(
    harness: ServiceHarness, names: tuple[str, ...], settings: dict[str, Any], database_url: str
) -> None:
    twins = Twins(harness, database_url, {"keep_rounds": 100}, **settings)
    n_drops = 0
    for _ in range(9):
        twins.play(40, names)
        n_drops += twins.drop(1)
    assert n_drops >= 2
    kept, dropped = twins.session(0), twins.session(1)
    assert dropped.swept_to == dropped.dropped_to >= 100
    assert dropped.n_dropped_rounds >= 100 - timeline_of(dropped).n_before(dropped) * len(names)
    assert dropped.n_dropped_rounds <= dropped.dropped_to - timeline_of(dropped).n_before(dropped)
    counts = [twins.n_rows(i) for i in (0, 1)]
    assert counts[0]["decisions"] - counts[1]["decisions"] == dropped.n_dropped_rounds
    n_less = counts[0]["measurements"] - counts[1]["measurements"]
    assert n_less == dropped.n_dropped_measurements > 0
    assert dropped.n_dropped_rounds > n_less  # some rounds have no reward
    assert (kept.n_complete, kept.n_rounds) == (dropped.n_complete, dropped.n_rounds)
    left = twins.rows(1)
    places = {row.position for row in left["decisions"]}
    assert places >= set(range(dropped.dropped_to + 1, dropped.n_rounds + 1))
    # what has gone was covered as the session says
    gone = {(r.trajectory, r.round) for r in twins.rows(0)["decisions"]}
    gone -= {(r.trajectory, r.round) for r in left["decisions"]}
    covered = {
        (m.trajectory, r)
        for m in twins.rows(0)["measurements"]
        for r in range(m.first_round, m.last_round + 1)
    }
    assert dropped.n_dropped_complete == len(gone & covered)
    with harness.store.reader() as reader:
        replay = replay_session(reader, dropped)
    assert replay.differences == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_products_that_count_go_on_in_the_sums_of_dropped_rows(
    harness: ServiceHarness, database_url: str
) -> None:
    """No other product counts from then on: the sums lack it."""
    twins = Twins(harness, database_url, {"keep_rounds": 100})
    twins.bends = 1.5
    twins.play(120, ("", "a"))
    assert [twins.last_estimate(i)["products"] for i in (0, 1)] == [[[0, 1]]] * 2
    n_drops = 0
    for _ in range(5):
        twins.play(40, ("", "a"))
        n_drops += twins.drop(1)
    assert n_drops >= 2
    assert twins.last_estimate(1)["products"] == [[0, 1]]
    dropped = twins.session(1)
    with harness.store.reader() as reader:
        assert replay_session(reader, dropped).differences == []
        agent = build_agent(dropped, reader.agent_state(dropped.key))
        about = replace(dropped, keep_rounds=2**15)  # the fewest that a session may keep
        file = BytesIO(b"".join(written(records(reader, dropped, about))))
        assert sums_without(reader, dropped, "a") != reader.kept_sums(dropped.key)
    assert sums_from_bytes(agent, twins.kept(1).settled).dim == DIM + 1
    fold, _ = fold_file(file, BytesIO(), False)
    assert fold.agent.state() == agent.state()

    harness.run(CountOneMore(dropped.key, harness.agents))  # which these sums lack
    twins.play_one_side(20, ("", "a"))
    harness.run(ask_fit(dropped.key, harness.agents))
    estimate = twins.fit_one(1)
    assert (estimate["status"], estimate["products"]) == ("ok", [[0, 1]])


def test_products_that_a_fit_from_sums_finds_are_in_its_sums(
    harness: ServiceHarness, database_url: str
) -> None:
    """It reads all rows again. Made again, it is equal to the bit."""
    twins = Twins(harness, database_url)
    twins.play(100, ("", "a"))
    assert twins.last_estimate(0)["products"] == []
    twins.bends = 1.5
    twins.play(200, ("", "a"))
    estimate, agent = twins.last_estimate(0), make_agent("anytime", dim=DIM, horizon=HORIZON)
    assert estimate["products"] == [[0, 1]]
    agent.products = ((0, 1),)
    assert sums_from_bytes(agent, twins.kept(0).settled).dim == DIM + 1
    with harness.store.reader() as reader:
        assert replay_session(reader, twins.session(0)).differences == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_erased_people_leave_no_products(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit by other options keeps products, one after an erasure has to find them anew."""
    twins = Twins(harness, database_url)
    twins.bends = 1.5
    twins.play(120, ("", "a"))
    assert twins.last_estimate(0)["products"] == [[0, 1]]
    monkeypatch.setattr(all_checks, "check_scores", lambda *_: ())
    harness.key = twins.keys[0]
    harness.run(change_session(harness.key, {"options": {"trend": True}}))
    assert twins.fit_one(0)["products"] == [[0, 1]]
    harness.run_large(erase_trajectory(harness.key, "a"))
    assert twins.fit_one(0)["products"] == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_people_who_are_erased_before_a_fit_reads_again_leave_no_products(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it found before counts no more, and made again the fit is equal to the bit."""
    twins = Twins(harness, database_url)
    twins.play(100, ("", "a"))
    harness.key = twins.keys[0]
    found, opened, read = [check_scores._of_product(0, 1)], [], job.open_reader

    def erased_between(url: str) -> Any:
        opened.append(url)
        if len(opened) == 2:
            found[:] = []
            harness.run_large(erase_trajectory(harness.key, "a"))
        return read(url)

    monkeypatch.setattr(job, "open_reader", erased_between)
    monkeypatch.setattr(all_checks, "check_scores", lambda *given: found if not given[4] else ())
    harness.run(ask_fit(harness.key, harness.agents))
    assert twins.fit_one(0)["products"] == found == []
    assert len(opened) > 1
    with harness.store.reader() as reader:
        assert replay_session(reader, twins.session(0)).differences == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_what_comes_for_a_dropped_round_is_told(harness: ServiceHarness, database_url: str) -> None:
    """Nothing is written; what is repeated, and still there, gets the first answer."""
    twins = Twins(harness, database_url, {"keep_rounds": 100})
    twins.play(150, ("", "a"))
    key = (*twins.keys[1], "")
    early = harness.decide(event_id="kept", digest=b"d", contexts=np.eye(DIM))
    first = {"reward_id": "r-1", "round": early.round}
    harness.reward(0.5, **first)
    with harness.store.reader() as reader:
        [missing, *_] = sorted(
            {d.round for d in reader.decisions(key, 0, 999)}
            - {
                r
                for m in reader.measurement_log(key)
                for r in range(m.first_round, m.last_round + 1)
            }
        )
    twins.play_one_side(250, ("", "a"))
    assert twins.drop(1)
    session = twins.session(1)
    assert session.dropped_to > early.position
    with harness.store.reader() as reader:
        left = reader.first_left(key)
        before = list(reader.measurement_log(key))
    assert left is not None
    assert left > early.round > missing
    gone = refused("round_dropped", harness.reward, 1.0, round=missing)
    assert gone.field == "round"
    assert f"after position {session.dropped_to}" in gone.detail
    assert refused("round_dropped", harness.reward, 1.0, event_id="~2").field == "event_id"
    span = {"first_round": missing, "last_round": missing}
    assert refused("round_dropped", harness.reward, 1.0, **span).field == "first_round"
    refused("round_dropped", harness.reward, 0.5, **first)  # whether it came nobody can tell
    closed = {"reward_id": "new", "round": left}  # its row is there for others' lags
    found = [m for m in before if m.first_round <= left <= m.last_round]
    if not found:
        refused("round_dropped", harness.reward, 0.5, **closed)
    told = refused("unknown_event", harness.reward, 1.0, event_id="kept")
    assert "not dropped" in told.detail
    n = harness.session.n_rounds
    again = harness.decide(event_id="kept", digest=b"d", contexts=np.eye(DIM))
    assert again.position == n + 1  # its first answer went with its row
    changed = {"correct": True, "reward_id": "c"}
    refused("round_dropped", harness.reward, 2.0, round=missing, **changed)
    used = next(m for m in before if m.first_round == m.last_round and m.first_round > left + 12)
    told = refused("no_corrections", harness.reward, 2.0, round=used.first_round, **changed)
    assert "drops rows" in told.detail
    agents = harness.agents
    refused("round_dropped", harness.run, void_decision(twins.keys[1], "", "~3", agents))
    late = f"~{harness.decide(contexts=np.eye(DIM)).number}"
    refused("no_corrections", harness.run, void_decision(twins.keys[1], "", late, agents))
    with harness.store.reader() as reader:
        assert list(reader.measurement_log(key)) == before
    last = harness.decide(contexts=np.eye(DIM)).round
    rewards = [Reward(0.5, "", round=last), Reward(0.5, "", round=missing)]
    both = ReceiveRewards(twins.keys[1], rewards, agents, "rewards")
    assert refused("round_dropped", harness.run, both).field == "rewards[1].round"
    # a value that no fit has used may still be corrected, and the next fit goes on from sums
    decision = harness.decide(contexts=np.eye(DIM))
    harness.reward(9.0, round=decision.round, reward_id="w")
    harness.reward(0.1, round=decision.round, correct=True, reward_id="w2")
    harness.run(ask_fit(harness.key, agents))
    assert twins.fit_one(1)["n_rows"] > len(before)


def test_a_kill_between_slices_loses_nothing(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that is begun again, or by two processes at once, ends as one pass does."""
    kept = {"keep_rounds": 100}
    twins = Twins(harness, database_url, kept, kept, kept)
    names = ("", "a", "b")
    twins.play(300, names)
    assert twins.drop(1)
    for i in (2, 3):
        session = twins.session(i)
        with harness.store.reader() as reader:
            found = plan(reader, session, harness.now, young=0.0)
        assert found is not None
        assert harness.run(give_up_rounds(session.key, found))
        assert not harness.run(give_up_rounds(session.key, found))  # by another process
    to = twins.session(1).dropped_to
    cursor = harness.run(drop_slice(twins.keys[2], to))
    for _ in range(3):
        cursor = harness.run(drop_slice(twins.keys[2], to, cursor))
        twins.play(4, names)  # all sessions go on, and are alike, with half of a pass done
    assert twins.session(2).swept_to < to
    harness.run_large(drop_rounds(twins.keys[2], to))  # from the beginning
    passes = [drop_rounds(twins.keys[3], to) for _ in range(2)]
    results: list[Any] = [None, None]
    while passes:
        for one in list(passes):
            i = passes.index(one)
            try:
                results[i] = harness.run(one.send(results[i]))
            except StopIteration:
                results.pop(i)
                passes.pop(i)
    one, *others = (twins.session(i) for i in (1, 2, 3))
    for other in others:
        for name in (
            "swept_to",
            "n_dropped_rounds",
            "n_dropped_measurements",
            "n_dropped_complete",
        ):
            assert getattr(other, name) == getattr(one, name), name
    assert twins.n_rows(1) == twins.n_rows(2) == twins.n_rows(3)
    assert harness.run(drop_slice(twins.keys[3], to)) is None
    twins.play(60, names)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_trajectory_goes_on_after_its_rows_went(
    harness: ServiceHarness, database_url: str
) -> None:
    """Rounds whose lags are gone teach nothing, and hinder nothing; numbers go on."""
    twins = Twins(harness, database_url, {"keep_rounds": 100})
    twins.play(40, ("", "gone"))
    twins.play(360, ("",))
    assert twins.drop(1)
    session = twins.session(1)
    key = (*session.key, "gone")
    with harness.store.reader() as reader:
        assert reader.first_left(key) is None
        row = reader.trajectory(key)
    assert row is not None
    refused("round_dropped", harness.reward, 1.0, "gone", round=row.n_rounds)
    refused("future_round", harness.reward, 1.0, "gone", round=row.n_rounds + 1)
    decision = harness.decide("gone", contexts=np.eye(DIM))
    assert (decision.round, decision.event_id) == (row.n_rounds + 1, f"~{row.n_rounds + 1}")
    n = twins.last_estimate(1)["n_rows"]
    harness.reward(50.0, "gone", round=decision.round)
    for _ in range(HORIZON - 2):
        harness.reward(50.0, "gone", round=harness.decide("gone", contexts=np.eye(DIM)).round)
    harness.run(ask_fit(harness.key, harness.agents))
    found = twins.fit_one(1)
    others = len(twins.rows(1)["measurements"])
    assert found["n_rows"] < n + others
    before = found["n_rows"]
    harness.reward(0.5, "gone", round=harness.decide("gone", contexts=np.eye(DIM)).round)
    harness.run(ask_fit(harness.key, harness.agents))
    found = twins.fit_one(1)
    assert found["n_rows"] == before + 1
    settled = twins.kept(1).n_settled
    twins.play_one_side(60, ("",))
    harness.reward(0.5, round=harness.decide(contexts=np.eye(DIM)).round)
    if harness.run(ask_fit(harness.key, harness.agents))[1] is not None:
        twins.fit_one(1)
    assert twins.kept(1).n_settled > settled + 16  # what is no row is not waited for
