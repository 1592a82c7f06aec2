"""Sessions over HTTP, and what the server says about itself."""

from typing import Any

import httpx
import pytest

from lhb_engine.agents import ALGORITHMS
from tests.service.conftest import Serve, problem

pytestmark = pytest.mark.anyio

BODY = {"algorithm": "ad_lasso", "dim": 3, "horizon": 24, "seed": 7, "options": {"L": 2}}


async def test_a_session_says_what_it_is(serve: Serve) -> None:
    async with serve() as client:
        answer = await client.post("/v1/sessions", json={**BODY, "name": "shop"})
        assert answer.status_code == 201
        body = answer.json()
        assert answer.headers["location"] == f"/v1/sessions/{body['id']}"
        assert {key: body[key] for key in BODY} == BODY
        assert (body["refit"], body["reward_mode"], body["default_reward"]) == (
            *("background", "single", None),
        )
        assert await client.read(f"/v1/sessions/{body['id']}") == body
        nothing = {"status": "none", "deciding": body["deciding"], "findings": [], "unchecked": []}
        nothing["checked"] = None
        assert await client.read(f"/v1/sessions/{body['id']}/estimate") == nothing
    async with serve() as client:
        assert await client.read(f"/v1/sessions/{body['id']}") == body


async def test_creation_by_name_is_safe_to_repeat(serve: Serve) -> None:
    async with serve() as client:
        first = await client.post("/v1/sessions", json={**BODY, "name": "shop"})
        again = await client.post(
            "/v1/sessions", json={"name": "shop", "reward_mode": "single", **BODY}
        )
        assert (again.status_code, again.json()) == (200, first.json())
        other = await client.post("/v1/sessions", json={**BODY, "name": "shop", "dim": 4})
        problem(other, 409, "session_conflict", "name")
        nameless = [await client.post("/v1/sessions", json=BODY) for _ in range(2)]
        assert nameless[0].json()["id"] != nameless[1].json()["id"]


async def test_a_creation_is_known_again_after_a_rename(serve: Serve) -> None:
    asked = {**BODY, "name": "shop"}
    async with serve() as client:
        first = (await client.post("/v1/sessions", json=asked)).json()
        path = f"/v1/sessions/{first['id']}"
        assert (await client.patch(path, json={"name": "old shop"})).status_code == 200
        again = await client.post("/v1/sessions", json=asked)
        assert (again.status_code, again.json()) == (200, {**first, "name": "old shop"})
        assert again.headers["location"] == path
        other = await client.post("/v1/sessions", json={**asked, "dim": 4})
        assert other.status_code == 201  # the name is free for another session
        assert (await client.post("/v1/sessions", json=asked)).json()["id"] == first["id"]
        assert (await client.delete(path)).status_code == 204
        taken = await client.post("/v1/sessions", json=asked)
        problem(taken, 409, "session_conflict", "name")


async def test_the_default_algorithm_needs_no_option(serve: Serve) -> None:
    async with serve() as client:
        answer = await client.post("/v1/sessions", json={"dim": 2, "horizon": 5})
        assert (answer.status_code, answer.json()["algorithm"]) == (201, "anytime")


async def test_equal_numbers_are_equal_bodies_however_they_are_written(serve: Serve) -> None:
    async with serve() as client:

        async def create(numbers: str) -> httpx.Response:
            body = '{"name": "shop", "algorithm": "ad_lasso", "dim": 3, "horizon": 24, %s}'
            return await client.post("/v1/sessions", content=body % numbers)

        first = await create('"options": {"c": 1}, "default_reward": 0.0')
        assert first.status_code == 201, first.text
        for same in ('{"c": 1.0}, "default_reward": -0.0', '{"c": 1e0}, "default_reward": 0'):
            again = await create(f'"options": {same}')
            assert (again.status_code, again.json()) == (200, first.json())
        for other in ('{"c": true}, "default_reward": 0', '{"c": 1}, "default_reward": 1'):
            problem(await create(f'"options": {other}'), 409, "session_conflict", "name")


async def test_a_seed_is_drawn_once(serve: Serve) -> None:
    async with serve() as client:
        body = {"algorithm": "uniform", "dim": 1, "horizon": 1, "name": "x"}
        first = (await client.post("/v1/sessions", json=body)).json()
        assert 0 <= first["seed"] < 2**53
        assert (await client.post("/v1/sessions", json=body)).json() == first


