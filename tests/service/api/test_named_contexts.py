"""Contexts as objects: the session keeps what their names mean, rows hold numbers."""

from typing import Any

import pytest

from tests.examples import on_one_database
from tests.service.conftest import Client, Serve, problem, until

pytestmark = pytest.mark.anyio
SHOP = {"algorithm": "ad_lasso", "dim": 4, "horizon": 4, "name": "shop"}
PRICED: list[dict[str, Any]] = [
    {"price": 3.2, "brand": "x"},
    {"price": 1, "brand": "y", "new": True},
]
AS_NUMBERS = [[3.2, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 1.0]]


async def contexts_of(client: Client, session: str, trajectory: str = "") -> list[list[float]]:
    rounds = await client.read(f"/v1/sessions/{session}/rounds?trajectory={trajectory}")
    return [item["context"] for item in rounds["items"]]


async def test_first_use_names_the_columns_and_rows_hold_numbers(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**SHOP)
        assert (await client.read(f"/v1/sessions/{session}"))["features"] is None
        await client.decide(session, PRICED, forced_arm=1)
        made = await client.read(f"/v1/sessions/{session}")
        assert made["features"] == ["price", "brand=x", "brand=y", "new"]
        await client.decide(session, [[9.0, 8.0, 7.0, 6.0]])  # numbers still go beside names
        await client.decide(session, [{"brand": "y"}])
    async with serve() as client:  # what is stored is enough
        await client.decide(session, PRICED, forced_arm=0)
        assert await contexts_of(client, session) == [
            AS_NUMBERS[1],
            [9.0, 8.0, 7.0, 6.0],
            [0.0, 0.0, 1.0, 0.0],
            AS_NUMBERS[0],
        ]


@on_one_database
async def test_names_decide_as_the_same_numbers_do(serve: Serve) -> None:
    """Two sessions, one told names and one numbers, agree on every arm and every estimate."""
    async with serve() as client:
        body = {**SHOP, "seed": 7, "refit": "blocking", "options": {"L": 2}}
        named = await client.create(**body, features=["price"])
        plain = await client.create(**{**body, "name": "plain"})
        for i in range(12):
            ours = await client.decide(named, PRICED[:: (-1) ** i])
            theirs = await client.decide(plain, AS_NUMBERS[:: (-1) ** i])
            assert (ours["arm"], ours["scores"]) == (theirs["arm"], theirs["scores"])
            for session in (named, plain):
                await client.reward(session, round=i + 1, value=float(ours["arm"] + i % 3))
        assert await contexts_of(client, named) == await contexts_of(client, plain)


async def test_a_repeat_gets_the_first_answer_and_another_object_is_a_conflict(
    serve: Serve,
) -> None:
    async with serve() as client:
        session = await client.create(**SHOP)
        path = f"/v1/sessions/{session}/decisions"
        body = {"contexts": PRICED, "event_id": "e"}
        first = await client.post(path, json=body)
        same = {"event_id": "e", "contexts": [dict(reversed(one.items())) for one in PRICED]}
        again = await client.post(path, json=same)
        assert (again.status_code, again.json()) == (200, first.json())
        other = {**body, "contexts": [{**PRICED[0], "price": 3.3}, PRICED[1]]}
        problem(await client.post(path, json=other), 409, "event_conflict", "event_id")
        as_text = {**body, "contexts": [PRICED[0], {**PRICED[1], "price": "1.0"}]}
        problem(await client.post(path, json=as_text), 409, "event_conflict", "event_id")


BAD: list[tuple[Any, str, str]] = [
    ([{"price": None}], "invalid", "contexts[0].price"),
    ([{"price": [1.0]}], "invalid", "contexts[0].price"),
    ([{"price": [{}, [1.0]]}], "invalid", "contexts[0].price"),
    ([{"price": 1.0, "rewards": [{}, 1.0]}], "invalid", "contexts[0].rewards"),
    ([{"price": 1e13}], "out_of_range", "contexts[0].price"),
    ([{"price": 10**400}], "out_of_range", "contexts[0].price"),
    ([{"price": 1.0}, {"brand": "x" * 257}], "invalid", "contexts[1].brand"),
    ([{"a=b": 1.0}], "invalid", "contexts[0]"),
    ([{"": 1.0}], "invalid", "contexts[0]"),
    ([{"price": 1.0}, [1.0, 2.0, 3.0, 4.0]], "invalid", "contexts[1]"),
    ([[1.0, 2.0, 3.0, 4.0], {"price": 1.0}], "invalid", "contexts[1]"),
    ([{"price": "low"}], "invalid", "contexts[0].price"),
    ([{letter: 1.0} for letter in "abcd"], "no_column", "contexts[3].d"),
]


