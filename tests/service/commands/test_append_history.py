"""Starting warm from a log, and the credit of past decisions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lhb_engine.agents import make_agent
from lhb_engine.history import History
from service.base.problems import Problem, ProblemCode
from service.commands.append_history import Appended, Appending, AppendSlice, Log, append_history
from service.commands.decisions import Decide
from service.commands.limits import NO_LIMITS
from service.lift.add_to_sums import Step, sums_so_far
from service.lift.exact import ONE
from service.lift.sums import NO_ROW, LiftSums, row_of
from service.lift.watch import keep_lift
from service.session.fit_schedule import DueFit
from service.writer.group_commit import GroupCommit
from tests.service.api.test_decisions import encoded
from tests.service.conftest import Client, Serve, problem, until
from tests.service.histories import read_history
from tests.service.service_harness import CONTEXTS, ServiceHarness

pytestmark = pytest.mark.anyio


def log(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Rewards are half of this round's and half of the last one's first number."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-1, 1, (n, 2))
    value = contexts[:, 0] + 0.01 * rng.standard_normal(n)
    rewards = 0.5 * value + 0.5 * np.concatenate([[0.0], value[:-1]])
    return contexts.tolist(), rewards.tolist()


async def fitted(client: Client, session: str) -> Any:
    state = await client.read(f"/v1/sessions/{session}")
    return None if state["fit_due"] else await client.read(f"/v1/sessions/{session}/estimates")


async def test_a_log_starts_a_session_warm(serve: Serve) -> None:
    contexts, rewards = log(60)
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso")
        path = f"/v1/sessions/{session}/history"
        answer = await client.post(path, json={"contexts": contexts, "rewards": rewards})
        assert answer.status_code == 201
        assert answer.json() == {"first_round": 1, "last_round": 60, "rewards": 60}
        page = await until(lambda: fitted(client, session))
        # all four windows became due at once: the latest is fitted, the others are not
        assert [(item["epoch"], item["status"]) for item in page["items"]] == [
            (4, "ok"),
            (1, "skipped"),
            (2, "skipped"),
            (3, "skipped"),
        ]
        decision = await client.decide(session)
        assert (decision["round"], decision["arm"], decision["model_version"]) == (61, 0, 1)
        rounds = (await client.read(f"/v1/sessions/{session}/rounds?limit=60"))["items"]
        assert [item["reward"] for item in rounds] == rewards
        assert all(item["forced"] and item["propensity"] is None for item in rounds)


@pytest.mark.parametrize(
    "more",
    [{}, {"reward_wait_seconds": 60}, {"default_reward": 5.0}, {"reward_mode": "sum"}],
    ids=lambda more: next(iter(more), "single"),
)
async def test_a_fit_due_within_a_log_has_the_rewards_of_all_its_rounds(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """The last window ends at round 58 of 60: the rounds after it do not close it empty."""
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm="anytime", horizon=160, **more)
    contexts, rewards = log(60)
    append(harness, contexts, rewards)
    history = due_history(harness, 58)
    measured = history.trajectories[""].measurements
    np.testing.assert_array_equal(measured.value, rewards[:58])
    assert make_agent("anytime", dim=2, horizon=160).fit(history).n_rows == 58
    harness.close()


def test_a_log_is_fitted_whole(tmp_path: Path) -> None:
    """Of fits of whole logs that wait for the one at work, the latest alone stays."""
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm="anytime", horizon=160)
    contexts, rewards = log(60)
    append(harness, contexts[:19], rewards[:19])
    assert stale(harness) == []  # too few rewards for one out of turn
    append(harness, contexts, rewards)
    assert stale(harness) == [79]
    append(harness, contexts[:3], rewards[:3])
    assert stale(harness) == [82]
    assert len(due_history(harness, 82).trajectories[""].measurements.value) == 82
    harness.close()


async def test_only_the_missing_rewards_of_a_log_are_the_default(tmp_path: Path) -> None:
    harness = ServiceHarness(tmp_path)
    harness.create(algorithm="anytime", horizon=160, default_reward=5.0)
    contexts, rewards = log(60)
    given = [None if i == 20 else value for i, value in enumerate(rewards)]
    append(harness, contexts, given)
    measured = due_history(harness, 58).trajectories[""].measurements
    values = dict(zip(measured.first.tolist(), measured.value.tolist(), strict=True))
    assert values == {i + 1: 5.0 if i == 20 else rewards[i] for i in range(58)}
    harness.close()


def append(harness: ServiceHarness, contexts: Any, rewards: Any, **more: Any) -> Any:
    """Append a log to the session's trajectory; it gives the rounds."""
    log = Log(harness.key, "", np.array(contexts), rewards, **more)
    return harness.run_large(append_history(log, harness.agents, lambda *left: None))


