"""Trajectories are listed in bounded pages; a listing of rounds asks which of them is meant."""

from typing import Any

import numpy as np
import pytest

from service.api import trajectories
from service.api.trajectories import cut_by_rounds
from service.session.records import TrajectoryRow
from service.transfer.replay import replay_session
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem, until

pytestmark = pytest.mark.anyio


async def fitted(client: Client, path: str) -> bool:
    """Whether no fit is due."""
    return not (await client.read(path))["fit_due"]


async def listed(client: Client, session: str, query: str = "") -> dict[str, Any]:
    return dict(await client.read(f"/v1/sessions/{session}/trajectories{query}"))


async def test_a_trajectory_has_its_rounds_and_what_it_misses(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        assert await listed(client, session) == {"items": [], "next": None}
        for key in ("b", "", "b", "ü", "b", "b", ""):
            await client.decide(session, trajectory=key)
        other = await client.create()  # is not counted
        await client.decide(other, trajectory="b")
        await client.reward(other, trajectory="b", round=1, value=1.0)
        await client.reward(session, trajectory="b", first_round=2, last_round=3, value=1.0)
        await client.reward(session, trajectory="", round=1, value=1.0)
        found = await listed(client, session)
        assert found["next"] is None
        assert [(i["trajectory"], i["n_rounds"], i["n_missing"]) for i in found["items"]] == [
            ("", 2, 1),
            ("b", 4, 2),
            ("ü", 1, 1),
        ]
        log = (await client.read(f"/v1/sessions/{session}/rounds?trajectory=b"))["items"]
        assert found["items"][1]["last_decision_at"] == log[-1]["at"]


async def test_values_that_add_up_are_one_measured_round(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(reward_mode="sum")
        for _ in range(3):
            await client.decide(session, trajectory="a")
        for i in range(3):
            await client.reward(session, trajectory="a", round=2, value=1.0, reward_id=f"r{i}")
        [item] = (await listed(client, session))["items"]
        assert (item["n_rounds"], item["n_missing"]) == (3, 2)


async def test_only_the_last_rounds_are_looked_at(serve: Serve) -> None:
    async with serve() as client:
        session, n = await client.create(), trajectories.MISSING_AMONG + 2
        log = {"trajectory": "a", "contexts": [[1.0, 0.0]] * n, "rewards": [None] * n}
        await client.post(f"/v1/sessions/{session}/history", json=log)
        await client.reward(session, trajectory="a", first_round=1, last_round=4, value=1.0)
        [item] = (await listed(client, session))["items"]
        # of the rounds from 3 on, 3 and 4 are known
        assert (item["n_rounds"], item["n_missing"]) == (n, n - 4)


async def test_pages_go_on_where_the_last_one_ended(serve: Serve) -> None:
    keys = ["", " ", "&=?", "a", "b", "ü"]
    async with serve() as client:
        session = await client.create()
        for key in keys:
            await client.decide(session, trajectory=key)
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = await client.get(
                f"/v1/sessions/{session}/trajectories", params={"limit": 2, "cursor": cursor}
            )
            found += [item["trajectory"] for item in answer.json()["items"]]
            cursor = answer.json()["next"]
        assert found == keys
        path = f"/v1/sessions/{session}/trajectories"
        problem(await client.get(f"{path}?cursor=%00"), 422, "invalid", "cursor")
        problem(await client.get(f"{path}?limit=0"), 422, "invalid", "limit")
        problem(await client.get("/v1/sessions/none/trajectories"), 404, "unknown_session")


def test_a_page_of_long_trajectories_is_short() -> None:
    def rows(n_rounds: int, n: int = 101) -> list[TrajectoryRow]:
        return [TrajectoryRow("t", "s", f"{i:03}", n_rounds, n_rounds) for i in range(n)]

    assert cut_by_rounds(rows(10), 100) == (rows(10)[:100], "100")
    assert cut_by_rounds(rows(10, 100), 100) == (rows(10, 100), None)
    long = rows(10**9)  # 1000 rounds of each are looked at: after 20 the page has 20 000, not more
    assert cut_by_rounds(long, 100) == (long[:21], "021")
    assert cut_by_rounds([], 100) == ([], None)


@pytest.mark.parametrize("listing", ["rounds", "credit"])
@on_one_database
async def test_a_listing_of_rounds_asks_which_trajectory_is_meant(
    serve: Serve, listing: str
) -> None:
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}/{listing}"
        assert (await client.read(path))["items"] == []  # no trajectory yet
        await client.decide(session)
        assert len((await client.read(path))["items"]) == 1  # the only one has no key
        await client.decide(session, trajectory="ann")
        problem(await client.get(path), 422, "trajectory_needed", "trajectory")
        for key, n in (("", 1), ("ann", 1), ("nobody", 0)):
            assert len((await client.read(f"{path}?trajectory={key}"))["items"]) == n
        session = await client.create()
        await client.decide(session, trajectory="ann")
        problem(
            await client.get(f"/v1/sessions/{session}/{listing}"),
            422,
            "trajectory_needed",
            "trajectory",
        )


async def test_messages_say_whose_rounds_they_count(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for key in ("", "", "", "ann"):
            await client.decide(session, trajectory=key)
        future = await client.reward(session, trajectory="ann", round=2, value=1.0)
        assert "the last one of trajectory 'ann' is 1" in future.json()["detail"]
        future = await client.reward(session, round=4, value=1.0)
        assert "the last one is 3" in future.json()["detail"]
        await client.reward(session, trajectory="ann", round=1, value=1.0)
        known = await client.reward(session, trajectory="ann", round=1, value=2.0)
        assert "round 1 of trajectory 'ann' has the value 1.0" in known.json()["detail"]


def logged(theta: np.ndarray, n: int, seed: int, level: float = 0.0) -> dict[str, Any]:
    """A log of n rounds, whose rewards are paid at once."""
    rng = np.random.default_rng(seed)
    contexts = rng.standard_normal((n, len(theta)))
    rewards = contexts @ theta + level + 0.05 * rng.standard_normal(n)
    return {"contexts": contexts.tolist(), "rewards": rewards.tolist()}


@on_one_database
async def test_what_is_known_of_one_trajectory(serve: Serve) -> None:
    """Its own theta is the one that ranks for it; a reward moves it before the next fit."""
    names = [f"u{i}" for i in range(8)]
    settings = {"algorithm": "anytime", "dim": 2, "horizon": 2, "refit": "blocking"}
    async with serve() as client:
        session = await client.create(
            **settings, features=["new", "cheap"], options={"own": True, "most_stale": 1}
        )
        path = f"/v1/sessions/{session}"
        await client.decide(session, trajectory="u0", contexts=[[1, 0], [0, 1]])
        before = await client.read(f"{path}/trajectories/u0")
        assert (before["own"], before["everybody"], before["n_rounds"]) == (None, None, 1)
        for i, name in enumerate(names):
            theta = np.array([np.cos(i / 3), np.sin(i / 3)])
            body = {**logged(theta, 30, i), "trajectory": name}
            assert (await client.post(f"{path}/history", json=body)).is_success
            await until(lambda: fitted(client, path))  # fits do not depend on the pace
        for name in ("u1", "new"):
            await client.decide(session, trajectory=name, contexts=[[1, 0], [0, 1]])
        estimate = await client.read(f"{path}/estimate")
        assert estimate["own"]["message"].startswith("Trajectories differ in what ")

        async def known(name: str) -> dict[str, Any]:
            found = await client.read(f"{path}/trajectories/{name}")
            body = {"contexts": [[1, 0], [0, 1]], "trajectory": name}
            ranked = (await client.post(f"{path}/rank", json=body)).json()
            assert found["own"]["values"] == ranked["scores"]
            assert found["everybody"] == {"values": estimate["theta"], "intervals": None}
            return dict(found)

        one = await known("u1")
        assert (one["trajectory"], one["n_rounds"], one["features"]) == ("u1", 31, ["new", "cheap"])
        assert one["n_missing"] == 1
        assert one["level"] is None
        await client.reward(session, trajectory="u1", round=31, value=9.0)
        moved = await known("u1")
        assert moved["own"] != one["own"]
        assert moved["n_missing"] == 0
        new = await known("new")
        assert new["own"]["values"] == estimate["theta"]
        half = np.ptp(new["own"]["intervals"], axis=1) / 2
        spread, (_, high) = (np.array(estimate["own"][part]).T for part in ("spread", "intervals"))
        unsure = np.minimum(((high / spread) ** 2 - 1.0) / 1.96, 2.0)  # model (15.3)
        assert half == pytest.approx(1.96 * spread * np.sqrt(1.0 + unsure**2 / 4))
        assert np.all(np.ptp(moved["own"]["intervals"], axis=1) < half)
        problem(await client.get(f"{path}/trajectories/nobody"), 404, "unknown_trajectory", "key")
        await client.delete(f"{path}/trajectories/u1")
        problem(await client.get(f"{path}/trajectories/u1"), 404, "unknown_trajectory", "key")


@on_one_database
async def test_features_that_may_differ_are_told_by_name(serve: Serve) -> None:
    """Of the others nobody has a response of their own; a copy of the session replays."""
    settings = {"algorithm": "anytime", "dim": 2, "horizon": 2, "refit": "blocking"}
    options = {"own": ["cheap"], "most_stale": 1}
    async with serve() as client:
        session = await client.create(**settings, features=["new", "cheap"], options=options)
        path = f"/v1/sessions/{session}"
        for i in range(8):
            theta = np.array([0.8, np.cos(i)])
            body = {**logged(theta, 40, i), "trajectory": f"u{i}"}
            assert (await client.post(f"{path}/history", json=body)).is_success
            await until(lambda: fitted(client, path))  # fits do not depend on the pace
        estimate = await client.read(f"{path}/estimate")
        assert estimate["own"]["message"].startswith("Trajectories differ in what cheap does")
        assert (estimate["own"]["spread"][0], estimate["own"]["intervals"][0]) == (0.0, [0.0, 0.0])
        for name in ("u1", "new"):
            await client.decide(session, trajectory=name, contexts=[[1, 0], [0, 1]])
        one = await client.read(f"{path}/trajectories/u1")
        assert one["own"]["values"][0] == one["everybody"]["values"][0]
        assert one["own"]["values"][1] != one["everybody"]["values"][1]
        file = (await client.get(f"{path}/events")).content
        made = await client.post("/v1/sessions/import?name=again", content=file)
        assert made.status_code == 201, made.text
        assert made.json()["options"] == options
        for key in (session, made.json()["id"]):
            with client.service.store.reader() as reader:
                found = reader.session(("", key))
                assert found is not None
                assert replay_session(reader, found).differences == []
        refused = await client.patch(path, json={"options": {**options, "own": ["nobody"]}})
        problem(refused, 422, "bad_option", "options.own")


@on_one_database
async def test_where_no_spread_is_seen_everybodys_theta_decides(serve: Serve) -> None:
    """A spread that is not clear is said, and decides nothing: no trajectory has its own theta."""
    settings = {"algorithm": "anytime", "dim": 2, "horizon": 2, "refit": "blocking"}
    async with serve() as client:
        session = await client.create(**settings, options={"own": True, "most_stale": 1})
        path = f"/v1/sessions/{session}"
        for i in range(8):
            theta = np.array([1.0, 0.5]) + 0.018 * np.array([np.cos(i), np.sin(i)])
            body = {**logged(theta, 30, i), "trajectory": f"u{i}"}
            assert (await client.post(f"{path}/history", json=body)).is_success
            await until(lambda: fitted(client, path))  # fits do not depend on the pace
        await client.decide(session, trajectory="u1", contexts=[[1, 0], [0, 1]])
        spread = (await client.read(f"{path}/estimate"))["own"]
        assert any(spread["spread"]), spread
        assert not spread["message"].startswith("Trajectories differ"), spread
        known = await client.read(f"{path}/trajectories/u1")
        assert known["own"] is None
        assert len(known["everybody"]["values"]) == 2


@on_one_database
async def test_the_level_of_a_trajectory_has_a_band(serve: Serve) -> None:
    """It is the part of its rewards that the series gives to its level, as wide as noise leaves."""
    settings = {"algorithm": "anytime", "dim": 2, "horizon": 2, "refit": "blocking"}
    async with serve() as client:
        session = await client.create(**settings, options={"levels": True})
        path = f"/v1/sessions/{session}"
        for i in range(12):
            body = {**logged(np.array([0.6, 0.8]), 20, i, level=i), "trajectory": f"u{i}"}
            assert (await client.post(f"{path}/history", json=body)).is_success
            await until(lambda: fitted(client, path))  # fits do not depend on the pace
        for name in ("u0", "new"):
            await client.decide(session, trajectory=name, contexts=[[1, 0], [0, 1]])
        spread = (await client.read(f"{path}/estimate"))["levels"]["spread"]
        levels = []
        for i in range(12):
            found = await client.read(f"{path}/trajectories/u{i}")
            assert found["own"] is None
            low, high = found["level"]["interval"]
            assert low < found["level"]["value"] < high < low + 0.2
            levels.append(found["level"]["value"])
            series = await client.read(f"{path}/series?by=round&trajectory=u{i}&bins=1")
            [item] = series["items"]
            assert item["parts"]["levels"] == pytest.approx(levels[-1], rel=1e-6)
        assert np.diff(levels) == pytest.approx(np.ones(11), abs=0.1)
        new = (await client.read(f"{path}/trajectories/new"))["level"]
        assert new["value"] == 0.0
        assert new["interval"] == pytest.approx([-1.96 * spread, 1.96 * spread])


async def test_the_level_of_a_trajectory_of_slots(serve: Serve) -> None:
    """Where a clock counts slots, the level is that of the slots whose totals came last."""
    clock = {"slot_seconds": 3600, "start": "2026-01-01T00:00:00Z", "totals": "trajectory"}
    async with serve() as client:
        settings = {"algorithm": "anytime", "dim": 2, "horizon": 2, "clock": clock}
        session = await client.create(**settings, options={"levels": True})
        await client.decide(session, trajectory="a", at="2026-01-01T00:10:00Z")
        found = await client.read(f"/v1/sessions/{session}/trajectories/a")
        assert (found["level"], found["n_rounds"], found["n_missing"]) == (None, 1, None)
