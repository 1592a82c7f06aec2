"""Totals of an interval of time: its rounds are found when the reward comes."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.service.api.test_rewards import played, rewards_of
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio


async def test_an_interval_of_time_means_the_rounds_that_began_in_it(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 5)
        await client.decide(session, trajectory="other")
        page = await client.read(f"/v1/sessions/{session}/rounds?trajectory=")
        times = [item["at"] for item in page["items"]]
        interval = {"from": times[1], "to": times[3]}  # the end is not in it
        answer = await client.reward(session, value=6.0, **interval)
        assert answer.json() == {"accepted": 1, "repeated": 0}, answer.text
        assert (await client.reward(session, value=6.0, **interval)).json()["repeated"] == 1
        answer = await client.reward(session, value=7.0, **interval)
        problem(answer, 409, "reward_conflict", "value")
        answer = await client.reward(session, value=6.0, **{"from": times[2], "to": times[4]})
        problem(answer, 409, "reward_conflict", "from")
        early = {"from": "2026-01-01T00:00:00Z", "to": times[1]}
        assert (await client.reward(session, value=1.0, **early)).json()["accepted"] == 1
        other = await client.read(f"/v1/sessions/{session}/rounds?trajectory=other")
        now = datetime.now(UTC).isoformat()
        since_then = {"from": other["items"][0]["at"], "to": now, "trajectory": "other"}
        assert (await client.reward(session, value=2.0, **since_then)).json()["accepted"] == 1
        correction = {"correct": True, "reward_id": "refund", **interval}
        assert (await client.reward(session, value=5.0, **correction)).json()["accepted"] == 1
        page = await client.read(f"/v1/sessions/{session}/rounds?trajectory=")
        spans = [
            (one["first_round"], one["last_round"], one["value"])
            for one in page["items"][1]["spans"]
        ]
        assert spans == [(2, 3, 5.0)]
        assert [item["reward"] for item in page["items"]] == [1.0, None, None, None, None]


async def test_an_interval_keeps_its_rounds_whatever_was_decided_since(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 2)
        reward = {"from": "2026-01-01T00:00:00Z", "to": datetime.now(UTC).isoformat(), "value": 1.0}
        riding = await client.decide(session, rewards=[reward], event_id="third")
        await client.decide(session)
        assert await client.decide(session, rewards=[reward], event_id="third") == riding
        assert (await client.reward(session, **reward)).json() == {"accepted": 0, "repeated": 1}


async def test_an_interval_is_over_and_has_rounds(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 1)
        past, now = "2026-01-01T00:00:00Z", datetime.now(UTC)
        ahead = (now + timedelta(hours=1)).isoformat()
        refused = (
            ({"from": past}, "missing", "to"),
            ({"to": past}, "missing", "from"),
            ({"from": past, "to": ahead}, "interval_open", "to"),
            ({"from": now.isoformat(), "to": past}, "last_before_first", "to"),
            ({"from": past, "to": past}, "last_before_first", "to"),
            ({"from": past, "to": "2026-01-02T00:00:00Z"}, "unknown_round", "from"),
            (
                {"from": past, "to": now.isoformat(), "trajectory": "nobody"},
                "unknown_round",
                "from",
            ),
            ({"from": past, "to": now.isoformat(), "round": 1}, "ambiguous", "round"),
            ({"from": past, "to": "2026-01-02"}, "invalid", "to"),
        )
        for interval, code, field in refused:
            problem(await client.reward(session, value=1.0, **interval), 422, code, field)
        answer = await client.reward(session, rewards=[{"value": 1.0, "from": past, "to": ahead}])
        problem(answer, 422, "interval_open", "rewards[0].to")
        assert await rewards_of(client, session) == [None]
        session = await played(client, 1, reward_mode="sum")
        reward = {"value": 1.0, "reward_id": "a", "from": past, "to": now.isoformat()}
        problem(await client.reward(session, **reward), 422, "span_in_sum_mode", "from")
