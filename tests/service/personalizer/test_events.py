"""Personalizer's routes in this process, on both databases: what a request becomes, and errors."""

import json
from typing import Any

import httpx
import pytest

from service.api.runtime import READ_AT_ONCE_BYTES
from service.commands.keys import new_key, save_key
from service.personalizer import configuration
from service.personalizer.events import read_rank
from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem, until

pytestmark = pytest.mark.anyio
ROOT = "/personalizer/v1.0"
ACTIONS = [{"id": name, "features": [{"kind": name}]} for name in ("a", "b", "c")]
SESSION = "/v1/sessions/personalizer"


async def rank(client: Client, **more: Any) -> Any:
    answer = await client.post(f"{ROOT}/rank", json={"actions": ACTIONS, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def reward(client: Client, event: str, value: float, **headers: str) -> None:
    path = f"{ROOT}/events/{event}/reward"
    answer = await client.post(path, json={"value": value}, headers=headers)
    assert (answer.status_code, answer.content) == (204, b""), answer.text


def refused(answer: httpx.Response, status: int, code: str, inner: str, target: Any) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert (error["code"], error["innerError"]) == (code, {"code": inner}), error
    assert error["target"] == target
    assert error["message"]


async def test_every_version_is_the_same_session(serve: Serve) -> None:
    async with serve() as client:
        for version in ("v1.0", "v1.1-preview", "v1.1-preview.1", "v1.1-preview.3"):
            answer = await client.post(f"/personalizer/{version}/rank", json={"actions": ACTIONS})
            assert answer.status_code == 201
            assert answer.headers["x-content-type-options"] == "nosniff"
        session = await client.read(SESSION)
        assert (session["n_rounds"], session["dim"], session["horizon"]) == (4, 64, 1)
        assert session["default_reward"] == 0.0
        dated = {"api-version": "2022-09-01-preview"}  # as azure-ai-personalizer 1.0.0b1 asks
        asked = {"actions": ACTIONS, "eventId": "a/ä"}
        answer = await client.post("/personalizer/rank", json=asked, params=dated)
        assert answer.status_code == 201, answer.text
        path = "/personalizer/events/a%2F%C3%A4/reward"
        stored = await client.post(path, json={"value": 1.0}, params=dated)
        assert stored.status_code == 204, stored.text
        assert (await client.read(f"{SESSION}/rounds"))["items"][-1]["reward"] == 1.0
        later = {"api-version": "2099-01-01"}
        answer = await client.post("/personalizer/rank", json=asked, params=later)
        refused(answer, 404, "ResourceNotFound", "unknown_route", None)
        answer = await client.post("/personalizer/v2/rank", json={"actions": ACTIONS})
        refused(answer, 404, "ResourceNotFound", "unknown_route", None)


async def test_a_session_made_before_is_used(serve: Serve) -> None:
    async with serve() as client:
        await client.create(name="personalizer", dim=5, horizon=7)
        await rank(client, eventId="one", contextFeatures=[{"hour": 3}])
        session = await client.read(SESSION)
        assert (session["n_rounds"], session["dim"], session["horizon"]) == (1, 5, 7)


async def test_a_trajectory_is_named_in_a_header(serve: Serve) -> None:
    async with serve() as client:
        body = {"actions": ACTIONS, "eventId": "same"}
        for name in ("ann", "b%C3%A9a"):
            head = {"lhb-trajectory": name}
            answer = await client.post(f"{ROOT}/rank", json=body, headers=head)
            assert answer.status_code == 201
        await reward(client, "same", 0.5, **{"lhb-trajectory": "b%C3%A9a"})
        await reward(client, "same", 0.5)  # of the trajectory without a key: there is none
        rounds = (await client.read(f"{SESSION}/rounds?trajectory=b%C3%A9a"))["items"]
        assert [item["reward"] for item in rounds] == [0.5]
        rounds = (await client.read(f"{SESSION}/rounds?trajectory=ann"))["items"]
        assert [item["reward"] for item in rounds] == [None]
        answer = await client.post(f"{ROOT}/rank", json=body, headers={"lhb-trajectory": "x" * 257})
        refused(answer, 400, "BadRequest", "invalid", "lhb-trajectory")


async def test_deferred_events_of_a_loop_do_not_count(serve: Serve) -> None:
    async with serve() as client:
        for event in ("one", "two"):
            first = await rank(client, eventId=event, deferActivation=True)
            assert await rank(client, eventId=event, deferActivation=True) == first
            assert {one["probability"] for one in first["ranking"]} == {None}
        assert (await client.read(SESSION))["n_rounds"] == 0
        answer = await client.post(f"{ROOT}/events/two/activate")
        assert answer.status_code == 204
        rounds = (await client.read(f"{SESSION}/rounds"))["items"]
        assert [(r["event_id"], r["arm_id"]) for r in rounds] == [("two", first["rewardActionId"])]
        for fewer in (ACTIONS[:1], ACTIONS[:2], ACTIONS[1:]):
            other = {"actions": fewer, "eventId": "one", "deferActivation": True}
            answer = await client.post(f"{ROOT}/rank", json=other)
            refused(answer, 409, "BadRequest", "event_conflict", "eventId")


async def test_a_change_between_deferred_rank_and_activation_does_not_show(serve: Serve) -> None:
    """What is activated is what was answered, whatever else the session did meanwhile."""
    async with serve() as client:
        asked = {"eventId": "late", "deferActivation": True, "excludedActions": ["b"]}
        first = await rank(client, **asked)
        for i in range(5):
            answer = await rank(client)
            await reward(client, answer["eventId"], float(i))
        assert (await client.post(f"{ROOT}/events/late/activate")).status_code == 204
        last = (await client.read(f"{SESSION}/rounds"))["items"][-1]
        chosen = [one["features"] for one in ACTIONS if one["id"] == first["rewardActionId"]]
        assert last["arm_id"] == first["rewardActionId"] != "b"
        alone = await client.post(
            f"{ROOT}/rank",
            json={"actions": [{"id": last["arm_id"], "features": chosen[0]}], "eventId": "alone"},
        )
        assert alone.status_code == 201
        again = (await client.read(f"{SESSION}/rounds"))["items"][-1]
        assert again["context"] == last["context"]


async def test_rewards_add_up_where_the_configuration_says_so(serve: Serve) -> None:
    async with serve() as client:
        asked = {
            "rewardWaitTime": "PT1H",
            "defaultReward": 0,
            "rewardAggregation": "sum",
            "explorationPercentage": 0.25,
            "modelExportFrequency": "PT5M",
            "logRetentionDays": 90,
            "learningMode": "Online",
        }
        answer = await client.put(f"{ROOT}/configurations/service", json=asked)
        assert answer.status_code == 200, answer.text
        for value in (0.5, 0.5, 1.0):
            event = (await rank(client, eventId="one"))["eventId"]
            await reward(client, event, value)
        assert (await client.read(f"{SESSION}/rounds"))["items"][0]["reward"] == 2.0
        found = await client.read(f"{ROOT}/configurations/service")
        assert (found["rewardWaitTime"], found["explorationPercentage"]) == ("PT1H", 0.25)
        session = await client.read(SESSION)
        assert session["options"] == {"epsilon": 0.25}
        propensities = {one["probability"] for one in (await rank(client))["ranking"]}
        assert propensities == {1 / 3}


async def test_a_configuration_holds_from_the_first_round_on(serve: Serve) -> None:
    asked = {"rewardWaitTime": "00:10:00", "defaultReward": 0, "rewardAggregation": "earliest"}
    asked["explorationPercentage"] = 0.1
    path = f"{ROOT}/configurations/service"
    async with serve() as client:
        before = await client.read(path)
        assert (await client.put(path, json=asked)).json() == before  # these are the defaults
        first = await client.read(SESSION)
        assert (await client.put(path, json=asked)).status_code == 200
        assert (await client.read(SESSION))["id"] == first["id"]
        assert (await client.put(path, json={**asked, "dim": 32})).json()["dim"] == 32
        second = await client.read(SESSION)
        assert second["dim"] == 32
        assert (await client.get(f"/v1/sessions/{first['id']}")).status_code == 404
        await rank(client)
        answer = await client.put(path, json={**asked, "dim": 16})
        refused(answer, 409, "BadRequest", "session_conflict", None)
        assert (await client.put(path, json=asked)).json()["dim"] == 32  # says nothing of dim
        assert (await client.patch(SESSION, json={"name": "old"})).status_code == 200
        await rank(client)
        assert (await client.read(SESSION))["n_rounds"] == 1
        assert (await client.read("/v1/sessions/old"))["n_rounds"] == 1


@on_one_database
@pytest.mark.parametrize("default", [None, 0.0, 2.0])
async def test_a_sum_that_is_told_again_is_the_same(serve: Serve, default: float | None) -> None:
    """A sum of no rewards is 0, whether that was asked or not."""
    path = f"{ROOT}/configurations/service"
    async with serve() as client:
        made = {"dim": 8, "horizon": 2, "reward_mode": "sum", "reward_wait_seconds": 1.0}
        named = {"name": "personalizer", "categories": "hashed", "options": {"epsilon": 0.1}}
        await client.create(algorithm="anytime", **made, **named, default_reward=default)
        await rank(client)
        asked = {name: one for name, one in (await client.read(path)).items() if name != "dim"}
        assert asked["defaultReward"] == (default or 0.0)
        assert (await client.put(path, json=asked)).status_code == 200
        answer = await client.put(path, json=asked | {"defaultReward": 1.0})
        refused(answer, 409, "BadRequest", "session_conflict", None)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"actions": []}, "invalid", "actions"),
    ({"actions": [*ACTIONS, ACTIONS[0]]}, "duplicate_arm_ids", "actions[3].id"),
    ({"excludedActions": ["a", "b", "c"]}, "no_arms", "excludedActions"),
    ({"eventId": "~1"}, "invalid", "eventId"),
    ({"eventId": "x" * 257}, "invalid", "eventId"),
    ({"surprise": 1}, "unknown_field", "surprise"),
    ({"actions": [{"id": "a"}]}, "missing", "actions[0].features"),
    ({"contextFeatures": [{"x": 1e13}]}, "out_of_range", "contextFeatures[0].x"),
    ({"actions": [{"id": "a", "features": [3]}]}, "invalid", "actions[0].features[0]"),
]


