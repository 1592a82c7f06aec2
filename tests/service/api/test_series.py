"""Rewards over time: bins of all trajectories, and what the estimate in use expects of them."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from service.api import series, sessions
from service.api.routes import Call
from service.base.recurring import Intervals
from service.rounds.timeline import ByDecision
from service.session.records import Actor
from service.storage.reader import Reader
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve

pytestmark = pytest.mark.anyio


async def read(client: Client, session: str, **query: int) -> list[dict[str, float]]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return list((await client.read(f"/v1/sessions/{session}/series?{asked}"))["items"])


async def test_bins_hold_means_of_all_trajectories(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for key, value in (("a", 1.0), ("b", 3.0), ("a", 5.0), ("b", 7.0)):
            round = (await client.decide(session, trajectory=key))["round"]
            await client.reward(session, trajectory=key, round=round, value=value)
        await client.decide(session, trajectory="a")  # not measured
        found = await read(client, session, rounds=10, bins=5)
        assert [item["reward"] for item in found] == [1.0, 3.0, 5.0, 7.0, None]
        assert [item["n_measured"] for item in found] == [1, 1, 1, 1, 0]
        assert {item["expected"] for item in found} == {None}
        assert {item["explored"] for item in found} == {1.0}  # uniform play
        await client.decide(session, trajectory="b", forced_arm=0)
        assert (await read(client, session, rounds=1))[0]["explored"] is None  # a choice of others
        [last] = await read(client, session, rounds=4, bins=1)
        assert (last["first_round"], last["last_round"], last["reward"]) == (3, 6, 6.0)


async def test_a_span_counts_all_its_rounds(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for _ in range(4):
            await client.decide(session)
        await client.reward(session, first_round=1, last_round=3, value=6.0)
        await client.reward(session, round=4, value=10.0)
        [item] = await read(client, session, bins=1)
        assert (item["n_measured"], item["reward"]) == (4, 4.0)


@on_one_database
async def test_what_is_expected_is_the_models_sum(serve: Serve) -> None:
    """Checked against the definition, lag by lag, on the contexts that the log shows."""
    async with serve() as client:
        session = await client.create(algorithm="anytime", refit="blocking")
        rng, past = np.random.default_rng(1), [0.0] * 2
        for t in range(60):
            contexts = rng.uniform(-1, 1, (3, 2))
            arm = (await client.decide(session, contexts.tolist()))["arm"]
            past.append(float(contexts[arm][0]))
            await client.reward(session, round=t + 1, value=2 + past[-3])
        estimate = await client.read(f"/v1/sessions/{session}/estimate")
        log = (await client.read(f"/v1/sessions/{session}/rounds?limit=1000"))["items"]
        scores = [float(np.dot(item["context"], estimate["theta"])) for item in log]
        weights = estimate["lag_weights"]
        found = await read(client, session, rounds=20, bins=20)
        for item in found:
            t = int(item["last_round"])
            expected = estimate["intercept"] + sum(
                w * scores[t - 1 - k] for k, w in enumerate(weights) if t - 1 - k >= 0
            )
            assert item["expected"] == pytest.approx(expected, abs=1e-9)
            assert abs(item["expected"] - item["reward"]) < 0.2


async def test_values_of_a_round_add_up_in_sum_mode(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="anytime", reward_mode="sum")
        for round, values in enumerate(([1.0, 2.0], [5.0], []), 1):
            await client.decide(session)
            for i, value in enumerate(values):
                await client.reward(session, round=round, value=value, reward_id=f"{round}-{i}")
        found = await read(client, session, bins=3)
        assert [item["reward"] for item in found] == [3.0, 5.0, None]
        assert [item["n_measured"] for item in found] == [1, 1, 0]


async def test_arrivals_say_which_values_are_late(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for key in ("a", "a", "b", "a"):
            await client.decide(session, trajectory=key)
        for key, round in (("a", 3), ("a", 1), ("b", 1)):  # of these, only the second is late
            await client.reward(session, trajectory=key, round=round, value=1.0)
        found = (await client.read(f"/v1/sessions/{session}/series"))["arrivals"]
        assert (found["n_values"], found["n_late"]) == (3, 1)
        assert 0 <= found["median_seconds"] <= found["longest_seconds"] < 60
        brief = await client.read(f"/v1/sessions/{session}/series?brief=true&bins=1")
        assert brief["arrivals"] is None
        assert (brief["items"][0]["reward"], brief["items"][0]["explored"]) == (1.0, None)


@on_one_database
async def test_parts_add_up_to_what_is_expected(serve: Serve) -> None:
    """Of 12 users with levels two apart, a covariate worth 3, and a trend."""
    options = {"levels": True, "covariates": ["noise"], "trend": True}
    async with serve() as client:
        session = await client.create(algorithm="anytime", refit="blocking", options=options)
        rng = np.random.default_rng(1)
        for user in range(12):
            shown, noise = rng.uniform(-1, 1, (30, 2)), rng.normal(size=30)
            rewards = 2.0 * user + 3 * noise + shown[:, 0] + 0.1 * np.arange(30)
            log = {"contexts": shown.tolist(), "rewards": rewards.tolist()}
            log |= {"trajectory": f"u{user:02}", "covariates": {"noise": noise.tolist()}}
            await client.post(f"/v1/sessions/{session}/history", json=log)
        await client.decide(session, trajectory="u00")
        path = f"/v1/sessions/{session}/series?by=round&bins=30"
        whole = (await client.read(path))["items"]
        assert [item["last_round"] for item in whole] == [*range(1, 31)]
        for item in whole:
            assert sum(item["parts"].values()) == pytest.approx(item["expected"])
            assert item["expected"] == pytest.approx(item["reward"], abs=0.2)
            assert item["n_measured"] == 12
            low, high = item["spread"]
            assert high - low > 10
        one = (await client.read(f"{path}&trajectory=u11"))["items"]
        [level] = {round(item["parts"]["levels"], 9) for item in one}  # the same in all rounds
        assert one[0]["parts"]["base"] + level == pytest.approx(22.0, abs=0.5)
        assert {item["spread"] for item in one} == {None}


async def test_bins_of_time_are_slots_or_whole_multiples(serve: Serve) -> None:
    async with serve() as client:
        clock = {"slot_seconds": 86400, "start": "2026-06-01T00:00:00Z"}
        session = await client.create(algorithm="anytime", clock=clock)
        for day in range(1, 29):
            await client.decide(session, at=f"2026-06-{day:02}T08:00:00Z")
        path = f"/v1/sessions/{session}/series?by=time&bins"
        by_day = await client.read(f"{path}=30")
        assert (by_day["bin_seconds"], len(by_day["items"])) == (86400, 28)
        assert by_day["items"][-1]["at"] == "2026-06-28T00:00:00.000000Z"
        by_week = await client.read(f"{path}=6")
        assert (by_week["bin_seconds"], len(by_week["items"])) == (7 * 86400, 4)
        assert by_week["items"][1]["at"] == "2026-06-08T00:00:00.000000Z"
        assert (by_week["items"][1]["first_round"], by_week["items"][1]["last_round"]) == (8, 14)


@on_one_database
async def test_credit_by_arm_is_that_of_its_decisions(serve: Serve) -> None:
    async with serve() as client:
        session = await learned(client, [""])
        listed = (await client.read(f"/v1/sessions/{session}/credit?limit=1000"))["items"]
        arms = await client.read(f"/v1/sessions/{session}/credit/arms?bins=4")
        assert sum(arm["n"] for arm in arms["items"]) == len(listed)
        for arm in arms["items"]:
            own = [item for item in listed if item["arm"] == arm["arm"]]
            assert arm["n"] == len(own)
            for name in ("earned", "to_come"):
                assert arm[name] == pytest.approx(sum(item[name] for item in own), abs=1e-9)
            assert arm["at_once"] + arm["later"] == pytest.approx(arm["earned"] + arm["to_come"])
        assert np.sum([arm["shares"] for arm in arms["items"]], axis=0) == pytest.approx(1.0)
        assert len(arms["bins"]) == 4
        voided = listed[0]
        await client.post(f"/v1/sessions/{session}/decisions/{voided['event_id']}/void", json={})
        again = await client.read(f"/v1/sessions/{session}/credit/arms")
        assert sum(arm["n"] for arm in again["items"]) == len(listed) - 1


@on_one_database
async def test_what_one_answer_reads_is_bounded(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many statements for many trajectories as for one; no more earlier rounds than allowed."""
    statements: list[str] = []
    monkeypatch.setattr(
        Reader, "_window", lambda *given: (statements.append(given[1]), window(*given))[1]
    )
    async with serve() as client:
        alone = await learned(client, [""])
        many = await learned(client, ["a", "b", "c", "d", "e"])
        counts = []
        for session in (alone, many):
            statements.clear()
            whole = await client.read(f"/v1/sessions/{session}/series?rounds=5")
            assert whole["items"][-1]["expected"] is not None
            counts.append(len(statements))
        assert counts[0] == counts[1] <= 4
        monkeypatch.setattr(ByDecision, "n_earlier", lambda *_: series.MOST_EARLIER)
        assert await client.read(f"/v1/sessions/{many}/series?rounds=5") == whole
        monkeypatch.setattr(ByDecision, "n_earlier", lambda *_: series.MOST_EARLIER + 1)
        bounded = await client.read(f"/v1/sessions/{many}/series?rounds=5")
        assert {item["expected"] for item in bounded["items"]} == {None}
        assert "too many" in bounded["reason"]
        assert [item["reward"] for item in bounded["items"]] == [
            item["reward"] for item in whole["items"]
        ]


