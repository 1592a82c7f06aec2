"""Fits beside the schedule: of many new rewards at once, and those that somebody asks for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.agents.fit_windows import anytime_windows
from lhb_engine.estimate import Estimate
from lhb_engine.history import History, Measurements, Trajectory
from service.base.problems import Problem
from service.commands.decisions import Taken
from service.commands.out_of_turn import LEAST, ask_fit
from service.commands.rewards import ReceiveRewards
from service.rounds.reward import Reward
from service.session.fit_schedule import DueFit
from service.session.records import FitQueue
from service.transfer.file_format import export_session
from tests.lhb_engine.sized_agents import have_sizes
from tests.service.conftest import Serve, problem, until
from tests.service.service_harness import OK, ZERO, ServiceHarness
from tests.service.transfer.test_replay import replayed


def ask(harness: ServiceHarness) -> str:
    asked, due = harness.run(ask_fit(harness.key, harness.agents))
    assert (due is None) == (asked == "nothing_new")
    return str(asked)


def fitted(harness: ServiceHarness, estimate: Estimate = OK) -> None:
    """Finish every fit that is due."""
    while harness.session.fit_due is not None:
        harness.finish(harness.session.fit_due, estimate)


def reasons(harness: ServiceHarness) -> list[tuple[int, str]]:
    """Due round and reason of all fits so far."""
    return [(e.due, json.loads(e.manifest)["reason"]) for e in harness.estimates]


def at_once(harness: ServiceHarness, rounds: range) -> None:
    """Rewards of several rounds in one request."""
    rewards = [Reward(1.0, "", round=t) for t in rounds]
    harness.run(ReceiveRewards(harness.key, rewards, harness.agents))


def test_a_fit_is_begun_once_and_only_for_something_new(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime")
    assert ask(harness) == "nothing_new"
    harness.rounds(5)
    assert ask(harness) == "begun"
    current = harness.session.schedule.current
    assert current is not None
    window = current.window
    assert (window.first, window.last, window.due, window.n_lags) == (1, 5, 5, 4)
    assert (current.reason, current.known.measured, current.known.decided) == ("asked", 5, 5)
    assert {key: due for key, (due, _) in harness.effects.due.items()} == {harness.key: 5}
    assert ask(harness) == "due"
    harness.finish(5)
    assert ask(harness) == "nothing_new"
    harness.rounds(1, rewarded=False)
    assert ask(harness) == "nothing_new"
    harness.reward(1.0, round=6)
    assert ask(harness) == "begun"
    harness.finish(6, None)
    assert ask(harness) == "due"  # another attempt
    assert reasons(harness) == [(5, "asked"), (6, "asked")]


def test_rewards_that_came_since_are_fitted_after_the_same_round(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime", reward_wait_seconds=1e6)
    harness.rounds(4)
    harness.decide()
    assert ask(harness) == "begun"
    harness.finish(5)
    harness.reward(1.0, round=5)
    assert ask(harness) == "begun"
    harness.finish(5)
    assert reasons(harness) == [(5, "asked"), (5, "asked")]
    assert harness.session.model_version == 2


def test_a_window_that_waits_for_rewards_is_the_fit_that_is_asked_for(
    harness: ServiceHarness,
) -> None:
    harness.create(algorithm="anytime", reward_wait_seconds=1e6)
    harness.rounds(7)
    harness.decide()
    assert harness.session.fit_due is None
    assert ask(harness) == "begun"
    fitted(harness)
    harness.reward(1.0, round=8)
    assert harness.session.fit_due is None
    assert reasons(harness) == [(8, "asked")]


def test_an_older_window_is_overtaken(harness: ServiceHarness) -> None:
    harness.create(algorithm="anytime", reward_wait_seconds=1e6)
    harness.rounds(7)
    harness.decide()
    harness.rounds(1)
    assert ask(harness) == "begun"
    fitted(harness)
    assert harness.statuses == [(2, "ok"), (1, "skipped")]
    assert [w.window.due for w in harness.session.schedule.open] == [11]


def test_algorithms_with_epochs_and_archived_sessions_refuse(harness: ServiceHarness) -> None:
    harness.create()
    harness.rounds(3)
    with pytest.raises(Problem, match="fits at the ends of its epochs"):
        ask(harness)


@pytest.mark.parametrize(("share", "n_stale"), [(0.25, 7), (0.5, 21), (1, None)])
def test_rewards_that_come_together_make_a_fit_due(
    harness: ServiceHarness, share: float, n_stale: int | None
) -> None:
    """Twenty are seen; so many more are needed that they are above the share of all."""
    harness.create(algorithm="anytime", options={"most_stale": share}, reward_wait_seconds=1e6)
    harness.rounds(20)
    fitted(harness, ZERO)
    assert harness.session.schedule.seen == 20
    before = len(harness.estimates)
    for _ in range(30):
        harness.decide()
    assert harness.session.fit_due is None
    if n_stale is None:
        at_once(harness, range(22, 51))
        assert harness.session.fit_due is None
        return
    at_once(harness, range(51 - n_stale, 50))
    assert harness.session.fit_due is None
    harness.reward(1.0, round=50)
    assert harness.session.fit_due is not None
    fitted(harness, ZERO)
    assert reasons(harness)[before] == (50, "stale")
    assert harness.session.schedule.seen == 20 + n_stale


@pytest.mark.parametrize(
    ("told", "names", "is_due"),
    [
        ({}, ["a", "b"], True),
        ({}, ["a"], False),
        ({"refit": "blocking"}, ["a", "b"], False),
        ({"options": {"memory": 1000}}, ["a", "b"], False),
        ({"options": {"most_stale": 1}}, ["a", "b"], False),
        ({"default_reward": 0.0}, ["a", "b"], True),
        ({"reward_mode": "sum"}, ["a", "b"], False),
    ],
)
def test_a_few_new_rewards_of_a_fleet_make_a_fit_due(
    harness: ServiceHarness,
    monkeypatch: pytest.MonkeyPatch,
    told: dict[str, Any],
    names: list[str],
    is_due: bool,
) -> None:
    """So many, and a hundredth of all; those that come while a fit runs when that is done."""
    have_sizes(monkeypatch, n_unread=3)
    harness.create(algorithm="anytime", horizon=4, reward_wait_seconds=1e6, **told)
    every = [(name, t) for t in range(1, 81) for name in names]
    for name, _ in every:
        assert isinstance(harness.decide_or_block(name), Taken)
    every = every[1:]  # no window is ever complete

    def rewarded(some: list[tuple[str, int]]) -> None:
        rewards = [Reward(1.0, name, reward_id=f"{name}{t}", round=t) for name, t in some]
        harness.run(ReceiveRewards(harness.key, rewards, harness.agents))

    rewarded(every[:60])
    fitted(harness, ZERO)
    n = len(harness.estimates)
    rewarded(every[60:63])
    assert harness.session.fit_due is None
    rewarded(every[63:64])
    assert (harness.session.fit_due is not None) == is_due
    rewarded(every[64:66])
    fitted(harness, ZERO)
    rewarded(every[66:68])
    assert harness.session.fit_due == (len(every) + 1 if is_due else None)
    rewarded(every[68:72])
    fitted(harness, ZERO)
    made = [reason for _, reason in reasons(harness)[n:]]
    assert [reason for reason in made if reason != "never"] == ["stale"] * (3 if is_due else 0)
    if is_due:
        have_sizes(monkeypatch, n_unread=0)  # the share alone counts
        rewarded(every[72:120])
        fitted(harness, ZERO)
        rewarded(every[120:121])
        assert harness.session.fit_due is None
        rewarded(every[121:122])
        assert harness.session.fit_due is not None


@pytest.mark.parametrize("names", [["a", "b"], ["a"]])
def test_a_window_that_fell_due_during_a_fit_of_a_fleet_reads_what_came_since(
    harness: ServiceHarness, names: list[str]
) -> None:
    """One of one trajectory is fitted as it fell due; both repeat from their manifests."""
    harness.create(algorithm="anytime", horizon=4, reward_wait_seconds=1e6)

    def played() -> DueFit | None:
        for name in names:
            taken = harness.decide_or_block(name)
            assert isinstance(taken, Taken)
            harness.reward(1.0, trajectory=name, round=taken.decision.round)
        return next(iter(harness.session.schedule.waiting), None)

    for _ in range(30):
        played()
        fitted(harness, ZERO)
    while (waits := played()) is None:
        assert harness.session.n_rounds < 1000
    fell_due, seen = waits.key, waits.known
    played()
    assert harness.session.fit_due is not None
    harness.finish(harness.session.fit_due, ZERO)
    current = harness.session.schedule.current
    assert current is not None
    if len(names) == 1:
        assert (current.key, current.known) == (fell_due, seen)
        return
    assert current.known.measured == harness.session.n_measurements > seen.measured
    assert (current.key, current.reason) == (harness.session.n_rounds, "stale")
    n = len(harness.estimates)
    fitted(harness, ZERO)
    assert harness.session.fit_due is None
    assert reasons(harness)[n:] == [(harness.session.n_rounds, "stale"), (fell_due, "complete")]


def test_a_decision_that_waited_for_a_fit_goes_on_whatever_came_meanwhile(
    harness: ServiceHarness,
) -> None:
    harness.create(algorithm="anytime", refit="blocking", horizon=4)
    n_rewarded, n_waited = 0, 0
    for t in range(1, 81):
        if isinstance(harness.decide_or_block(), Taken):
            continue
        if t > 40:
            at_once(harness, range(n_rewarded + 1, t))
            n_rewarded, n_waited = t - 1, n_waited + 1
        harness.finish(harness.session.fit_due)
        assert isinstance(harness.decide_or_block(), Taken)
    assert n_waited > 3


def test_in_ordinary_play_no_fit_is_out_of_turn(harness: ServiceHarness) -> None:
    """Each reward comes before the next decision: the fits are those of (7.1)."""
    harness.create(algorithm="anytime")
    for _ in range(60):
        harness.rounds(1)
        fitted(harness, ZERO)
    assert LEAST < 60
    due = [w.due for w, _ in zip(anytime_windows(4, None), range(30), strict=False) if w.due <= 60]
    assert reasons(harness) == [(n, "complete") for n in due]


def test_a_late_fit_is_whole_where_many_rewards_are_new() -> None:
    """Few rounds since the last fit, but half of the rewards: not only a check of the direction."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1, 1, (430, 2))
    rewards = np.convolve(contexts @ [0.6, 0.8], [0, 1.0])[:430] + rng.normal(0, 0.1, 430)
    agent = make_agent("anytime", dim=2, horizon=4, profiles="shared")

    def log(rounds: np.ndarray, n: int) -> History:
        measured = Measurements.single(rounds, rewards[rounds - 1])
        window = agent.fit_now(n)
        assert window is not None
        return History(2, {"": Trajectory(contexts[:n], measured)}).over(window)

    odd = np.arange(1, 391, 2)
    agent.install(agent.fit(log(odd, 390)))
    assert agent.fit(log(np.append(odd, np.arange(391, 431)), 430)).status == "zero"
    again = agent.fit(log(np.arange(1, 431), 430))
    assert (again.status, again.n_rows) == ("ok", 430)