@on_one_database
async def test_a_bad_rank_is_refused_and_writes_nothing(serve: Serve) -> None:
    async with serve() as client:
        await rank(client)
        for change, inner, target in BAD:
            answer = await client.post(f"{ROOT}/rank", json={"actions": ACTIONS, **change})
            status = 409 if inner == "duplicate_arm_ids" else 400
            refused(answer, status, "BadRequest", inner, target)
        assert (await client.read(SESSION))["n_rounds"] == 1


@on_one_database
async def test_bad_rewards_and_configurations(serve: Serve) -> None:
    async with serve() as client:
        path = f"{ROOT}/events/x/reward"
        refused(await client.post(path, json={}), 400, "BadRequest", "missing", "value")
        refused(await client.post(path, content=b"{"), 400, "BadRequest", "malformed_json", "body")
        good = {"rewardWaitTime": "PT1H", "defaultReward": 1, "rewardAggregation": "sum"}
        good["explorationPercentage"] = 0.1
        for change, inner, target in (
            ({"defaultReward": "much"}, "invalid", "defaultReward"),
            ({"learningMode": "Later"}, "invalid", "learningMode"),
            ({"isAutoOptimizationEnabled": True}, "invalid", "isAutoOptimizationEnabled"),
            ({"rewardWaitTime": "soon"}, "invalid", "rewardWaitTime"),
            ({"explorationPercentage": 1.5}, "out_of_range", "explorationPercentage"),
        ):
            answer = await client.put(f"{ROOT}/configurations/service", json={**good, **change})
            refused(answer, 400, "BadRequest", inner, target)
        assert (await client.get(SESSION)).status_code == 404


