"""Trajectories are listed in bounded pages; a listing of rounds asks which of them is meant."""

from typing import Any
from unittest.mock import patch

import pytest

from service.api import trajectories
from service.api.trajectories import cut_by_rounds
from service.session.records import TrajectoryRow
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio


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
        session = await client.create()
        for _ in range(6):
            await client.decide(session, trajectory="a")
        await client.reward(session, trajectory="a", first_round=1, last_round=4, value=1.0)
        with patch.object(trajectories, "MISSING_AMONG", 4):  # of rounds 3 to 6, 3 and 4 are known
            [item] = (await listed(client, session))["items"]
        assert (item["n_rounds"], item["n_missing"]) == (6, 2)


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