BAD: list[tuple[Any, int, str, str]] = [
    ({"algorithm": "nope"}, 422, "unknown_algorithm", "algorithm"),
    ({"algorithm": "oracle"}, 422, "oracle_refused", "algorithm"),
    ({"options": {"colour": 1}}, 422, "bad_option", "options.colour"),
    ({"options": {"L": 0}}, 422, "bad_option", "options.L"),
    ({"options": {"gamma": "x"}}, 422, "bad_option", "options.gamma"),
    ({"options": {"c": 10**400}}, 422, "bad_option", "options.c"),
    ({"algorithm": "anytime", "options": {"memory": 10**400}}, 422, "bad_option", "options"),
    ({"options": {"dim": 1}}, 422, "bad_option", "options.dim"),
    ({"algorithm": "lin_ucb", "options": {}, "dim": 129}, 422, "bad_option", "dim"),
    ({"algorithm": "ucb_mp", "options": {}, "horizon": 10_001}, 422, "bad_option", "horizon"),
    ({"options": []}, 422, "invalid", "options"),
    ({"dim": 0}, 422, "out_of_range", "dim"),
    ({"dim": 2.0}, 422, "invalid", "dim"),
    ({"dim": "2"}, 422, "invalid", "dim"),
    ({"horizon": 0}, 422, "out_of_range", "horizon"),
    ({"seed": 2**53}, 422, "out_of_range", "seed"),
    ({"seed": -1}, 422, "out_of_range", "seed"),
    ({"name": ""}, 422, "invalid", "name"),
    ({"reward_mode": "mean"}, 422, "invalid", "reward_mode"),
    ({"reward_wait_seconds": -1.0}, 422, "out_of_range", "reward_wait_seconds"),
    ({"colour": 1}, 422, "unknown_field", "colour"),
    ({"clock": {"slot_seconds": 60, "start": "today"}}, 422, "invalid", "clock.start"),
    (b'{"algorithm": "uniform", "dim": 2}', 422, "missing", "horizon"),
    (
        b'{"options": {"L": 1, "L": 2}, "algorithm": "ad_lasso", "dim": 1, "horizon": 1}',
        *(400, "duplicate_key", "L"),
    ),
    (b"{nope", 400, "malformed_json", "body"),
]


async def test_bad_sessions_name_the_field_and_are_not_made(
    serve: Serve, subtests: pytest.Subtests
) -> None:
    async with serve() as client:
        for change, status, code, field in BAD:
            with subtests.test(change=change):
                if isinstance(change, bytes):
                    answer = await client.post("/v1/sessions", content=change)
                else:
                    answer = await client.post("/v1/sessions", json={**BODY, **change})
                problem(answer, status, code, field)
                for term in ("Extra inputs", "Value error"):  # of the parser, not of ours
                    assert term not in answer.json()["detail"]
                assert (await client.read("/v1/sessions"))["items"] == []


async def test_pages_follow_the_cursor(serve: Serve) -> None:
    async with serve() as client:
        made = [await client.create(name=f"s{i}") for i in range(7)]
        seen: list[str] = []
        cursor = ""
        while True:
            page = await client.read(f"/v1/sessions?limit=3&cursor={cursor}")
            seen += [item["id"] for item in page["items"]]
            if page["next"] is None:
                break
            cursor = page["next"]
        assert sorted(seen) == sorted(made)
        assert len(set(seen)) == 7
        problem(await client.get("/v1/sessions?limit=0"), 422, "invalid", "limit")
        session = made[0]
        for _ in range(5):
            await client.decide(session)
        page = await client.read(f"/v1/sessions/{session}/rounds?limit=3")
        rest = await client.read(f"/v1/sessions/{session}/rounds?limit=3&cursor={page['next']}")
        assert [item["round"] for item in page["items"] + rest["items"]] == [1, 2, 3, 4, 5]
        assert rest["next"] is None