@on_one_database
@pytest.mark.parametrize(("contexts", "code", "field"), BAD)
async def test_a_bad_object_is_named_and_writes_nothing(
    serve: Serve, contexts: Any, code: str, field: str
) -> None:
    async with serve() as client:
        session = await client.create(**SHOP, features=["price"])
        for route in ("decisions", "rank", "history"):
            body = {"contexts": contexts}
            answer = await client.post(f"/v1/sessions/{session}/{route}", json=body)
            problem(answer, 422, code, field)
        batch = {"items": [{"session_id": session, "decision": {"contexts": contexts}}]}
        [item] = (await client.post("/v1/batch", json=batch)).json()["items"]
        assert (item["problem"]["code"], item["problem"]["field"]) == (code, field)
        found = await client.read(f"/v1/sessions/{session}")
        assert (found["n_rounds"], found["features"]) == (0, ["price"])


async def test_numbers_and_names_are_not_mixed_by_accident(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**SHOP)
        await client.decide(session, [[1.0, 2.0, 3.0, 4.0]])
        answer = await client.post(f"/v1/sessions/{session}/decisions", json={"contexts": PRICED})
        problem(answer, 422, "invalid", "contexts")
        named = await client.create(**{**SHOP, "name": "named"}, features=["price"])
        short = {"contexts": [[1.0]]}
        wrong = await client.post(f"/v1/sessions/{named}/decisions", json=short)
        problem(wrong, 422, "wrong_shape", "contexts")
        assert "(price)" in wrong.json()["detail"]


@on_one_database
async def test_a_session_with_products_decides_as_one_that_is_given_them(serve: Serve) -> None:
    """Scores, rounds and estimates are those of the products as features, objects or lists."""
    async with serve() as client:
        body = {**SHOP, "dim": 3, "seed": 7, "refit": "blocking", "options": {"L": 2}}
        told = {"features": ["price", "new"], "products": [["price", "new"]]}
        ours = await client.create(**body, **told)
        plain = await client.create(**{**body, "name": "plain"})
        for i in range(12):
            contexts = [[0.5 * j - 1.0, float((i + j) % 3)] for j in range(3)]
            given: Any = contexts if i % 2 else [{"price": p, "new": n} for p, n in contexts]
            found = await client.decide(ours, given)
            same = await client.decide(plain, [[p, n, p * n] for p, n in contexts])
            assert (found["arm"], found["scores"]) == (same["arm"], same["scores"])
            for session in (ours, plain):
                await client.reward(session, round=i + 1, value=float(found["arm"] + i % 3))
        assert await contexts_of(client, ours) == await contexts_of(client, plain)
        made = await client.read(f"/v1/sessions/{ours}")
        assert (made["features"], made["products"]) == (
            ["price", "new", "price x new"],
            [["price", "new"]],
        )
        whole = {"contexts": [[1.0, 2.0, 2.0]]}
        answer = await client.post(f"/v1/sessions/{ours}/rank", json=whole)
        problem(answer, 422, "wrong_shape", "contexts")
        for products in ([["price", "other"]], [["price", "price x new"]], [["price", "new"]] * 2):
            refused = await client.post(
                "/v1/sessions", json={**body, **told, "dim": 9, "name": "bad", "products": products}
            )
            field = "features" if len(products) == 2 else "products"
            problem(refused, 422, "invalid", field)


async def test_a_preview_keeps_no_name_and_a_log_keeps_all_of_its_names(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**SHOP)
        path = f"/v1/sessions/{session}"
        assert (await client.post(f"{path}/rank", json={"contexts": PRICED})).status_code == 200
        assert (await client.read(path))["features"] is None
        log = [{"price": float(i), "brand": "xy"[i % 2]} for i in range(300)]  # several slices
        body = {"contexts": log, "rewards": [1.0] * 300, "import_id": "log", "trajectory": "log"}
        assert (await client.post(f"{path}/history", json=body)).status_code == 201
        assert (await client.post(f"{path}/history", json=body)).status_code == 200
        assert (await client.read(path))["features"] == ["price", "brand=x", "brand=y"]
        found = await contexts_of(client, session, "log")
        assert found[1] == [1.0, 0.0, 1.0, 0.0]
        assert len(found) == 100
        other = {**body, "contexts": [{**log[0], "price": 1.0}, *log[1:]]}
        problem(await client.post(f"{path}/history", json=other), 409, "event_conflict")


async def test_the_names_go_with_an_export(serve: Serve) -> None:
    async with serve() as client:
        shop = {**SHOP, "categories": "hashed", "features": ["price"], "arms": ["a", "b"]}
        session = await client.create(**shop)
        await client.decide(session, PRICED)
        file = (await client.get(f"/v1/sessions/{session}/events")).content
        made = await client.post("/v1/sessions/import?name=copy", content=file)
        assert made.status_code == 201, made.text
        copy = made.json()
        assert (copy["features"], copy["categories"], copy["arms"]) == (
            *(["price"], "hashed"),
            ["a", "b"],
        )
        ours, theirs = [await client.decide(one, PRICED) for one in (session, copy["id"])]
        assert ours["scores"] == theirs["scores"]
        assert await contexts_of(client, session) == await contexts_of(client, copy["id"])


