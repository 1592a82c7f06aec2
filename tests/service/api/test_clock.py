"""Sessions with a clock over HTTP, on both databases."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from service.transfer.replay import replay_session
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio

START = datetime(2026, 11, 1, tzinfo=UTC)
THETA = np.array([0.8, -0.6])


def at(minutes: float) -> str:
    return (START + timedelta(minutes=minutes)).isoformat()


async def with_clock(client: Client, **more: Any) -> str:
    clock = {"slot_seconds": 600, "start": at(0), "late_slots": 100, **more}
    return await client.create(algorithm="anytime", horizon=3, clock=clock)


async def fitted(client: Client, session: str) -> Any:
    """The estimate after a fit of all that is there."""
    for _ in range(600):
        if not (await client.read(f"/v1/sessions/{session}"))["fit_due"]:
            asked = (await client.post(f"/v1/sessions/{session}/fits")).json()["asked"]
            if asked == "nothing_new":
                return await client.read(f"/v1/sessions/{session}/estimate")
        await asyncio.sleep(0.2)
    raise AssertionError("no fit came")


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("fully_drawn")
async def test_totals_over_all_trajectories_are_learned_from(serve: Serve) -> None:
    """Three users' decisions, hourly totals of all; late ones; replay, export and import."""
    rng = np.random.default_rng(4)
    async with serve() as client:
        session = await with_clock(client)
        sums = np.zeros((40, 2))
        for slot in range(40):
            for user in "abc":
                arms = rng.uniform(-1, 1, (3, 2))
                minute = 10 * slot + float(rng.uniform(0, 9.9))
                taken = await client.decide(session, arms.tolist(), trajectory=user, at=at(minute))
                sums[slot] += arms[taken["arm"]]
        signal = sums @ THETA
        totals = signal + np.append(0.0, signal[:-1]) + 0.05 * rng.standard_normal(40)
        rewards = [
            {"value": float(value), "from": at(10 * i), "to": at(10 * i + 10)}
            for i, value in enumerate(totals)
        ]
        answer = await client.reward(session, rewards=rewards)
        assert answer.json() == {"accepted": 40, "repeated": 0}, answer.text
        found = await fitted(client, session)
        assert found["slot_seconds"] == 600
        assert np.dot(found["theta"], THETA) > 0.99
        weights = np.array(found["lag_weights"])
        assert np.abs(weights - 1.0).max(where=[True, True, False], initial=0.0) < 0.2
        said = await client.read(f"/v1/sessions/{session}")
        assert said["clock"] == {
            "slot_seconds": 600,
            "start": "2026-11-01T00:00:00.000000Z",
            "totals": "all",
            "late_slots": 100,
            "n_slots": 41,
        }
        assert said["n_trajectories"] == 3
        shown = await client.read(f"/v1/sessions/{session}/series?bins=4")
        assert [item["last_round"] for item in shown["items"]][-1] == 41
        assert sum(item["n_measured"] for item in shown["items"]) == 40
        assert all(item["expected"] is not None for item in shown["items"])
        brief = await client.read(f"/v1/sessions/{session}/series?bins=4&brief=true")
        assert [(item["n_measured"], item["reward"]) for item in brief["items"]] == [
            (item["n_measured"], item["reward"]) for item in shown["items"]
        ]
        assert all(item["expected"] is None for item in brief["items"])
        listed = await client.read(f"/v1/sessions/{session}/trajectories")
        assert [(one["trajectory"], one["n_missing"]) for one in listed["items"]] == [
            (user, None) for user in "abc"
        ]
        credit = await client.read(f"/v1/sessions/{session}/credit?trajectory=a")
        assert credit["items"][0]["n_lags_passed"] == 41
        shares = [
            item
            for name in "abc"
            for item in (
                await client.read(f"/v1/sessions/{session}/credit?trajectory={name}&limit=100")
            )["items"]
        ]
        by_feature = (await client.read(f"/v1/sessions/{session}/credit/features"))["items"]
        for share in ("earned", "to_come"):
            total = sum(item[share] for item in by_feature)
            assert total == pytest.approx(sum(item[share] for item in shares))
        late = await client.decide(session, [[1.0, 0.0]], trajectory="a", at=at(5))
        assert late["round"] == 41
        file = (await client.get(f"/v1/sessions/{session}/events")).content
        typed = {"content-type": "application/x-ndjson"}
        made = await client.post("/v1/sessions/import", content=file, headers=typed)
        assert made.status_code == 201, made.text
        copied = await client.post(f"/v1/sessions/{session}/copy", json={"horizon": 4})
        assert copied.status_code == 201, copied.text
        assert copied.json()["clock"]["n_slots"] == 41
        with client.service.store.reader() as reader:
            for id in (session, made.json()["id"]):
                stored = reader.session(("", id))
                assert stored is not None
                replay = replay_session(reader, stored)
                assert replay.differences == []
                assert (replay.decisions, replay.estimates > 0) == (121, True)