async def test_the_subscription_key_is_our_key(serve: Serve) -> None:
    async with serve() as client:
        made = {role: new_key("shop", role, 1000.0, role) for role in ("reader", "writer")}
        for _, row in made.values():
            await client.service.writer.submit(save_key(row))
    async with serve() as client:
        body = {"actions": ACTIONS}
        refused(
            await client.post(f"{ROOT}/rank", json=body),
            *(401, "BadRequest", "unauthorized", "authorization"),
        )
        for role, status in (("reader", 403), ("writer", 201)):
            client.headers["Ocp-Apim-Subscription-Key"] = made[role][0]
            answer = await client.post(f"{ROOT}/rank", json=body)
            assert answer.status_code == status
            assert (await client.get(f"{ROOT}/configurations/service")).status_code == 200
        problem(await client.get(SESSION), 401, "unauthorized")  # it opens nothing else
        del client.headers["Ocp-Apim-Subscription-Key"]
        client.headers["authorization"] = f"Bearer {made['writer'][0]}"
        assert (await client.post(f"{ROOT}/rank", json=body)).status_code == 201
        assert (await client.read(SESSION))["n_rounds"] == 2


CONFIGURATION = {
    "rewardWaitTime": "PT10M",
    "defaultReward": 0,
    "rewardAggregation": "earliest",
    "explorationPercentage": 0.1,
}


