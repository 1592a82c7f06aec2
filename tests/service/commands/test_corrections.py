"""Corrections: the next fit uses the later value, an earlier fit is repeated with the earlier."""

from pathlib import Path
from typing import Any

import pytest

from lhb_engine.history import FitWindow
from service.base.problems import Problem
from service.commands.decisions import void_decision
from service.commands.rewards import ReceiveRewards
from service.rounds.reward import Reward
from service.session.fit_schedule import Watermark
from service.storage.transactions import Store
from service.transfer.file_format import export_session
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.service.histories import read_history
from tests.service.service_harness import ServiceHarness


@pytest.fixture
def harness(tmp_path: Path, store: Store) -> ServiceHarness:  # noqa: F811
    return ServiceHarness(tmp_path, store)


def read(harness: ServiceHarness, measured: int = 10**6) -> dict[str, list[tuple[int, int, float]]]:
    """What a fit with that manifest reads, by trajectory."""
    session = harness.session
    window = FitWindow(1, 1, session.n_rounds, 4, session.n_rounds)
    known = Watermark(measured, 10**6, harness.now)
    with harness.store.reader() as reader:
        found = read_history(reader, session, window, known)
    parts = {name: part.measurements for name, part in found.trajectories.items()}
    return {
        name: list(zip(m.first.tolist(), m.last.tolist(), m.value.tolist(), strict=True))
        for name, m in parts.items()
    }


def contexts(harness: ServiceHarness, measured: int = 10**6, name: str = "") -> list[list[float]]:
    """The selected contexts that a fit with that manifest reads."""
    session = harness.session
    window = FitWindow(1, 1, session.n_rounds, 4, session.n_rounds)
    known = Watermark(measured, 10**6, harness.now)
    with harness.store.reader() as reader:
        found = read_history(reader, session, window, known)
    return [row.tolist() for row in found.trajectories[name].contexts]


def refused(harness: ServiceHarness, code: str, field: str, value: float, **what: Any) -> None:
    n = harness.session.n_measurements
    with pytest.raises(Problem) as raised:
        harness.reward(value, **what)
    assert (raised.value.code, raised.value.field) == (code, field)
    assert harness.session.n_measurements == n