async def test_bad_times_name_the_field_and_write_nothing(serve: Serve) -> None:
    async with serve() as client:
        session = await with_clock(client)
        for when, code in (
            ("2026-10-31T23:59:59Z", "out_of_range"),
            ("2222-01-01T00:00:00Z", "out_of_range"),
            ("2026-11-01", "invalid"),
        ):
            body = {"contexts": [[1.0, 0.0]], "at": when}
            problem(
                await client.post(f"/v1/sessions/{session}/decisions", json=body), 422, code, "at"
            )
        plain = await client.create()
        body = {"contexts": [[1.0, 0.0]], "at": at(0)}
        problem(
            await client.post(f"/v1/sessions/{plain}/decisions", json=body), 422, "invalid", "at"
        )
        answer = await client.post(
            f"/v1/sessions/{session}/history", json={"contexts": [[1.0, 0.0]], "rewards": [1.0]}
        )
        problem(answer, 422, "invalid", "at")
        log = {"contexts": [[1.0, 0.0]] * 2, "rewards": [1.0, 2.0], "at": [at(3), at(4)]}
        answer = await client.post(f"/v1/sessions/{session}/history", json=log)
        problem(answer, 409, "reward_conflict", "rewards[1].value")
        log |= {"rewards": [None, 2.0], "trajectory": "a"}
        answer = await client.post(f"/v1/sessions/{session}/history", json=log)
        problem(answer, 422, "invalid", "rewards[1].trajectory")
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0


@pytest.mark.parametrize("totals", ["all", "trajectory"])
@on_one_database
async def test_a_log_is_what_its_decisions_and_totals_are(serve: Serve, totals: str) -> None:
    """Two decisions a slot, of which the second one has the total, with its covariate."""
    rng, n_slots = np.random.default_rng(5), 150
    contexts = rng.uniform(-1, 1, (2 * n_slots, 2))
    when = [at(10 * (i // 2) + 4 * (i % 2)) for i in range(2 * n_slots)]
    rain = rng.normal(size=2 * n_slots)
    signal = contexts.reshape(n_slots, 2, 2).sum(axis=1) @ THETA + rain[1::2]
    values = signal + 0.05 * rng.standard_normal(n_slots)
    rewards = [None if i % 2 == 0 or i % 7 == 0 else values[i // 2] for i in range(2 * n_slots)]
    name = "" if totals == "all" else "a"
    more = {"totals": totals}
    options = {"covariates": ["rain"]}
    async with serve() as client:
        made = [
            await client.create(
                algorithm="anytime",
                horizon=3,
                seed=1,
                options=options,
                clock={"slot_seconds": 600, "start": at(0), **more},
            )
            for _ in range(2)
        ]
        log = {"contexts": contexts.tolist(), "rewards": rewards, "at": when, "import_id": "2026"}
        log |= {"trajectory": name, "covariates": {"rain": rain.tolist()}}
        answer = await client.post(f"/v1/sessions/{made[0]}/history", json=log)
        assert answer.status_code == 201, answer.text
        again = await client.post(f"/v1/sessions/{made[0]}/history", json=log)
        assert again.json() == answer.json()
        for i, context in enumerate(contexts.tolist()):
            forced = {"forced_arm": 0, "trajectory": name, "at": when[i]}
            await client.decide(made[1], [context], **forced)
        totals_of = [
            {
                "value": rewards[i],
                "from": at(10 * (i // 2)),
                "to": at(10 * (i // 2) + 10),
                "trajectory": name,
                "covariates": {"rain": rain[i]},
            }
            for i in range(2 * n_slots)
            if rewards[i] is not None
        ]
        await client.reward(made[1], rewards=totals_of)
        found = [await fitted(client, session) for session in made]
        for field in ("theta", "lag_weights", "last_round", "n_rows", "sigma_hat"):
            assert found[0][field] == found[1][field], field
        assert np.dot(found[0]["theta"], THETA) > 0.99
        assert found[0]["sigma_hat"] < 0.2  # what rain does is known
        with client.service.store.reader() as reader:
            stored = reader.session(("", made[0]))
            assert stored is not None
            replay = replay_session(reader, stored)
            assert replay.differences == []
            assert replay.decisions == 2 * n_slots


async def test_a_retry_of_a_late_decision_gets_the_first_answer(serve: Serve) -> None:
    async with serve() as client:
        session = await with_clock(client, totals="trajectory")
        asked = {"event_id": "e", "trajectory": "a", "at": at(3)}
        first = await client.decide(session, **asked)
        assert await client.decide(session, **asked) == first
        body = {"contexts": ((1.0, 0.0), (0.0, 1.0)), **asked, "at": at(4)}
        answer = await client.post(f"/v1/sessions/{session}/decisions", json=body)
        problem(answer, 409, "event_conflict", "event_id")


@pytest.mark.parametrize(
    ("clock", "field"),
    [
        ({}, "clock.slot_seconds"),
        ({"slot_seconds": 0}, "clock.slot_seconds"),
        ({"slot_seconds": 1.5}, "clock.slot_seconds"),
        ({"slot_seconds": 60, "start": "2222-01-01T00:00:00Z"}, "clock.start"),
        ({"slot_seconds": 1, "start": "1970-01-01T00:00:00Z"}, "clock.slot_seconds"),
        ({"slot_seconds": 60, "totals": "each"}, "clock.totals"),
    ],
)
@on_one_database
async def test_a_clock_is_checked(serve: Serve, clock: dict[str, Any], field: str) -> None:
    async with serve() as client:
        body = {"algorithm": "anytime", "dim": 2, "horizon": 4, "clock": clock}
        answer = await client.post("/v1/sessions", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)


async def test_the_same_name_and_clock_get_the_same_session(serve: Serve) -> None:
    async with serve() as client:
        body = {"name": "shop", "dim": 2, "horizon": 4}
        body["clock"] = {"slot_seconds": 3600}
        first = await client.post("/v1/sessions", json=body)
        assert first.status_code == 201, first.text
        again = await client.post("/v1/sessions", json=body)
        assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])
        other = {**body, "clock": {"slot_seconds": 60}}
        problem(await client.post("/v1/sessions", json=other), 409, "session_conflict", "name")