def dues(harness: ServiceHarness) -> list[DueFit]:
    """The session's fits that are due, the one at work first."""
    schedule = harness.session.schedule
    return [one for one in (schedule.current, *schedule.waiting) if one is not None]


def stale(harness: ServiceHarness) -> list[int]:
    """After which rounds the session's fits out of turn are due."""
    return [due.key for due in dues(harness) if due.reason == "stale"]


def due_history(harness: ServiceHarness, key: int) -> History:
    """What the fit reads that is due after round `key`."""
    session = harness.session
    [due] = (one for one in dues(harness) if one.key == key)
    with harness.store.reader() as reader:
        return read_history(reader, session, due.window, due.known)


async def test_an_import_is_safe_to_repeat(serve: Serve) -> None:
    contexts, rewards = log(5)
    rewards[2] = None
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}/history"
        body = {"contexts": encoded(contexts), "rewards": rewards, "import_id": "2026"}
        first = await client.post(path, json=body)
        again = await client.post(path, json={**body, "contexts": contexts})
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json() == {"first_round": 1, "last_round": 5, "rewards": 4}
        zeros = {**body, "rewards": [0.0] * 5, "import_id": "zeros"}
        assert (await client.post(path, json=zeros)).status_code == 201
        assert (await client.post(path, json={**zeros, "rewards": [-0.0] * 5})).status_code == 200
        named = {**body, "arm_ids": ["a", None, "b", "a", "b"]}
        problem(await client.post(path, json=named), 409, "event_conflict", "import_id")
        short = {"contexts": contexts, "arm_ids": ["a"]}
        problem(await client.post(path, json=short), 422, "wrong_shape", "arm_ids")
        other = await client.post(path, json={**body, "rewards": [1.0] * 5})
        problem(other, 409, "event_conflict", "import_id")
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 10


async def test_rounds_of_a_log_have_its_times(serve: Serve) -> None:
    """In the log of rounds, the series, an export and its import; rewards came with them."""
    days = [f"2026-01-0{day}T00:00:00.000000Z" for day in (1, 1, 3)]
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}"
        body = {"contexts": [[1.0, 0.0]] * 3, "rewards": [1.0, 2.0, 3.0], "import_id": "a"}
        for _ in range(2):
            answer = await client.post(f"{path}/history", json={**body, "at": days})
        assert answer.status_code == 200
        problem(await client.post(f"{path}/history", json=body), 409, "event_conflict", "import_id")
        file = (await client.get(f"{path}/events")).content
        typed = {"content-type": "application/x-ndjson"}
        made = await client.post("/v1/sessions/import", content=file, headers=typed)
        for id in (session, made.json()["id"]):
            rounds = (await client.read(f"/v1/sessions/{id}/rounds"))["items"]
            assert [one["at"] for one in rounds] == days
            series = await client.read(f"/v1/sessions/{id}/series?by=time")
            assert [one["at"] for one in series["items"]] == [days[0], days[2]]
            assert series["arrivals"]["longest_seconds"] == 0
        await client.decide(session)
        rounds = (await client.read(f"{path}/rounds"))["items"]
        assert rounds[3]["at"] >= (await client.read(path))["created_at"]


async def test_bad_times_of_a_log_are_refused(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}/history"
        body = {"contexts": [[1.0, 0.0]] * 2}
        first, second = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
        await client.post(path, json={**body, "at": [first, second]})
        for times, code, field in [
            ([second], "wrong_shape", "at"),
            ([second, first], "out_of_range", "at[1]"),
            ([first, second], "out_of_range", "at[0]"),
            ([second, "2222-01-01T00:00:00Z"], "out_of_range", "at[1]"),
        ]:
            problem(await client.post(path, json={**body, "at": times}), 422, code, field)
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 2


async def test_an_import_does_not_take_the_name_of_a_decision(serve: Serve) -> None:
    contexts, _ = log(3)
    async with serve() as client:
        session = await client.create()
        await client.decide(session, event_id="2026/3")
        path = f"/v1/sessions/{session}/history"
        answer = await client.post(path, json={"contexts": contexts, "import_id": "2026"})
        problem(answer, 409, "event_conflict", "import_id")
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 1
        shorter = await client.post(path, json={"contexts": contexts[:2], "import_id": "2026"})
        assert shorter.status_code == 201