def test_a_manifest_names_the_value_that_a_fit_uses(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(3)
    harness.reward(7.0, round=2, correct=True, reward_id="x")
    harness.reward(8.0, round=2, correct=True, reward_id="y")
    values = [read(harness, n)[""][1][2] for n in (3, 4, 5)]
    assert values == [1.0, 7.0, 8.0]
    assert [len(read(harness, n)[""]) for n in (3, 4, 5)] == [3, 3, 3]


def test_each_retry_gets_the_first_answer(harness: ServiceHarness) -> None:
    """Also of the first value, and of a correction that was corrected since."""
    harness.create()
    harness.rounds(3)
    x = {"value": 7.0, "round": 2, "correct": True, "reward_id": "x"}
    y = {"value": 8.0, "round": 2, "correct": True, "reward_id": "y"}
    assert harness.reward(**x).accepted == 1
    assert harness.reward(**y).accepted == 1
    for again in (x, y, {"value": 1.0, "round": 2}):
        assert harness.reward(**again).repeated == 1
    assert read(harness)[""][1] == (2, 2, 8.0)
    refused(harness, "reward_conflict", "value", 9.0, round=2)
    refused(harness, "reward_conflict", "reward_id", 9.0, round=2, correct=True, reward_id="x")
    refused(harness, "reward_conflict", "reward_id", 7.0, round=1, correct=True, reward_id="x")


def test_a_span_is_corrected_as_a_whole(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(6, rewarded=False, trajectory="ann")
    span = {"first_round": 2, "last_round": 4, "trajectory": "ann"}
    harness.reward(3.0, **span, reward_id="first")
    harness.reward(1.0, trajectory="ann", round=5)
    harness.reward(2.0, **span, correct=True, reward_id="x")
    harness.reward(2.5, replaces="first", trajectory="ann", reward_id="z")
    assert read(harness)["ann"] == [(2, 4, 2.5), (5, 5, 1.0)]
    for when in ({"round": 3}, {"first_round": 2, "last_round": 5}):
        field = next(iter(when))
        more = {**when, "trajectory": "ann", "correct": True, "reward_id": "w"}
        refused(harness, "reward_conflict", field, 1.0, **more)


def test_in_sum_mode_one_value_of_a_round_is_corrected(harness: ServiceHarness) -> None:
    harness.create(reward_mode="sum")
    harness.rounds(3, rewarded=False)
    harness.reward(1.0, round=1, reward_id="a")
    harness.reward(2.0, round=1, reward_id="b")
    harness.reward(0.0, replaces="b", reward_id="refund")
    assert harness.reward(0.0, replaces="b", reward_id="refund").repeated == 1
    assert read(harness)[""][0] == (1, 1, 1.0)
    harness.reward(0.5, replaces="refund", reward_id="half")
    assert read(harness)[""][0] == (1, 1, 1.5)
    refused(harness, "missing", "replaces", 1.0, round=1, correct=True, reward_id="c")
    refused(harness, "unknown_reward", "replaces", 1.0, replaces="nobody", reward_id="c")


def test_what_cannot_be_corrected_is_refused(harness: ServiceHarness) -> None:
    harness.create(default_reward=0.0)
    harness.rounds(2, rewarded=False)
    refused(harness, "unknown_reward", "correct", 1.0, round=1, correct=True, reward_id="x")
    harness.reward(1.0, round=1)
    refused(harness, "missing", "reward_id", 2.0, round=1, correct=True)
    refused(harness, "future_round", "round", 2.0, round=9, correct=True, reward_id="x")
    harness.create(algorithm="lin_ucb", options={})
    harness.rounds(2)
    refused(harness, "no_corrections", "correct", 2.0, round=1, correct=True, reward_id="x")


def test_a_correction_completes_no_round(harness: ServiceHarness) -> None:
    """The window 2..4 of `ad_lasso` is due once all its rounds are measured, not before."""
    harness.create(reward_wait_seconds=60.0)
    harness.rounds(2)
    for i in range(4):
        harness.reward(2.0 + i, round=2, correct=True, reward_id=str(i))
    harness.rounds(2, rewarded=False)
    assert harness.session.fit_due is None
    harness.reward(1.0, round=3)
    assert harness.session.fit_due is None
    with harness.store.reader() as reader:
        assert reader.count_measured(harness.key, 1, 4) == 3
        assert reader.measured_of_last(harness.key, "", "", 1000) == {"": 3}
    harness.reward(1.0, round=4)
    assert harness.session.fit_due == 4


def test_a_correction_may_come_with_what_it_corrects(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(2, rewarded=False)
    rewards = [
        Reward(1.0, "", round=1, reward_id="a"),
        Reward(2.0, "", replaces="a", reward_id="b"),
        Reward(3.0, "", round=1, correct=True, reward_id="c"),
    ]
    for accepted in (3, 0):
        received = harness.run(ReceiveRewards(harness.key, rewards, harness.agents))
        assert (received.accepted, received.repeated) == (accepted, 3 - accepted)
    assert read(harness)[""] == [(1, 1, 3.0)]
    assert [read(harness, n)[""][0][2] for n in (1, 2, 3)] == [1.0, 2.0, 3.0]


def test_an_import_goes_on_where_the_export_ended(harness: ServiceHarness, tmp_path: Path) -> None:
    harness.create()
    harness.rounds(3, trajectory="a")
    harness.rounds(3, trajectory="b")
    harness.reward(7.0, "a", round=2, correct=True, reward_id="x")
    harness.reward(8.0, "b", round=1, correct=True, reward_id="y")
    before = [read(harness, n) for n in range(9)]
    with harness.store.reader() as reader:
        lines = list(export_session(reader, harness.session))
    made, _ = harness.import_file(tmp_path, b"".join(lines))
    harness.key = made.key
    assert [read(harness, n) for n in range(9)] == before
    assert harness.reward(7.0, "a", round=2, correct=True, reward_id="x").repeated == 1
    assert harness.reward(9.0, "a", replaces="x", reward_id="z").accepted == 1
    assert harness.session.n_measurements == 9


def test_a_void_decision_is_a_round_without_action_from_then_on(
    harness: ServiceHarness, tmp_path: Path
) -> None:
    harness.create()
    harness.rounds(3, trajectory="a")
    harness.decide("a", event_id="mine", digest=bytes(16))
    harness.decide("b", event_id="mine", digest=bytes(16))
    before = contexts(harness, name="a")
    assert [0.0, 0.0] not in before
    decision, void = harness.run(void_decision(harness.key, "a", "mine", harness.agents))
    assert (decision.round, void.position) == (4, 4)
    harness.now += 9.0
    assert harness.run(void_decision(harness.key, "a", "mine", harness.agents))[1] == void
    assert harness.session.n_measurements == 4
    harness.reward(2.0, "a", round=4)  # of earlier actions; its position is 5
    after = [*before[:3], [0.0, 0.0]]
    assert [contexts(harness, n, "a") for n in (3, 4, 5)] == [before, after, after]
    assert [0.0, 0.0] not in contexts(harness, name="b")
    assert read(harness)["a"][-1] == (4, 4, 2.0)
    with harness.store.reader() as reader:
        lines = list(export_session(reader, harness.session))
    made, _ = harness.import_file(tmp_path, b"".join(lines))
    harness.key = made.key
    assert [contexts(harness, n, "a") for n in (3, 4, 5)] == [before, after, after]
    assert harness.session.n_measurements == 5


def test_what_cannot_be_voided_is_refused(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(1)
    with pytest.raises(Problem) as raised:
        harness.run(void_decision(harness.key, "", "nobody", harness.agents))
    assert (raised.value.code, raised.value.field) == ("unknown_event", "event_id")
    harness.create(algorithm="lin_ucb", options={})
    harness.rounds(1)
    with pytest.raises(Problem) as raised:
        harness.run(void_decision(harness.key, "", "~1", harness.agents))
    assert raised.value.code == "no_corrections"
