"""What checks of the model find: answered, exported, imported, and found again by a replay."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lhb_engine.findings.finding import Finding
from service.api.estimates import get_estimate
from service.commands.out_of_turn import ask_fit
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem, until
from tests.service.service_harness import OK, ZERO, ServiceHarness
from tests.service.transfer.test_import_forgeries import resealed
from tests.service.transfer.test_replay import replayed

pytestmark = pytest.mark.anyio
TYPED = {"content-type": "application/x-ndjson"}


def log(n: int) -> dict:
    """Rewards of the round before, and a daily season that the session is not told of."""
    rng = np.random.default_rng(0)
    rounds, contexts = np.arange(1, n + 1), rng.uniform(-1, 1, (n, 2))
    paid = np.convolve(contexts @ [0.6, 0.8], [0.0, 1.0])[:n]
    rewards = paid + np.sin(2 * np.pi * rounds / 24) + rng.normal(0, 0.1, n)
    return {"contexts": contexts.tolist(), "rewards": rewards.tolist()}


async def found(client: Client, session: str) -> list | None:
    """The session's findings, as soon as there are some."""
    return (await client.read(f"/v1/sessions/{session}/estimate"))["findings"] or None


@on_one_database
async def test_a_season_that_nobody_told_is_found_and_said(serve: Serve) -> None:
    async with serve() as client:
        told = {"adopts": False}
        session = await client.create(algorithm="anytime", dim=2, horizon=4, options=told)
        before = await client.read(f"/v1/sessions/{session}/estimate")
        assert before["findings"] == []
        await client.post(f"/v1/sessions/{session}/history", json=log(400))
        [season] = await until(lambda: found(client, session))
        assert (season["code"], season["period"]) == ("season", 24)
        assert 'add {"period": 24} to the option `seasonality`' in season["message"]
        fits = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        assert [fit["findings"] for fit in fits if "findings" in fit][-1] == [season]
        unchecked = (await client.read(f"/v1/sessions/{session}/estimate"))["unchecked"]
        # a log has chosen arms alone, and what moves rewards over time looks like effects of lags
        assert [one["missing"] for one in unchecked] == ["sets", "found"]
        assert "horizon_short" in unchecked[1]["codes"]
        replay = replayed(client, session)
        assert (replay.differences, replay.estimates > 0) == ([], True)

        lines = (await client.get(f"/v1/sessions/{session}/events")).content
        made = await client.post("/v1/sessions/import", content=lines, headers=TYPED)
        assert made.status_code == 201, made.text
        copy = made.json()["id"]
        read = await client.read(f"/v1/sessions/{copy}/estimate")
        assert (read["findings"], read["unchecked"]) == ([season], unchecked)

        changed = {"options": told | {"seasonality": [{"period": 24}]}}
        assert (await client.patch(f"/v1/sessions/{copy}", json=changed)).status_code == 200
        fits = (await client.read(f"/v1/sessions/{copy}/estimates"))["items"]
        said = next(one["message"] for fit in fits for one in fit.get("findings", ()))
        assert said.endswith("whatever is chosen. Later fits are told so: nothing is to do.")


@on_one_database
async def test_later_fits_are_told_the_season_that_was_found(serve: Serve) -> None:
    async def taken() -> dict | None:
        read = await client.read(f"/v1/sessions/{session}")
        return read if "seasonality" in read["options"] else None

    async def fitted() -> dict | None:
        read = await client.read(f"/v1/sessions/{session}/estimate")
        return read if read["effects"] else None

    async with serve() as client:
        session = await client.create(algorithm="anytime", dim=2, horizon=4)
        await client.post(f"/v1/sessions/{session}/history", json=log(400))
        options = (await until(taken))["options"]
        assert options == {"seasonality": [{"period": 24.0, "harmonics": 1}]}
        estimate = await until(fitted)
        assert estimate["findings"] == []
        assert estimate["effects"]["groups"] == ["season 24, harmonic 1"]
        replay = replayed(client, session)
        assert (replay.differences, replay.estimates > 1) == ([], True)

        lines = (await client.get(f"/v1/sessions/{session}/events")).content
        made = await client.post("/v1/sessions/import", content=lines, headers=TYPED)
        assert made.status_code == 201, made.text
        copy = made.json()["id"]
        assert (await client.read(f"/v1/sessions/{copy}"))["options"] == options
        assert (await client.read(f"/v1/sessions/{copy}/estimate"))["effects"] == estimate[
            "effects"
        ]