MANY_FITS = {"memory": 16}  # a fit every four rounds: 32 may wait, and a log gives the others up


async def test_a_log_refused_in_a_later_slice_leaves_no_fits(serve: Serve) -> None:
    """Round 385 of 390 has a name that is taken: the fits given up before it were never due."""
    contexts, rewards = log(390)
    async with serve() as client:
        session = await client.create(algorithm="anytime", options=MANY_FITS)
        await client.decide(session, event_id="2026/385")
        path = f"/v1/sessions/{session}"
        body = {"contexts": contexts, "rewards": rewards}
        refused = await client.post(f"{path}/history", json={**body, "import_id": "2026"})
        problem(refused, 409, "event_conflict", "import_id")
        assert (await client.read(f"{path}/estimates"))["items"] == []
        assert (await client.post(f"{path}/history", json=body)).status_code == 201

        async def fits() -> Any:
            page = await client.read(f"{path}/estimates")
            is_done = any(item["status"] != "skipped" for item in page["items"])
            return page["items"] if is_done else None

        numbers = sorted(item["number"] for item in await until(fits))
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 40


def test_a_guard_that_trips_while_a_log_is_appended_stays_tripped(harness: ServiceHarness) -> None:
    holdout = {"share": 0.5, "policy": "default_arm", "planned_rounds": 300, "guard": True}
    harness.create(algorithm="anytime", holdout=holdout)
    contexts, rewards = np.ones((300, 2)), [1.0] * 300
    write = append_history(Log(harness.key, "", contexts, rewards), harness.agents, print)
    first = harness.run(next(write))
    assert isinstance(first, Appending)
    with harness.store.reader() as reader:
        before = sums_so_far(reader, harness.session)
    sums = LiftSums()
    for unit in range(100):
        for group, reward in (("agent", unit % 2), ("control", 100 + unit % 2)):
            sums.move(group, NO_ROW, row_of((10 * ONE, reward * ONE, 0)))
    kept = harness.run(keep_lift(harness.key, Step(before, sums, 0, 0, [], 0)))
    assert kept
    result = first
    while not isinstance(result, Appended):
        result = harness.run(write.send(result))
    assert harness.session.n_rounds == 300
    assert harness.session.trial.guard == "tripped"


async def test_bad_logs_are_refused_whole(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}/history"
        bad: list[tuple[Any, str, str]] = [
            ({"contexts": [[1.0, 2.0]], "rewards": [1.0, 2.0]}, "wrong_shape", "rewards"),
            ({"contexts": [[1.0]]}, "wrong_shape", "contexts"),
            ({"contexts": [[1.0, 2.0], [1.0]]}, "ragged", "contexts[1]"),
            ({"contexts": []}, "no_arms", "contexts"),
            ({"contexts": [[1.0, 2.0]], "rewards": ["x"]}, "invalid", "rewards[0]"),
            ({"contexts": [[0.0, 0.0]] * 10_001}, "out_of_range", "contexts"),
        ]
        for body, code, field in bad:
            problem(await client.post(path, json=body), 422, code, field)
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0


async def test_credit_says_what_was_earned_and_what_is_to_come(serve: Serve) -> None:
    contexts, rewards = log(60)
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso")
        path = f"/v1/sessions/{session}"
        await client.post(f"{path}/history", json={"contexts": contexts, "rewards": rewards})
        await until(lambda: fitted(client, session))
        estimate = await client.read(f"{path}/estimate")
        weights, theta = np.array(estimate["lag_weights"]), np.array(estimate["theta"])
        page = await client.read(f"{path}/credit?cursor=50&limit=20")
        assert [item["round"] for item in page["items"]] == list(range(51, 61))
        for item in page["items"]:
            value = float(np.array(contexts[item["round"] - 1]) @ theta)
            passed = 60 - item["round"] + 1
            assert item["earned"] == pytest.approx(value * weights[:passed].sum())
            assert item["to_come"] == pytest.approx(value * weights[passed:].sum())
        # half of it is still to come, less what the Lasso shrinks away
        last = page["items"][-1]
        assert 0.7 < last["to_come"] / (0.5 * contexts[59][0]) < 1.05


