"""Options that mean no new model change while a session goes on; replay knows them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import Agent
from service.base.problems import Problem
from service.commands.out_of_turn import ask_fit
from service.commands.sessions import change_session
from service.fits import warm_start
from service.fits.install import FinishFit
from service.fits.job import run_fit
from service.session.records import MOST_CHANGES, SessionRow
from service.storage.transactions import Store
from service.transfer.file_format import export_session
from service.transfer.replay import replay_session
from service.writer.agent_cache import build_agent
from tests.contracts.conftest import reopen, store  # noqa: F401
from tests.examples import on_one_database
from tests.lhb_engine.draw_little import draw_little
from tests.service.service_harness import ServiceHarness


@pytest.fixture
def harness(
    tmp_path: Path,
    store: Store,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> ServiceHarness:
    draw_little(monkeypatch)
    return ServiceHarness(tmp_path, store)


def change(harness: ServiceHarness, **changes: Any) -> None:
    harness.run(change_session(harness.key, changes))


def play(harness: ServiceHarness, n: int, url: str) -> None:
    """Rounds with their rewards, and every fit that comes due."""
    rng = np.random.default_rng(harness.session.n_rounds)
    for _ in range(n):
        contexts = rng.uniform(-1, 1, (3, 2))
        decision = harness.decide(contexts=contexts)
        value = float(contexts[decision.arm] @ [0.6, -0.8]) + 0.1 * float(rng.standard_normal())
        harness.reward(value, round=decision.round)
        fit(harness, url)


def fit(harness: ServiceHarness, url: str) -> None:
    while (due := harness.session.fit_due) is not None:
        answer = run_fit(url, *harness.key, due, 0.0)
        assert answer is not None
        harness.run(FinishFit(harness.key, due, answer, harness.agents))


def replayed(harness: ServiceHarness) -> Any:
    with harness.store.reader() as reader:
        return replay_session(reader, harness.session)


@on_one_database
def test_each_decision_and_fit_is_repeated_with_its_options(
    harness: ServiceHarness, database_url: str, tmp_path: Path
) -> None:
    harness.create(algorithm="anytime", options={"epsilon": 0.5})
    play(harness, 45, database_url)
    change(harness, options={"memory": 30, "epsilon": 0.0})
    assert harness.session.options == {"memory": 30, "epsilon": 0.0}
    window = harness.session.schedule.open[-1].window
    assert window.last - window.first == 29
    play(harness, 40, database_url)
    change(harness, options={"memory": None})
    assert harness.session.schedule.open[-1].window.first == 1
    play(harness, 40, database_url)
    found = replayed(harness)
    assert found.differences == []
    assert (found.decisions, found.estimates > 8) == (125, True)
    with harness.store.reader() as reader:
        decisions = reader.decisions((*harness.key, ""), 0, 1000)
        lines = list(export_session(reader, harness.session))
        explored = [one.explored for one in decisions[20:]]
    assert any(explored[:25])
    schedule = harness.session.schedule
    made, _ = harness.import_file(tmp_path, b"".join(lines))
    harness.key = made.key
    assert harness.session.schedule.open == schedule.open
    with harness.store.reader() as reader:
        again = reader.decisions((*harness.key, ""), 0, 1000)
    assert [one[3:] for one in again] == [one[3:] for one in decisions]
    play(harness, 20, database_url)
    assert replayed(harness).differences == []


@on_one_database
def test_a_fit_that_is_due_keeps_its_options(
    harness: ServiceHarness, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began, or may have begun, before the change."""
    fitted_with: list[dict[str, Any]] = []

    def build(session: SessionRow, state: str | None) -> Agent:
        fitted_with.append(session.options)
        return build_agent(session, state)

    monkeypatch.setattr(warm_start, "build_agent", build)
    harness.create(algorithm="anytime")
    play(harness, 40, database_url)
    for _ in range(3):
        harness.reward(1.0, round=harness.decide().round)
    harness.run(ask_fit(harness.key, harness.agents))
    due = harness.session.schedule.current
    assert due is not None
    change(harness, options={"memory": 10})
    assert harness.session.schedule.current == due
    fit(harness, database_url)
    assert fitted_with[-1] == {}
    harness.run(ask_fit(harness.key, harness.agents))
    harness.reward(2.0, round=harness.decide().round)
    harness.run(ask_fit(harness.key, harness.agents))
    fit(harness, database_url)
    assert fitted_with[-1] == {"memory": 10}
    assert replayed(harness).differences == []


def test_the_next_decision_of_a_batch_has_the_new_options(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime", options={"epsilon": 1.0})
    assert harness.decide().propensity == 0.5
    for epsilon, propensity in ((0.0, 1.0), (1.0, 0.5)):
        change(harness, options={"epsilon": epsilon})
        decision = harness.decide(contexts=np.array([[1.0, 0.0], [-1.0, 0.0]]))
        assert decision.propensity == propensity


def test_what_may_not_change_is_refused(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime", options={"trend": True})
    before = harness.session
    for changes, field in (
        ({"options": {"signed": True}}, "options.signed"),
        ({"options": {"zero_start": False}}, "options.zero_start"),
        ({"options": {"nothing": 1}}, "options.nothing"),
        ({"options": {"memory": 3}}, "options.memory"),
        ({"options": {"epsilon": "much"}, "name": "x"}, "options.epsilon"),
    ):
        with pytest.raises(Problem) as raised:
            change(harness, **changes)
        assert (raised.value.code, raised.value.field) == ("bad_option", field)
    assert harness.session == before
    change(harness, options={"trend": True})
    assert harness.session.revision == 0
    for i in range(MOST_CHANGES):
        change(harness, options={"memory": 100 + i})
    with pytest.raises(Problem) as raised:
        change(harness, options={"memory": 50})
    assert raised.value.code == "limit_reached"
    assert harness.session.revision == MOST_CHANGES


def test_a_longer_wait_is_one_of_windows_that_wait_already(harness: ServiceHarness) -> None:
    harness.create(reward_wait_seconds=60.0)
    harness.rounds(5, rewarded=False)
    assert harness.session.wake_at == harness.now + 60.0
    change(harness, reward_wait_seconds=100.0)
    assert harness.session.wake_at == harness.now + 100.0
    assert harness.session.fit_due is None
    change(harness, reward_wait_seconds=0.0)
    assert harness.session.fit_due == 4
    harness.create(refit="blocking")
    change(harness, reward_wait_seconds=1.0)
    assert harness.session.reward_wait_seconds == 1.0