async def levelled(client: Client, session: str, dim: int = 2) -> None:
    """Send the logs of twelve people, whose rewards lie far apart, and ask for a fit of them."""
    rng = np.random.default_rng(2)
    for user in range(12):
        contexts = rng.uniform(-1, 1, (30, dim))
        rewards = contexts[:, :2] @ [0.6, 0.8] + rng.normal(0, 0.3, 30) + 5 * rng.standard_normal()
        body = {"contexts": contexts.tolist(), "rewards": rewards.tolist()}
        sent = {**body, "trajectory": f"user-{user}"}
        while (sending := await client.post(f"/v1/sessions/{session}/history", json=sent)).is_error:
            problem(sending, 503, "storage_busy")  # on a busy machine: try again
    await client.post(f"/v1/sessions/{session}/fits")


async def test_later_fits_are_told_levels_that_were_found(serve: Serve) -> None:
    """At once; here, in a copy, where the session moves to, and once somebody is erased."""

    async def spread() -> float | None:
        read = await client.read(f"/v1/sessions/{session}/estimate")
        return read.get("levels") and read["levels"]["spread"]

    async with serve() as client:
        session = await client.create(algorithm="anytime", dim=2, horizon=4)
        await levelled(client, session)
        assert 2.0 < await until(spread) < 10.0
        read = await client.read(f"/v1/sessions/{session}")
        assert read["options"] == {"levels": True}
        fits = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        every = [one for fit in fits for one in fit.get("findings", ())]
        [said] = [one["message"] for one in every if one["code"] == "levels_differ"]
        assert said.endswith("Later fits are told so: nothing is to do.")
        replay = replayed(client, session)
        assert (replay.differences, replay.estimates > 1) == ([], True)

        copy = await client.post(f"/v1/sessions/{session}/copy", json={})
        assert copy.json()["options"] == {"levels": True}
        lines = (await client.get(f"/v1/sessions/{session}/events")).content
        made = await client.post("/v1/sessions/import?name=b", content=lines, headers=TYPED)
        assert made.status_code == 201, made.text
        moved = await client.read(f"/v1/sessions/{made.json()['id']}/estimate")
        assert moved["levels"] == (await client.read(f"/v1/sessions/{session}/estimate"))["levels"]

        await client.delete(f"/v1/sessions/{session}/trajectories/user-3")
        await client.post(f"/v1/sessions/{session}/fits")
        assert await until(spread)
        assert (await client.read(f"/v1/sessions/{session}"))["options"] == {"levels": True}
        assert replayed(client, session).differences == []


@on_one_database
@pytest.mark.parametrize(("dim", "options"), [(2, {"levels": False}), (300, {})])
async def test_levels_that_are_told_not_to_be_or_cannot_be_stay_a_finding(
    serve: Serve, dim: int, options: dict
) -> None:
    async def differ() -> list[str]:
        every = await found(client, session) or []
        return [one["message"] for one in every if one["code"] == "levels_differ"]

    async with serve() as client:
        session = await client.create(algorithm="anytime", dim=dim, horizon=4, options=options)
        await levelled(client, session, dim)
        [said] = await until(differ)
        assert said.endswith("set the option `levels`.")
        assert (await client.read(f"/v1/sessions/{session}"))["options"] == options


def test_a_trend_is_told_where_levels_cannot_be(harness: ServiceHarness) -> None:
    """Each of what a fit found is told by itself: an agent may take one and not another."""
    found = [Finding("levels_differ", "").to_json(), Finding("trend", "").to_json()]
    for dim, told in (2, {"levels": True, "trend": True}), (300, {"trend": True}):
        harness.create(algorithm="anytime", dim=dim)
        for _ in range(4):
            decision = harness.decide(contexts=np.eye(2, dim))
            harness.reward(1.0, round=decision.round)
        harness.run(ask_fit(harness.key, harness.agents))
        assert harness.session.fit_due is not None
        harness.finish(harness.session.fit_due, replace(ZERO, findings=found))
        assert harness.session.options == told


def test_what_the_last_fit_makes_doubtful_of_the_estimate_in_use_is_not_said(
    harness: ServiceHarness,
) -> None:
    harness.create(algorithm="anytime", dim=2)
    doubted = replace(ZERO, findings=[Finding("repetition", "").to_json()])
    gains = []
    for made in (replace(OK, gain={"if_shared": False}), ZERO, doubted):
        harness.rounds(4)
        harness.run(ask_fit(harness.key, harness.agents))
        assert harness.session.fit_due is not None
        harness.finish(harness.session.fit_due, made)
        with harness.store.reader() as reader:
            gains.append(get_estimate(reader, harness.session)["gain"])
    assert gains == [{"if_shared": False}, {"if_shared": False}, None]


