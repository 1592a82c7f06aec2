"""Holdout and shadow mode over HTTP."""

from typing import Any

import pytest

from tests.examples import on_one_database
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio
ARMS = [[1.0, 0.25], [-0.5, 1.0]]


async def test_the_answer_says_who_played_and_a_repeat_says_it_again(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(holdout={"share": 0.5})
        read = await client.read(f"/v1/sessions/{session}")
        said = {"share": 0.5, "policy": "default_arm", "planned_rounds": 100_000}
        assert (read["mode"], read["holdout"]) == ("live", said)
        groups = set()
        for i in range(20):
            body: dict[str, Any] = {"trajectory": f"u{i}", "event_id": "e", "arm_ids": ["a", "b"]}
            first = await client.decide(session, ARMS, default_arm="b", **body)
            assert await client.decide(session, ARMS, default_arm="b", **body) == first
            assert first["arm_id"] == "b" or first["played_by"] == "agent"
            groups.add(first["played_by"])
            [row] = (await client.read(f"/v1/sessions/{session}/rounds?trajectory=u{i}"))["items"]
            assert (row["played_by"], row["agent_arm"]) == (first["played_by"], first["agent_arm"])
        assert groups == {"agent", "control"}
        other = await client.post(
            f"/v1/sessions/{session}/decisions",
            json={"contexts": ARMS, "default_arm": 0, "trajectory": "u1", "event_id": "e"},
        )
        assert other.json()["code"] == "event_conflict"


async def test_one_call_turns_a_session_into_a_shadow_and_back(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        assert "played_by" not in await client.decide(session, ARMS, default_arm=1)
        for mode, by in (("shadow", "caller"), ("live", "agent"), ("shadow", "caller")):
            changed = await client.patch(f"/v1/sessions/{session}", json={"mode": mode})
            assert changed.json()["mode"] == mode
            more = {"forced_arm": 1} if by == "caller" else {}
            assert (await client.decide(session, ARMS, **more))["played_by"] == by
        refused = await client.post(
            f"/v1/sessions/{session}/decisions", json={"contexts": ARMS, "default_arm": 1}
        )
        assert (refused.status_code, refused.json()["field"]) == (422, "forced_arm")


async def test_the_same_holdout_said_and_unsaid_is_the_same_body(serve: Serve) -> None:
    async with serve() as client:
        body = {"name": "shop", "dim": 2, "horizon": 4, "holdout": {"share": 0.1}}
        first = await client.post("/v1/sessions", json=body)
        said = {**body["holdout"], "policy": "default_arm", "planned_rounds": 100_000}  # type: ignore[dict-item]
        again = await client.post("/v1/sessions", json={**body, "holdout": said, "mode": "live"})
        assert (first.status_code, again.status_code) == (201, 200)
        other = await client.post("/v1/sessions", json={**body, "holdout": None})
        assert other.json()["code"] == "session_conflict"


@on_one_database
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"holdout": {}}, "holdout.share"),
        ({"holdout": {"share": 1.0}}, "holdout.share"),
        ({"holdout": {"share": 0.0}}, "holdout.share"),
        ({"holdout": {"share": 0.5, "policy": "best"}}, "holdout.policy"),
        ({"holdout": {"share": 0.5, "planned_rounds": 0}}, "holdout.planned_rounds"),
        ({"mode": "dark"}, "mode"),
    ],
)
async def test_what_no_session_compares_is_refused(serve: Serve, body: Any, field: str) -> None:
    async with serve() as client:
        answer = await client.post("/v1/sessions", json={"dim": 2, "horizon": 4, **body})
        assert (answer.status_code, answer.json()["field"]) == (422, field)


@on_one_database
@pytest.mark.parametrize("arm", [-1, 2, "c", "", True, 0.5])
@pytest.mark.parametrize("field", ["forced_arm", "default_arm"])
async def test_an_arm_that_is_not_offered_is_refused(serve: Serve, field: str, arm: Any) -> None:
    async with serve() as client:
        session = await client.create(holdout={"share": 0.5})
        body = {"contexts": ARMS, "arm_ids": ["a", "b"], "default_arm": 0, field: arm}
        answer = await client.post(f"/v1/sessions/{session}/decisions", json=body)
        assert answer.status_code == 422
        assert answer.json()["field"].startswith(field)
        assert (await client.read(f"/v1/sessions/{session}"))["n_rounds"] == 0


@on_one_database
@pytest.mark.parametrize("best", [0, 1])
async def test_control_plays_what_another_session_ranks_first(serve: Serve, best: int) -> None:
    """The other is archived and stays as it was; it may even be deleted before a repeat."""
    async with serve() as client:
        other = await client.create(algorithm="lin_ucb", horizon=4)
        for round in range(1, 41):
            await client.decide(other, ARMS, forced_arm=round % 2)
            await client.reward(other, round=round, value=float(round % 2 == best))
        path = f"/v1/sessions/{other}"
        assert (await client.patch(path, json={"archived": True})).status_code == 200
        before = await client.read(path)
        session = await client.create(holdout={"share": 0.5})
        asked, answers = [], []
        for i in range(20):
            ranked = (await client.post(f"{path}/rank", json={"contexts": ARMS})).json()
            first = ranked["ranking"][0]
            body = {"trajectory": f"u{i}", "event_id": "e", "default_arm": first}
            asked.append(body)
            answers.append(await client.decide(session, ARMS, **body))
        in_control = [one for one in answers if one["played_by"] == "control"]
        assert 0 < len(in_control) < 20
        assert {one["arm"] for one in in_control} == {best}
        assert any(one["agent_arm"] != best for one in in_control)
        assert await client.read(path) == before
        assert (await client.delete(path)).status_code == 204
        for body, answer in zip(asked, answers, strict=True):
            assert await client.decide(session, ARMS, **body) == answer


@on_one_database
async def test_control_plays_another_session_over_http(serve: Serve) -> None:
    """On either database, alone and in batches with decisions of the session that it plays."""
    async with serve() as client:
        champion = await client.create(name="champion", algorithm="lin_ucb")
        for i in range(20):
            await client.decide(champion, ARMS, forced_arm=i % 2)
            await client.reward(champion, round=i + 1, value=float(i % 2))
        holdout = {"share": 0.5, "policy": {"session": "champion"}}
        body = {"name": "tested", "algorithm": "uniform", "dim": 2, "horizon": 4}
        made = await client.post("/v1/sessions", json={**body, "holdout": holdout})
        again = await client.post("/v1/sessions", json={**body, "holdout": holdout})
        assert (made.status_code, again.status_code) == (201, 200)
        session = made.json()["id"]
        assert made.json()["holdout"]["policy"] == {"session": champion}
        items = [
            {"session_id": which, "decision": {"contexts": ARMS, "trajectory": f"u{i}"}}
            for i in range(20)
            for which in (session, champion)
        ]
        batch = (await client.post("/v1/batch", json={"items": items})).json()["items"]
        assert {one["status"] for one in batch} == {201}
        alone = [await client.decide(session, ARMS, trajectory=f"u{i}") for i in range(20)]
        decided = [one["decision"] for one in batch[::2]] + alone
        assert {one["arm"] for one in decided if one["played_by"] == "control"} == {1}
        assert {one["played_by"] for one in decided} == {"agent", "control"}
        refused = await client.delete(f"/v1/sessions/{champion}")
        problem(refused, 409, "in_use", "session_id")
        wrong = {"share": 0.5, "policy": {"session": champion, "arm": 1}}
        refused = await client.post("/v1/sessions", json={**body, "name": "x", "holdout": wrong})
        problem(refused, 422, "unknown_field", "holdout.policy.arm")