window = Reader._window


async def learned(client: Client, keys: list[str]) -> str:
    """A session with an estimate in use: what was chosen a round ago pays."""
    session = await client.create(algorithm="anytime", refit="blocking", horizon=3)
    rng, past = np.random.default_rng(2), dict.fromkeys(keys, 0.0)
    for t in range(60):
        key, contexts = keys[t % len(keys)], rng.uniform(-1, 1, (3, 2))
        taken = await client.decide(session, contexts.tolist(), trajectory=key)
        round, value = taken["round"], past[key]
        await client.reward(session, trajectory=key, round=round, value=value)
        past[key] = float(contexts[taken["arm"]][0])
    assert (await client.read(f"/v1/sessions/{session}/estimate"))["status"] == "ok"
    return session


async def test_no_round_is_no_bin(serve: Serve) -> None:
    async with serve() as client:
        assert await read(client, await client.create()) == []


async def test_changes_are_events(serve: Serve) -> None:
    async with serve(Intervals(changes=0.01)) as client:
        session = await client.create()
        keys = SimpleNamespace(key_watch=SimpleNamespace(still_allows=lambda scope: True))
        request: Any = SimpleNamespace(app=SimpleNamespace(state=keys), scope={})
        call = Call(request, client.service, "", Actor(None, None))
        events = sessions._events(call, session)
        read = [await anext(events)]
        await client.decide(session)
        read.append(await anext(events))  # comes by itself
        assert [json.loads(one[6:])["n_rounds"] for one in read] == [0, 1]
        assert client.service.streams.n_taken == 1
        await events.aclose()
        assert client.service.streams.n_taken == 0
        client.service.intervals = Intervals(changes=0.01, stream=0.02)
        answer = await client.get(f"/v1/sessions/{session}/changes")
        assert answer.headers["content-type"].startswith("text/event-stream")
        [event] = answer.text.strip().split("\n\n")
        assert event == read[1].strip()
        assert client.service.streams.n_taken == 0
        assert (await client.get("/v1/sessions/nothing/changes")).status_code == 404