async def test_a_round_that_begins_meanwhile_keeps_its_session(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A configuration that found a session without rounds deletes no round that was answered."""
    path, look = f"{ROOT}/configurations/service", configuration.find_loop

    async def found(*asked: Any) -> Any:
        session = await look(*asked)
        await rank(client)
        return session

    async with serve() as client:
        await client.put(path, json={**CONFIGURATION, "dim": 8})
        with monkeypatch.context() as patched:
            patched.setattr(configuration, "find_loop", found)
            answer = await client.put(path, json={**CONFIGURATION, "dim": 16})
        refused(answer, 409, "BadRequest", "session_conflict", None)
        session = await client.read(SESSION)
        assert (session["n_rounds"], session["dim"]) == (1, 8)


async def test_deferred_events_go_with_the_session_that_a_configuration_replaces(
    serve: Serve,
) -> None:
    async with serve() as client:
        await rank(client, eventId="one", deferActivation=True)
        assert len((await client.read("/v1/sessions"))["items"]) == 2
        answer = await client.put(
            f"{ROOT}/configurations/service", json={**CONFIGURATION, "dim": 16}
        )
        assert answer.status_code == 200
        [session] = (await client.read("/v1/sessions"))["items"]
        assert (session["name"], session["dim"]) == ("personalizer", 16)


async def test_exploration_and_wait_change_at_any_time(serve: Serve) -> None:
    """And a repeat gets its first answer, with the probabilities of that time."""
    path = f"{ROOT}/configurations/service"
    async with serve() as client:
        sizes = [{"id": f"{size}", "features": [{"size": size}]} for size in (1, 2, 3)]
        await client.put(path, json={**CONFIGURATION, "dim": 1})  # no two arms are equal
        first = await rank(client, eventId="first", actions=sizes)
        assert min(one["probability"] for one in first["ranking"]) == pytest.approx(0.1 / 3)
        said = {**CONFIGURATION, "explorationPercentage": 0.9, "rewardWaitTime": "PT20M"}
        before = await client.read(SESSION)
        changed = (await client.put(path, json=said)).json()
        assert (changed["explorationPercentage"], changed["rewardWaitTime"]) == (0.9, "PT20M")
        after = await client.read(SESSION)
        assert (after["id"], after["options"]) == (before["id"], {"epsilon": 0.9})
        assert await rank(client, eventId="first", actions=sizes) == first
        fresh = await rank(client, actions=sizes)
        assert min(one["probability"] for one in fresh["ranking"]) == pytest.approx(0.9 / 3)
        other = {**said, "defaultReward": 1}
        answer = await client.put(path, json=other)
        refused(answer, 409, "BadRequest", "session_conflict", None)


@on_one_database
async def test_an_apprentice_plays_the_first_action_and_learns_from_it(serve: Serve) -> None:
    """And a repeat gets its first answer, whatever the mode is by then."""
    path = f"{ROOT}/configurations/service"
    async with serve() as client:
        online = await rank(client, eventId="online")
        for mode, said in (("Apprentice", "Apprentice"), ("LoggingOnly", "Apprentice")):
            asked = await client.put(path, json={**CONFIGURATION, "learningMode": mode})
            assert asked.json()["learningMode"] == said, asked.text
            assert (await client.read(SESSION))["mode"] == "shadow"
            for excluded, first in (([], "a"), (["a"], "b")):
                answer = await rank(client, eventId=f"{mode} {first}", excludedActions=excluded)
                assert answer["rewardActionId"] == first
                assert [one["id"] for one in answer["ranking"]] == ["a", "b", "c"]
            late = await rank(client, eventId=f"{mode} late", deferActivation=True)
            assert late["rewardActionId"] == "a"
            assert await rank(client, eventId="online") == online
        last = (await client.read(f"{SESSION}/rounds"))["items"][-1]
        assert (last["played_by"], last["arm_id"]) == ("caller", "b")
        assert last["agent_arm"] in (0, 1)
        shadow = await rank(client, eventId="Apprentice a")
        assert (await client.put(path, json={**CONFIGURATION, "learningMode": "Online"})).is_success
        assert (await client.read(path))["learningMode"] == "Online"
        assert await rank(client, eventId="Apprentice a") == shadow
        assert await rank(client, eventId="online") == online
        fresh = await rank(client)
        assert sum(one["probability"] for one in fresh["ranking"]) == pytest.approx(1)
        assert (await client.read(SESSION))["n_rounds"] == 6


async def test_a_control_group_plays_the_first_action(serve: Serve) -> None:
    async with serve() as client:
        await client.create(name="personalizer", holdout={"share": 0.5})
        for i in range(12):
            answer = await rank(client, eventId=f"{i}")
            assert await rank(client, eventId=f"{i}") == answer
        rounds = (await client.read(f"{SESSION}/rounds?limit=100"))["items"]
        assert len(rounds) == 12
        control = [one for one in rounds if one["played_by"] == "control"]
        assert control
        assert {one["arm_id"] for one in control} == {"a"}


@on_one_database
@pytest.mark.parametrize(
    ("features", "inner"),
    [
        ([{"n" * 300: ["a"] * 1000}], "invalid"),
        ([{"text": "t" * 300}], "invalid"),
        ([{"vector": [0.5] * 200_001}], "out_of_range"),
    ],
    ids=["a long name", "a long text", "many features"],
)
async def test_features_that_would_multiply_are_refused(
    serve: Serve, features: Any, inner: str
) -> None:
    async with serve() as client:
        body = {"actions": [{"id": "a", "features": features}]}
        answer = await client.post(f"{ROOT}/rank", json=body)
        assert (answer.status_code, answer.json()["error"]["innerError"]) == (400, {"code": inner})


async def test_more_numbers_than_a_decision_takes_are_refused(serve: Serve) -> None:
    async with serve() as client:
        await client.create(name="personalizer", dim=100_000)
        body = {"actions": [{"id": str(i), "features": []} for i in range(50)]}
        refused(
            await client.post(f"{ROOT}/rank", json=body),
            400,
            "BadRequest",
            "out_of_range",
            "actions",
        )


@on_one_database
async def test_a_large_request_is_read_as_a_small_one_is(serve: Serve) -> None:
    """Where a process of its own reads it, the same event asks for the same contexts."""
    asked = {"eventId": "e", "contextFeatures": [{"hour": 3, "tags": ["x", "y"]}]}
    async with serve() as client:

        async def has_processes() -> bool:
            return await client.service.parsing.are_up(read_rank)

        await until(has_processes)
        first = await rank(client, **asked)
        body, more = json.dumps({"actions": ACTIONS, **asked}), " " * READ_AT_ONCE_BYTES
        answer = await client.post(f"{ROOT}/rank", content=body + more)
        assert answer.json() == first  # else 409: another body
        answer = await client.post(f"{ROOT}/rank", content="{" + more)
        refused(answer, 400, "BadRequest", "malformed_json", "body")