async def test_the_arms_of_a_session_name_those_of_its_decisions(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**SHOP, arms=["left", "right"])
        path = f"/v1/sessions/{session}"
        taken = await client.decide(session, PRICED)
        assert taken["arm_id"] == ["left", "right"][taken["arm"]]
        ranked = await client.post(f"{path}/rank", json={"contexts": PRICED})
        assert set(ranked.json()["arm_ids"]) == {"left", "right"}
        answer = await client.post(f"{path}/decisions", json={"contexts": PRICED[:1]})
        problem(answer, 422, "wrong_shape", "contexts")
        other = await client.decide(session, PRICED[:1], arm_ids=["middle"])
        assert other["arm_id"] == "middle"
        skipped = await client.post(f"{path}/decisions", json={"skip": True})
        assert skipped.json()["arm_id"] is None


@on_one_database
@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({"features": ["a", "a"]}, "invalid", "features"),
        ({"features": list("abcde")}, "out_of_range", "features"),
        ({"features": ["a=b"]}, "invalid", "features[0]"),
        ({"features": []}, "invalid", "features"),
        ({"features": list("abcd"), "categories": "hashed"}, "out_of_range", "dim"),
        ({"categories": "other"}, "invalid", "categories"),
        ({"arms": ["a", "a"]}, "invalid", "arms"),
        ({"arms": []}, "invalid", "arms"),
    ],
)
async def test_names_that_cannot_be_given(
    serve: Serve, given: dict[str, Any], code: str, field: str
) -> None:
    async with serve() as client:
        problem(await client.post("/v1/sessions", json={**SHOP, **given}), 422, code, field)


async def test_a_repeated_creation_is_known_with_and_without_the_defaults(serve: Serve) -> None:
    async with serve() as client:
        first = await client.create(**SHOP)
        said = {"features": None, "categories": "one_hot", "arms": None}
        again = await client.post("/v1/sessions", json={**SHOP, "seed": 1, **said})
        assert (again.status_code, again.json()["id"]) == (200, first)
        other = await client.post("/v1/sessions", json={**SHOP, "seed": 1, "features": ["price"]})
        problem(other, 409, "session_conflict", "name")


@on_one_database
async def test_an_estimate_says_what_its_theta_is_of(serve: Serve) -> None:
    async with serve() as client:
        body = {"dim": 2, "horizon": 1, "algorithm": "anytime", "name": "e", "refit": "blocking"}
        session = await client.create(**body, features=["price", "stock"])
        path = f"/v1/sessions/{session}"
        numbers = [[(-1.0) ** i, (-1.0) ** (i // 2)] for i in range(64)]
        log = {"contexts": numbers, "rewards": [row[0] for row in numbers]}
        assert (await client.post(f"{path}/history", json=log)).status_code == 201
        await client.decide(session, [{"price": 1.0}, {"stock": 1.0}])

        async def estimated() -> Any:
            found = await client.read(f"{path}/estimate")
            return found if found["status"] == "ok" else None

        found = await until(estimated)
        assert found["features"] == ["price", "stock"]
        assert found["theta"][0] > abs(found["theta"][1])


async def test_the_name_of_a_category_is_erased_and_its_column_stays(serve: Serve) -> None:
    async with serve() as client:
        session = await client.create(**SHOP | {"dim": 5})
        path = f"/v1/sessions/{session}"
        await client.decide(session, PRICED, forced_arm=0)
        problem(await client.delete(f"{path}/features/brand=z"), 404, "unknown_feature", "name")
        problem(await client.delete(f"{path}/features/price"), 422, "invalid", "name")
        assert (await client.delete(f"{path}/features/brand=x")).status_code == 204
        problem(await client.delete(f"{path}/features/brand=x"), 404, "unknown_feature", "name")
        erased = ["price", "brand=(erased 1)", "brand=y", "new"]
        assert (await client.read(path))["features"] == erased
        await client.decide(session, [{"brand": "y"}])
        assert (await contexts_of(client, session))[-1] == [0.0, 0.0, 1.0, 0.0, 0.0]
        file = (await client.get(f"{path}/events")).content
        assert b"brand=x" not in file
        typed = {"content-type": "application/x-ndjson"}
        moved = await client.post("/v1/sessions/import?name=moved", content=file, headers=typed)
        assert moved.json()["features"] == erased
        await client.decide(session, [{"brand": "x"}])  # it is somebody new
        assert (await contexts_of(client, session))[-1] == [0.0, 0.0, 0.0, 0.0, 1.0]
        assert (await client.read(path))["features"] == [*erased, "brand=x"]
        entries = (await client.read("/v1/audit"))["items"]
        about = [item["detail"] for item in entries if item["action"] == "feature_erased"]
        assert about == [{"column": 1}]
        hashed = await client.create(**SHOP | {"name": "hashed", "categories": "hashed"})
        answer = await client.delete(f"/v1/sessions/{hashed}/features/brand=x")
        problem(answer, 422, "invalid", "name")
        problem(await client.delete("/v1/sessions/none/features/a=b"), 404, "unknown_session")