@on_one_database
@pytest.mark.parametrize("name", ["dull", "a \\1 \\ b"])
async def test_findings_call_features_by_their_names(serve: Serve, name: str) -> None:
    async with serve() as client:
        session = await client.create(
            algorithm="anytime", dim=3, horizon=4, features=["x", "y", name]
        )
        contexts = [[*row, 0.0] for row in log(200)["contexts"]]
        body = {"contexts": contexts, "rewards": log(200)["rewards"]}
        await client.post(f"/v1/sessions/{session}/history", json=body)
        messages = [one["message"] for one in await until(lambda: found(client, session))]
        said = f'Feature "{name}" is 0 in every chosen context, so nothing can be learned of it: '
        assert any(one.startswith(said) for one in messages)
        fits = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        last = [fit["findings"] for fit in fits if fit.get("findings")][-1]
        assert any(one["message"].startswith(said) for one in last)


@on_one_database
async def test_findings_call_features_by_the_arms_that_have_them(serve: Serve) -> None:
    """Identity rows: control's arm is the first, and the agent's fits have seen no other."""
    async with serve() as client:
        ids = ["kitchen", "garden", "bath"]
        session = await client.create(algorithm="anytime", dim=3, horizon=2, arms=ids)
        rng = np.random.default_rng(1)
        for i in range(128):
            skips = rng.random() < 0.5
            body = {"skip": True} if skips else {"contexts": np.eye(3).tolist(), "forced_arm": 0}
            await client.post(f"/v1/sessions/{session}/decisions", json=body)
            value = float(rng.standard_normal()) + (not skips)
            await client.reward(session, round=i + 1, value=value)
        await client.post(f"/v1/sessions/{session}/fits")

        async def alike() -> list[Any]:
            every = await found(client, session) or []
            return [one for one in every if one["code"] == "features_alike"]

        [finding] = await until(alike)
        assert finding["features"] == [1, 2]
        assert finding["message"].startswith('Features "garden" and "bath" are 0 in every')


@on_one_database
async def test_what_fits_of_before_did_not_look_for_is_no_difference(serve: Serve) -> None:
    """The estimate of a session from before there were findings has none, and replays equal.

    A season that fits adopt is found by one fit alone, so this session adopts none.
    """
    async with serve() as client:
        told = {"adopts": False}
        session = await client.create(algorithm="anytime", dim=2, horizon=4, options=told)
        await client.post(f"/v1/sessions/{session}/history", json=log(200))
        await until(lambda: found(client, session))
        lines = (await client.get(f"/v1/sessions/{session}/events")).content.splitlines()
        records = [json.loads(line) for line in lines[:-1]]
        for record in records:
            if record["record"] == "estimate" and record["estimate"]:
                del record["estimate"]["findings"]
        made = await client.post("/v1/sessions/import", content=resealed(records), headers=TYPED)
        assert made.status_code == 201, made.text
        assert (await client.read(f"/v1/sessions/{made.json()['id']}/estimate"))["findings"] == []
        assert replayed(client, made.json()["id"]).differences == []

        for record in records:
            if record["record"] == "estimate" and record["estimate"]:
                record["estimate"]["findings"] = [{"code": "weather", "message": "it rains"}]
        answer = await client.post("/v1/sessions/import", content=resealed(records), headers=TYPED)
        problem(answer, 422, "bad_import", "estimate.estimate.findings[0].code")


@on_one_database
async def test_a_fit_that_is_told_of_levels_looks_for_none(serve: Serve) -> None:
    """Nor does one that gave no estimate."""
    async with serve() as client:
        told = {"levels": True}
        session = await client.create(algorithm="anytime", dim=2, horizon=2, options=told)
        rng = np.random.default_rng(1)
        for key in "ab":
            rows = {"contexts": rng.uniform(-1, 1, (100, 2)).tolist(), "trajectory": key}
            rows["rewards"] = [1.0] * 100
            sent = await client.post(f"/v1/sessions/{session}/history", json=rows)
            assert sent.status_code == 201, sent.text

        async def checked() -> dict | None:
            read = await client.read(f"/v1/sessions/{session}/estimate")
            return read if read["checked"] else None

        read = await until(checked)
        assert "levels_differ" not in [code for one in read["unchecked"] for code in one["codes"]]
        fits = (await client.read(f"/v1/sessions/{session}/estimates"))["items"]
        assert [one["status"] for one in fits if one["status"] != "skipped"][-1] != "ok"
        assert "of different levels" not in read["checked"]