async def test_credit_by_feature_adds_up_to_that_of_decisions(serve: Serve) -> None:
    """Over two trajectories, without a void decision; what came is told from what is to come."""
    async with serve() as client:
        session = await client.create(algorithm="ad_lasso", features=["first", "second"])
        path = f"/v1/sessions/{session}"
        for trajectory in ("a", "b"):
            contexts, rewards = log(60)
            body = {"contexts": contexts, "rewards": rewards, "trajectory": trajectory}
            await client.post(f"{path}/history", json=body)
        await until(lambda: fitted(client, session))
        event = (await client.read(f"{path}/rounds?trajectory=a&limit=60"))["items"][50]["event_id"]
        voided = await client.post(f"{path}/decisions/{event}/void?trajectory=a")
        assert voided.status_code == 200, voided.text
        found = await client.read(f"{path}/credit/features")
        pages = [await client.read(f"{path}/credit?trajectory={name}&limit=60") for name in "ab"]
        [fewer] = [await client.read(f"{path}/credit/features?rounds=60")]
    each = [item for one in pages for item in one["items"]]
    assert (found["first_round"], found["last_round"], found["reason"]) == (1, 120, None)
    assert [(one["feature"], one["name"]) for one in found["items"]] == [
        (0, "first"),
        (1, "second"),
    ]
    for name in ("earned", "to_come"):
        total = sum(item[name] for item in found["items"])
        assert total == pytest.approx(sum(item[name] for item in each))
    assert found["items"][0]["intervals"] is None
    # the later trajectory alone is that of the last 60 decisions
    earned = sum(item["earned"] for item in fewer["items"])
    assert earned == pytest.approx(sum(item["earned"] for item in pages[1]["items"]))


async def test_credit_before_the_first_estimate(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        await client.decide(session)
        [item] = (await client.read(f"/v1/sessions/{session}/credit"))["items"]
        assert (item["earned"], item["to_come"]) == (None, None)
        assert item["reason"] == "No estimate is in use."
        found = await client.read(f"/v1/sessions/{session}/credit/features")
        assert (found["items"], found["reason"]) == ([], "No estimate is in use.")


async def test_credit_says_nothing_before_all_lags_have_been_fitted(serve: Serve) -> None:
    """The first fits of ad_lasso see a few lags only, and give them the others' rewards."""
    contexts, rewards = log(52)
    async with serve() as client:
        options = {"reg": "theory", "c": 1e-3}
        session = await client.create(algorithm="ad_lasso", horizon=160, options=options)
        path = f"/v1/sessions/{session}"
        await client.post(f"{path}/history", json={"contexts": contexts, "rewards": rewards})
        await until(lambda: fitted(client, session))
        assert (await client.read(f"{path}/estimate"))["status"] == "ok"
        for item in (await client.read(f"{path}/credit"))["items"]:
            assert (item["earned"], item["to_come"]) == (None, None)
            assert "of 160 lags have been fitted" in item["reason"]


@pytest.mark.parametrize("import_id", [None, "log"])
async def test_a_history_whose_reward_ids_are_taken_costs_its_neighbours_nothing(
    tmp_path: Path, import_id: str | None
) -> None:
    """It is refused before it writes: nothing is undone, and no agent is forgotten."""
    harness = ServiceHarness(tmp_path)
    harness.create()
    harness.rounds(4)
    taken = "history-6/2" if import_id is None else "log/2"  # as the next history names it
    harness.reward(1.0, round=harness.decide().round, reward_id=taken)
    n_rollbacks = 0

    def count() -> None:
        nonlocal n_rollbacks
        n_rollbacks += 1

    commit = GroupCommit(harness.store, after_commit=lambda effects: None, on_rollback=count)
    log = Log(harness.key, "", np.ones((3, 2)), [None, 2.0, 3.0], import_id, bytes(16))
    append = AppendSlice(log, harness.agents, "w")
    neighbour = Decide(harness.key, harness.agents, NO_LIMITS, "b", CONTEXTS)
    [(_, refused), (answer, error)], _ = commit.run_in_thread([append, neighbour])
    assert isinstance(refused, Problem)
    assert (refused.code, refused.field) == (ProblemCode.REWARD_CONFLICT, "rewards[1].reward_id")
    assert taken in refused.detail
    assert error is None
    assert answer.decision.round == 1
    assert n_rollbacks == 0
    with harness.store.reader() as reader:
        found = reader.trajectory((*harness.key, ""))
        assert found is not None
        assert found.n_rounds == 5
    harness.store.close()
