"""Decisions over HTTP: what is answered, what is refused, what is written."""

import asyncio
import base64
from typing import Any

import numpy as np
import pytest

from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio

ARMS = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]


def encoded(contexts: Any, **changes: Any) -> dict[str, Any]:
    array = np.asarray(contexts, dtype="<f8")
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": "float64", "shape": list(array.shape), "data": data, **changes}


async def test_a_decision_answers_all_it_knows(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        answer = await client.post(
            f"/v1/sessions/{session}/decisions",
            json={"contexts": ARMS, "arm_ids": ["x", "y", "z"], "event_id": "e1"},
        )
        assert answer.status_code == 201
        body = answer.json()
        assert body["arm_id"] == ["x", "y", "z"][body["arm"]]
        assert body == {
            "event_id": "e1",
            "round": 1,
            "arm": body["arm"],
            "arm_id": body["arm_id"],
            "scores": [0.0, 0.0, 0.0],
            "propensity": 1 / 3,
            "epoch": 1,
            "model_version": 0,
            "next_fit_round": None,
            "explored": True,
        }
        assert await client.read(f"/v1/sessions/{session}/decisions/e1") == body


async def test_the_same_event_gets_the_first_answer_again(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        path = f"/v1/sessions/{session}/decisions"
        first = await client.post(path, json={"contexts": ARMS, "event_id": "a"})
        await client.decide(session)
        second = await client.post(
            path, content=b'{ "event_id": "a", "contexts": [[1,0],[0.0,1e0],[0.5,0.50]]}'
        )
        assert second.status_code == 200
        assert second.json() == first.json()
        problem(
            await client.post(path, json={"contexts": ARMS[:2], "event_id": "a"}),
            *(409, "event_conflict", "event_id"),
        )
        other = await client.post(
            path, json={"contexts": ARMS, "event_id": "a", "trajectory": "another"}
        )
        assert other.status_code == 201
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 3
    async with serve() as client:
        again = await client.post(path, json={"contexts": encoded(ARMS), "event_id": "a"})
        assert (again.status_code, again.json()) == (200, first.json())


async def test_a_negative_zero_is_the_same_body(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        first = await client.decide(session, [[1.0, 0.0]], event_id="a")
        assert await client.decide(session, [[1.0, -0.0]], event_id="a") == first


async def test_many_at_once_get_contiguous_rounds_and_equal_ids_one_answer(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        answers = await asyncio.gather(
            *(client.decide(session, ARMS, event_id=f"e{i % 20}") for i in range(40))
        )
        assert sorted({answer["round"] for answer in answers}) == list(range(1, 21))
        for i in range(20):
            assert answers[i] == answers[i + 20]


async def test_base64_is_the_same_as_lists(serve: Serve) -> None:
    async with serve() as client:
        arms = []
        for contexts in (ARMS, encoded(ARMS)):
            session = await client.create(seed=5)
            arms.append([(await client.decide(session, contexts))["arm"] for _ in range(20)])
        assert arms[0] == arms[1]
        rounds = await client.read(f"/v1/sessions/{session}/rounds")
        assert [ARMS[a] for a in arms[0]] == [item["context"] for item in rounds["items"]]


BAD: list[tuple[Any, int, str, str]] = [
    ({}, 422, "missing", "contexts"),
    ({"contexts": []}, 422, "no_arms", "contexts"),
    ({"contexts": [[]]}, 422, "wrong_shape", "contexts[0]"),
    ({"contexts": [[1.0, 2.0], [1.0]]}, 422, "ragged", "contexts[1]"),
    ({"contexts": [[1.0, 2.0], [1.0, 2.0, 3.0]]}, 422, "ragged", "contexts[1]"),
    ({"contexts": [[1.0, 2.0, 3.0]]}, 422, "wrong_shape", "contexts"),
    ({"contexts": [[1.0, "2"]]}, 422, "invalid", "contexts[0][1]"),
    ({"contexts": [[1.0, None]]}, 422, "invalid", "contexts[0][1]"),
    ({"contexts": [[1.0, True]]}, 422, "invalid", "contexts[0][1]"),
    ({"contexts": 3}, 422, "invalid", "contexts"),
    ({"contexts": [[1.0, 2e12]]}, 422, "out_of_range", "contexts[0][1]"),
    (b'{"contexts": [[1.0, NaN]]}', 422, "not_finite", "contexts[0][1]"),
    (b'{"contexts": [[-Infinity, 0]]}', 422, "not_finite", "contexts[0][0]"),
    (b'{"contexts": [[1e999, 0]]}', 422, "not_finite", "contexts[0][0]"),
    ({"contexts": encoded([[1.0, np.nan]])}, 422, "not_finite", "contexts[0][1]"),
    ({"contexts": encoded([[1.0, -1e13]])}, 422, "out_of_range", "contexts[0][1]"),
    ({"contexts": encoded(ARMS, shape=[3, 3])}, 422, "wrong_shape", "contexts.data"),
    ({"contexts": encoded(ARMS, data="!")}, 422, "invalid", "contexts.data"),
    ({"contexts": encoded(ARMS, dtype="float32")}, 422, "invalid", "contexts.dtype"),
    ({"contexts": encoded(np.zeros((0, 2)))}, 422, "no_arms", "contexts"),
    ({"contexts": ARMS, "colour": 1}, 422, "unknown_field", "colour"),
    ({"contexts": ARMS, "event_id": ""}, 422, "invalid", "event_id"),
    ({"contexts": ARMS, "event_id": "x" * 257}, 422, "invalid", "event_id"),
    ({"contexts": ARMS, "event_id": "~1"}, 422, "invalid", "event_id"),
    ({"contexts": ARMS, "arm_ids": ["a", "b"]}, 422, "wrong_shape", "arm_ids"),
    ({"contexts": ARMS, "arm_ids": ["a", "b", "a"]}, 409, "duplicate_arm_ids", "arm_ids[2]"),
    ({"contexts": ARMS, "forced_arm": 3}, 422, "out_of_range", "forced_arm"),
    ({"contexts": ARMS, "skip": True}, 422, "ambiguous", "contexts"),
    (b'{"contexts": [[1, 2]], "contexts": [[1, 2]]}', 400, "duplicate_key", "contexts"),
    (
        b'{"contexts": [[1, 2]], "rewards": [{"value": 1, "round": 1, "round": 2}]}',
        *(400, "duplicate_key", "round"),
    ),
    (b'{"contexts": [[1, 2]]', 400, "malformed_json", "body"),
    (b"\xff\xfe", 400, "malformed_json", "body"),
    (b"[]", 422, "invalid", "body"),
    (
        {"contexts": ARMS, "rewards": [{"value": 1.0, "round": 9}]},
        422,
        "future_round",
        "rewards[0].round",
    ),
    ({"contexts": ARMS, "rewards": [{"value": 1.0}]}, 422, "missing", "rewards[0].round"),
]


@on_one_database
async def test_bad_input_names_the_field_and_writes_nothing(
    serve: Serve, subtests: pytest.Subtests
) -> None:
    async with serve() as client:
        session = await client.create()
        for body, status, code, field in BAD:
            with subtests.test(body=body):
                content = {"content": body} if isinstance(body, bytes) else {"json": body}
                answer = await client.post(f"/v1/sessions/{session}/decisions", **content)
                problem(answer, status, code, field)
                assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0
                assert (await client.read(f"/v1/sessions/{session}/rounds"))["items"] == []


async def test_rewards_ride_along_all_or_nothing(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        await client.decide(session)
        await client.decide(session, rewards=[{"round": 1, "value": 0.5}])
        answer = await client.post(
            f"/v1/sessions/{session}/decisions",
            json={
                "contexts": ARMS,
                "rewards": [{"round": 2, "value": 1.0}, {"round": 1, "value": 0.75}],
            },
        )
        problem(answer, 409, "reward_conflict", "rewards[1].value")
        rounds = (await client.read(f"/v1/sessions/{session}/rounds"))["items"]
        assert [item["reward"] for item in rounds] == [0.5, None]


async def test_forced_and_skipped_rounds_are_rounds(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        forced = await client.decide(session, ARMS, forced_arm=2)
        assert (forced["arm"], forced["propensity"], forced["explored"]) == (2, None, False)
        skipped = await client.post(f"/v1/sessions/{session}/decisions", json={"skip": True})
        assert skipped.status_code == 201
        assert (skipped.json()["round"], skipped.json()["arm"]) == (2, None)
        assert skipped.json()["scores"] == []
        rounds = (await client.read(f"/v1/sessions/{session}/rounds"))["items"]
        assert [item["context"] for item in rounds] == [[0.5, 0.5], None]
        assert rounds[0]["forced"]


async def test_arms_may_change_every_round(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for n_arms in (1, 7, 2):
            answer = await client.decide(session, [[1.0, float(i)] for i in range(n_arms)])
            assert len(answer["scores"]) == n_arms


async def test_each_trajectory_has_its_own_rounds(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        rounds = [
            (await client.decide(session, trajectory=name))["round"] for name in ("a", "b", "a", "")
        ]
        assert rounds == [1, 1, 2, 1]
        assert (await client.read(f"/v1/sessions/{session}"))["n_trajectories"] == 3
        page = await client.read(f"/v1/sessions/{session}/rounds?trajectory=a")
        assert [item["round"] for item in page["items"]] == [1, 2]


async def test_server_made_ids_work_like_the_clients_own(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        first = await client.decide(session)
        assert await client.read(f"/v1/sessions/{session}/decisions/{first['event_id']}") == first
        answer = await client.reward(session, value=1.0, event_id=first["event_id"])
        assert answer.json() == {"accepted": 1, "repeated": 0}
        for unknown in ("~2", "~01", "~", "~x", "nobody"):
            problem(
                await client.get(f"/v1/sessions/{session}/decisions/{unknown}"),
                *(404, "unknown_event", "event_id"),
            )
            answer = await client.reward(session, value=1.0, event_id=unknown)
            problem(answer, 404, "unknown_event", "event_id")
        other = f"/v1/sessions/{session}/decisions/{first['event_id']}?trajectory=ann"
        assert "'ann' has no decision" in (await client.get(other)).json()["detail"]


async def test_unknown_and_archived_sessions(serve: Serve) -> None:
    async with serve() as client:
        answer = await client.post("/v1/sessions/nobody/decisions", json={"contexts": ARMS})
        problem(answer, 404, "unknown_session", "session_id")
        session = await client.create()
        first = await client.decide(session, event_id="a")
        await client.patch(f"/v1/sessions/{session}", json={"archived": True})
        answer = await client.post(f"/v1/sessions/{session}/decisions", json={"contexts": ARMS})
        problem(answer, 409, "archived")
        assert await client.decide(session, event_id="a") == first


async def test_bodies_have_a_limit(serve: Serve) -> None:
    async with serve(max_body_bytes=1000) as client:
        session = await client.create()
        path = f"/v1/sessions/{session}/decisions"
        problem(await client.post(path, content=b"x" * 1001), 413, "body_too_large", "body")

        async def chunks() -> Any:
            for _ in range(3):
                yield b"x" * 500

        problem(await client.post(path, content=chunks()), 413, "body_too_large", "body")


async def test_rank_scores_and_writes_nothing(serve: Serve) -> None:
    async with serve(allow_oracles=True) as client:
        session = await client.create(algorithm="oracle", options={"theta": [0.6, 0.8]})
        answer = await client.post(
            f"/v1/sessions/{session}/rank", json={"contexts": ARMS, "arm_ids": ["x", "y", "z"]}
        )
        assert answer.json() == {
            "scores": [0.6, 0.8, 0.7],
            "ranking": [1, 2, 0],
            "arm_ids": ["y", "z", "x"],
            "model_version": 0,
            "deciding": "in_use",
        }
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0
