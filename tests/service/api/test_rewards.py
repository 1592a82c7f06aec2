"""Rewards over HTTP, in both modes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem

pytestmark = pytest.mark.anyio


async def rewards_of(client: Client, session: str, trajectory: str = "") -> list[Any]:
    page = await client.read(f"/v1/sessions/{session}/rounds?trajectory={trajectory}")
    return [item["reward"] for item in page["items"]]


async def played(client: Client, n: int, **body: Any) -> str:
    session = await client.create(**body)
    for _ in range(n):
        await client.decide(session)
    return session


async def test_by_round_by_event_and_several_at_once(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 3)
        await client.decide(session, event_id="mine")
        assert (await client.reward(session, value=1, round=1)).status_code == 200
        await client.reward(session, value=4.0, event_id="mine")
        answer = await client.reward(
            session, rewards=[{"value": 2.0, "round": 2}, {"value": 3.0, "round": 3}]
        )
        assert answer.json() == {"accepted": 2, "repeated": 0}
        assert await rewards_of(client, session) == [1.0, 2.0, 3.0, 4.0]


async def test_the_same_value_twice_is_taken_once_another_is_refused(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 2)
        await client.reward(session, value=1.0, round=1)
        answer = await client.reward(session, value=1.0, round=1)
        assert answer.json() == {"accepted": 0, "repeated": 1}
        problem(await client.reward(session, value=2.0, round=1), 409, "reward_conflict", "value")
        answer = await client.reward(
            session, rewards=[{"value": 5.0, "round": 2}, {"value": 6.0, "round": 2}]
        )
        problem(answer, 409, "reward_conflict", "rewards[1].value")
        assert await rewards_of(client, session) == [1.0, None]


BAD: list[tuple[Any, int, str, str]] = [
    ({"round": 1}, 422, "missing", "value"),
    ({"value": 1.0}, 422, "missing", "round"),
    ({"value": 1.0, "round": 1, "event_id": "a"}, 422, "ambiguous", "round"),
    ({"value": 1.0, "round": 4}, 422, "future_round", "round"),
    ({"value": 1.0, "round": 0}, 422, "unknown_round", "round"),
    ({"value": 1.0, "round": -(10**30)}, 422, "unknown_round", "round"),
    ({"value": 1.0, "round": 10**30}, 422, "future_round", "round"),
    ({"value": 1.0, "round": 1.5}, 422, "invalid", "round"),
    ({"value": 1.0, "round": 1, "trajectory": "nobody"}, 422, "future_round", "round"),
    ({"value": 1.0, "first_round": 1}, 422, "missing", "last_round"),
    ({"value": 1.0, "first_round": 3, "last_round": 2}, 422, "last_before_first", "last_round"),
    ({"value": 1.0, "first_round": 1, "last_round": 9}, 422, "future_round", "last_round"),
    ({"value": 1.0, "at": "2026-01-01T00:00:00Z"}, 422, "at_in_single_mode", "at"),
    ({"value": 1.0, "event_id": "nobody"}, 404, "unknown_event", "event_id"),
    ({"value": "1", "round": 1}, 422, "invalid", "value"),
    ({"value": 1e13, "round": 1}, 422, "out_of_range", "value"),
    (b'{"value": NaN, "round": 1}', 422, "not_finite", "value"),
    (b'{"value": 1, "value": 1, "round": 1}', 400, "duplicate_key", "value"),
    ({"rewards": []}, 422, "invalid", "rewards"),
    ({"rewards": [{"value": 1.0, "round": 1}], "value": 1.0}, 422, "ambiguous", "value"),
    ({"rewards": [{"value": 1.0, "round": 1}, {"round": 2}]}, 422, "missing", "rewards[1].value"),
    (b"{", 400, "malformed_json", "body"),
]


@on_one_database
async def test_bad_input_names_the_field_and_writes_nothing(
    serve: Serve, subtests: pytest.Subtests
) -> None:
    async with serve() as client:
        session = await played(client, 3)
        for body, status, code, field in BAD:
            with subtests.test(body=body):
                content = {"content": body} if isinstance(body, bytes) else {"json": body}
                answer = await client.post(f"/v1/sessions/{session}/rewards", **content)
                problem(answer, status, code, field)
                assert await rewards_of(client, session) == [None] * 3


async def test_spans_do_not_overlap(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 9)
        span = {"value": 6.0, "first_round": 2, "last_round": 4}
        assert (await client.reward(session, **span)).json()["accepted"] == 1
        assert (await client.reward(session, **span)).json()["repeated"] == 1
        for when in (
            {"round": 3},
            {"first_round": 4, "last_round": 6},
            {"first_round": 1, "last_round": 9},
            {"first_round": 3, "last_round": 3},
        ):
            field = "round" if "round" in when else "first_round"
            answer = await client.reward(session, value=6.0, **when)
            problem(answer, 409, "reward_conflict", field)
        answer = await client.reward(
            session,
            rewards=[
                {"value": 1.0, "first_round": 5, "last_round": 6},
                {"value": 1.0, "first_round": 6, "last_round": 7},
            ],
        )
        problem(answer, 409, "reward_conflict", "rewards[1].first_round")
        assert (await client.reward(session, value=1.0, round=1)).status_code == 200
        assert (await client.reward(session, value=1.0, round=5)).status_code == 200


async def test_a_reward_id_names_one_reward(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 3)
        await client.reward(session, value=1.0, round=1, reward_id="a")
        again = await client.reward(session, value=1.0, round=1, reward_id="a")
        assert again.json() == {"accepted": 0, "repeated": 1}
        for other in ({"value": 1.0, "round": 2}, {"value": 2.0, "round": 1}):
            answer = await client.reward(session, **other, reward_id="a")
            problem(answer, 409, "reward_conflict", "reward_id")
        await client.reward(session, value=1.0, round=2)
        answer = await client.reward(session, value=1.0, round=2, reward_id="a")
        problem(answer, 409, "reward_conflict", "reward_id")
        twice = [{"value": 1.0, "round": round, "reward_id": "b"} for round in (2, 3)]
        answer = await client.reward(session, rewards=twice)
        problem(answer, 409, "reward_conflict", "rewards[1].reward_id")
        assert await rewards_of(client, session) == [1.0, 1.0, None]


async def test_a_retry_gets_the_first_answer_after_archiving_too(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 2)
        reward = {"value": 1.0, "round": 1}
        await client.reward(session, **reward)
        await client.patch(f"/v1/sessions/{session}", json={"archived": True})
        assert (await client.reward(session, **reward)).json() == {"accepted": 0, "repeated": 1}
        problem(await client.reward(session, value=1.0, round=2), 409, "archived")
        both = [reward, {"value": 1.0, "round": 2}]
        problem(await client.reward(session, rewards=both), 409, "archived")
        assert await rewards_of(client, session) == [1.0, None]


async def test_sums_add_up_and_retries_do_not(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 2, reward_mode="sum")
        problem(await client.reward(session, value=1.0, round=1), 422, "missing", "reward_id")
        for reward_id in ("a", "b", "a"):
            await client.reward(session, value=1.5, round=1, reward_id=reward_id)
        assert await rewards_of(client, session) == [3.0, None]
        answer = await client.reward(session, value=2.5, round=1, reward_id="a")
        problem(answer, 409, "reward_conflict", "reward_id")
        answer = await client.reward(session, value=2.5, first_round=1, last_round=2, reward_id="c")
        problem(answer, 422, "span_in_sum_mode", "first_round")
        answer = await client.reward(
            session,
            rewards=[
                {"value": 1.0, "round": 2, "reward_id": "d"},
                {"value": 1.0, "round": 2, "reward_id": "d"},
                {"value": 1.0, "round": 2, "reward_id": "e"},
            ],
        )
        assert answer.json() == {"accepted": 2, "repeated": 1}
        assert await rewards_of(client, session) == [3.0, 2.0]


async def test_at_finds_the_round_that_was_under_way(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 2, reward_mode="sum")
        page = await client.read(f"/v1/sessions/{session}/rounds")
        first, second = (datetime.fromisoformat(item["at"]) for item in page["items"])
        middle = first + (second - first) / 2
        for i, at in enumerate((middle, second, datetime.now(UTC))):
            zoned = at.astimezone(tz=None).isoformat()
            answer = await client.reward(session, value=1.0, at=zoned, reward_id=str(i))
            assert answer.status_code == 200, answer.text
        assert await rewards_of(client, session) == [1.0, 2.0]
        for at in (first - timedelta(seconds=1), second + timedelta(days=1)):
            answer = await client.reward(session, value=1.0, at=at.isoformat(), reward_id="x")
            problem(answer, 422, "unknown_round", "at")
        answer = await client.reward(session, value=1.0, at="2026-01-01T00:00:00", reward_id="x")
        problem(answer, 422, "invalid", "at")


async def test_a_retry_of_at_is_known_whatever_was_decided_since(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 1, reward_mode="sum")
        ahead = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
        reward = {"value": 1.0, "at": ahead, "reward_id": "a"}
        assert (await client.reward(session, **reward)).json()["accepted"] == 1
        for _ in range(2):
            await client.decide(session)
        assert (await client.reward(session, **reward)).json() == {"accepted": 0, "repeated": 1}
        answer = await client.reward(session, **{**reward, "value": 2.0})
        problem(answer, 409, "reward_conflict", "reward_id")
        page = await client.read(f"/v1/sessions/{session}/rounds")
        answer = await client.reward(session, **reward | {"reward_id": "b"})
        assert answer.json()["accepted"] == 1
        for early in (page["items"][0]["at"], page["items"][1]["at"]):
            answer = await client.reward(session, **{**reward, "reward_id": "b", "at": early})
            problem(answer, 409, "reward_conflict", "reward_id")
        assert await rewards_of(client, session) == [1.0, None, 1.0]


async def test_rewards_of_several_trajectories_in_one_call(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for name in ("a", "b"):
            await client.decide(session, trajectory=name)
        answer = await client.reward(
            session,
            rewards=[
                {"value": 1.0, "round": 1, "trajectory": "a"},
                {"value": 2.0, "round": 1, "trajectory": "b"},
            ],
        )
        assert answer.json()["accepted"] == 2
        assert await rewards_of(client, session, "a") == [1.0]
        assert await rewards_of(client, session, "b") == [2.0]


async def test_a_correction_is_shown_in_place_of_the_value(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 3)
        await client.reward(session, value=1.0, round=1, reward_id="a")
        await client.reward(session, value=6.0, first_round=2, last_round=3)
        corrections = [
            {"value": 2.0, "replaces": "a", "reward_id": "b"},
            {"value": 3.0, "round": 1, "correct": True, "reward_id": "c"},
            {"value": 5.0, "first_round": 2, "last_round": 3, "correct": True, "reward_id": "d"},
        ]
        for said in ({"accepted": 3, "repeated": 0}, {"accepted": 0, "repeated": 3}):
            assert (await client.reward(session, rewards=corrections)).json() == said
        page = await client.read(f"/v1/sessions/{session}/rounds")
        first, second, _ = page["items"]
        assert (first["reward"], first["n_rewards"], first["n_corrected"]) == (3.0, 1, 2)
        [span] = second["spans"]
        assert span == {"first_round": 2, "last_round": 3, "value": 5.0, "covariates": None}
        assert second["n_corrected"] == 1
        series = await client.read(f"/v1/sessions/{session}/series")
        assert series["arrivals"]["n_values"] == 2


@on_one_database
@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"round": 1, "correct": True}, 422, "missing", "reward_id"),
        ({"round": 2, "correct": True, "reward_id": "x"}, 404, "unknown_reward", "correct"),
        ({"replaces": "b", "reward_id": "x"}, 404, "unknown_reward", "replaces"),
        ({"replaces": "a", "round": 1, "reward_id": "x"}, 422, "ambiguous", "round"),
        ({"round": 1, "correct": "yes", "reward_id": "x"}, 422, "invalid", "correct"),
        ({"round": 1, "correct": False, "reward_id": "x"}, 409, "reward_conflict", "value"),
        (
            {"first_round": 1, "last_round": 2, "correct": True, "reward_id": "x"},
            *(409, "reward_conflict", "first_round"),
        ),
    ],
)
async def test_a_bad_correction_names_the_field_and_writes_nothing(
    serve: Serve, body: Any, status: int, code: str, field: str
) -> None:
    async with serve() as client:
        session = await played(client, 3)
        await client.reward(session, value=1.0, round=1, reward_id="a")
        answer = await client.reward(session, value=9.0, **body)
        problem(answer, status, code, field)
        assert await rewards_of(client, session) == [1.0, None, None]


async def test_a_decision_that_was_never_shown_is_void(serve: Serve) -> None:
    async with serve() as client:
        session = await played(client, 2)
        await client.decide(session, event_id="a/b", trajectory="ann")
        path = f"/v1/sessions/{session}/decisions/a%2Fb/void?trajectory=ann"
        said = [(await client.post(path)).json() for _ in range(2)]
        assert said[0] == said[1]
        assert (said[0]["event_id"], said[0]["round"]) == ("a/b", 1)
        page = await client.read(f"/v1/sessions/{session}/rounds?trajectory=ann")
        assert [item["void"] for item in page["items"]] == [True]
        page = await client.read(f"/v1/sessions/{session}/rounds?trajectory=")
        assert [item["void"] for item in page["items"]] == [False, False]
        answer = await client.post(path, json={"why": "lost"})
        problem(answer, 422, "unknown_field", "body")
        path = f"/v1/sessions/{session}/decisions/nobody/void"
        problem(await client.post(path), 404, "unknown_event", "event_id")