async def test_rename_archive_and_delete(serve: Serve) -> None:
    async with serve() as client:
        first, second = await client.create(name="a"), await client.create(name="b")
        path = f"/v1/sessions/{first}"
        problem(await client.patch(path, json={"name": "b"}), 409, "session_conflict", "name")
        assert (await client.patch(path, json={"name": "c"})).json()["name"] == "c"
        assert (await client.patch(path, json={"archived": True})).json()["archived"]
        listed = await client.read("/v1/sessions")
        assert [item["id"] for item in listed["items"]] == [second]
        listed = await client.read("/v1/sessions?archived=true")
        assert len(listed["items"]) == 2
        assert not (await client.patch(path, json={"archived": False})).json()["archived"]
        await client.decide(first, event_id="e", trajectory="t")
        await client.reward(first, value=1.0, round=1, trajectory="t")
        assert (await client.delete(path)).status_code == 204
        for answer in (await client.get(path), await client.delete(path)):
            problem(answer, 404, "unknown_session", "session_id")
        for page in ("estimate", "estimates", "epochs", "rounds", "decisions/e"):
            problem(await client.get(f"{path}/{page}"), 404, "unknown_session", "session_id")
        again = await client.create(name="c")
        assert (await client.decide(again, event_id="e", trajectory="t"))["round"] == 1


async def test_algorithms_are_listed_with_their_options(serve: Serve) -> None:
    async with serve() as client:
        items = {item["name"]: item for item in (await client.read("/v1/algorithms"))["items"]}
        assert set(items) == set(ALGORITHMS)
        assert not items["oracle"]["served"]
        options = items["ad_lasso"]["options"]["properties"]
        assert options["reg"]["default"] == "noise_adaptive"
        assert all("description" in option for option in options.values())


async def test_head_is_get_without_its_body(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create()
        for path in ("/healthz", "/v1/sessions", f"/v1/sessions/{session}", "/metrics", "/v1/nope"):
            head, get = await client.head(path), await client.get(path)
            assert head.content == b""
            assert head.status_code == get.status_code
            assert head.headers["content-type"] == get.headers["content-type"]
            if path != "/metrics":
                assert head.headers["content-length"] == get.headers["content-length"]
        assert (await client.head(f"/v1/sessions/{session}/decisions")).status_code == 405
        assert 'method="HEAD",route="/v1/sessions",' in (await client.get("/metrics")).text


async def test_health_metrics_schema_and_unknown_routes(serve: Serve) -> None:
    async with serve() as client:
        assert (await client.read("/healthz"))["status"] == "ok"
        assert (await client.read("/readyz"))["database"] == "ok"
        await client.decide(await client.create())
        metrics = (await client.get("/metrics")).text
        assert 'route="/v1/sessions/{session_id}/decisions",status="201"} 1.0' in metrics
        assert "lhb_commands_total 2.0" in metrics
        problem(await client.get("/nowhere"), 404, "unknown_route")
        problem(await client.put("/v1/sessions"), 405, "method_not_allowed")
        schema = await client.read("/openapi.json")
        body = schema["paths"]["/v1/sessions/{session_id}/decisions"]["post"]["requestBody"]
        assert body["content"]["application/json"]["schema"]["$ref"].endswith("/DecisionBody")
        properties = schema["components"]["schemas"]["DecisionOfContexts"]["properties"]
        assert {"contexts", "rewards", "event_id", "arm_ids"} <= set(properties)
        assert schema["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        references = str(schema)
        for name in schema["components"]["schemas"]:
            assert f"#/components/schemas/{name}'" in references
        answer = await client.get("/healthz")
        assert answer.headers["x-request-id"]


async def test_options_that_mean_no_new_model_change(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(algorithm="anytime", options={"memory": 100})
        path = f"/v1/sessions/{session}"
        changed = {"options": {"memory": 50, "epsilon": 0.5}, "reward_wait_seconds": 9}
        answer = await client.patch(path, json=changed)
        assert answer.status_code == 200
        assert answer.json()["options"] == {"memory": 50, "epsilon": 0.5}
        assert (await client.read(path))["reward_wait_seconds"] == 9.0
        bad = {"options": {"signed": True}, "name": "other"}
        problem(await client.patch(path, json=bad), 422, "bad_option", "options.signed")
        assert (await client.read(path))["name"] is None
        problem(await client.patch(path, json={"options": 3}), 422, "invalid", "options")
        listed = (await client.read("/v1/algorithms"))["items"]
        [schema] = [one["options"] for one in listed if one["name"] == "anytime"]
        may = [name for name, said in schema["properties"].items() if said.get("changeable")]
        anew = ["seasonality", "trend", "levels", "own", "groups"]
        assert {*may} == {"epsilon", "memory", "most_stale", "adopts", *anew, "profiles"}
        assert [name for name in may if schema["properties"][name]["changeable"] == "anew"] == anew