def test_a_file_tells_of_fits_out_of_turn(harness: ServiceHarness, tmp_path: Path) -> None:
    harness.create(algorithm="anytime", reward_wait_seconds=500.0)
    harness.rounds(20)
    fitted(harness)
    harness.decide()
    harness.reward(1.0, round=21)
    assert ask(harness) == "begun"
    fitted(harness)
    harness.decide()
    assert ask(harness) == "nothing_new"
    harness.reward(2.0, round=22)
    assert ask(harness) == "begun"
    fitted(harness, ZERO)
    assert ask(harness) == "nothing_new"
    before = harness.session
    with harness.store.reader() as reader:
        content = b"".join(export_session(reader, before))
    made, _ = harness.import_file(tmp_path, content)
    assert made.schedule == before.schedule
    assert (made.model_version, made.n_estimates) == (before.model_version, before.n_estimates)


@pytest.mark.anyio
async def test_over_http_a_fit_that_is_asked_for_replays_to_the_bit(serve: Serve) -> None:
    rng = np.random.default_rng(0)
    async with serve() as client:
        session = await client.create(algorithm="anytime", dim=2, horizon=4, refit="blocking")
        path = f"/v1/sessions/{session}"
        contexts = rng.uniform(-1, 1, (60, 2))
        rewards = (contexts @ [0.6, 0.8] + rng.normal(0, 0.1, 60)).tolist()
        await client.post(
            f"{path}/history", json={"contexts": contexts.tolist(), "rewards": rewards}
        )

        async def idle() -> bool:
            return not (await client.read(path))["fit_due"]

        await until(idle)
        await client.decide(session)
        await client.reward(session, round=61, value=0.7)
        answer = await client.post(f"{path}/fits")
        assert (answer.status_code, answer.json()["asked"]) == (202, "begun")
        assert answer.json()["fit"]["reason"] == "asked"
        await until(idle)
        answer = await client.post(f"{path}/fits", json={})
        assert (answer.status_code, answer.json()) == (200, {"asked": "nothing_new", "fit": None})
        fits = (await client.read(f"{path}/epochs"))["items"]
        assert [fit["due_reason"] for fit in fits if fit.get("due_reason")][-1] == "asked"
        assert replayed(client, session).differences == []

        problem(await client.post(f"{path}/fits", json={"now": True}), 422, "unknown_field", "body")
        epochs = await client.create(algorithm="ad_lasso")
        await client.decide(epochs)
        problem(await client.post(f"/v1/sessions/{epochs}/fits"), 409, "fits_by_epochs")
        problem(await client.post("/v1/sessions/none/fits"), 404, "unknown_session")
        body = {"algorithm": "anytime", "dim": 2, "horizon": 4, "options": {"most_stale": 0}}
        answer = await client.post("/v1/sessions", json=body)
        problem(answer, 422, "bad_option", "options.most_stale")


@pytest.mark.anyio
async def test_an_answer_says_that_no_worker_runs(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as client:
        session = await client.create(algorithm="anytime", dim=2, horizon=4)
        monkeypatch.setattr(client.service.fits, "queue", lambda: FitQueue(0, None, 1))
        assert (await client.read("/readyz"))["fits"] == "ok"
        monkeypatch.setattr(client.service.fits, "queue", lambda: FitQueue(0, None, 0))
        assert (await client.read("/readyz"))["fits"] == "no_workers"
        decision = await client.decide(session)
        await client.reward(session, round=decision["round"], value=0.5)
        answer = await client.post(f"/v1/sessions/{session}/fits")
        assert (answer.status_code, answer.json()["asked"]) == (202, "begun")
        assert "no worker runs" in answer.json()["reason"]
